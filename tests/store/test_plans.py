"""Every statement finds its rows by an index, also by a plan that was made while the tables were empty.

PostgreSQL keeps the plan of a prepared statement, and of a statement in a function, until one of its tables is analyzed
again. After ANALYZE of an empty table it expects one row: reading a whole index, or the wrong one, then seems as cheap as
a lookup. So statements are written such that no other plan is possible (registry/store/statements.py).
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from collections.abc import Iterator
from typing import Any, Final

import psycopg
import pytest

import registry.store
from registry.store import session
from registry.store.exchange import numbered
from registry.store.reads import pages
from registry.store.reads.pages import Query
from registry.store.reads.selectors import predicate
from registry.store.statements import Statement
from registry.store.types import ObjectKey, ResourceName, TenantId
from tests.databases import temporary_database

# Tables whose rows clients make. Partitions of the log are called changes_...
GROWING: Final = re.compile(
    "objects|object_counts|tenants|domains|changes.*|index_entries|search_words|ready_indexes|api_bindings|access_tokens|tenant_keys"
)
# Read a whole table, or all that a partial index has, in the background or for a command.
WHOLE: Final = {
    "any-object",
    "clean-api-bindings",
    "clean-tokens",
    "count-rows-to-seal",
    "masters-in-use",
    "matching-bodies",
    "one-wrapped-by-each",
    "pending",
    "pending-of-resource",
    "reports-follow-bindings",
    "reports-of-gone-tenants",
    "reports-that-bindings-move",
    "wrapped-by-others",
}
# Read what a tenant has of all resources.
OF_TENANT: Final = {
    "delete-changes-of-tenant",
    "delete-objects-of-tenant",
    "has-rows-to-seal",
    "reseal-changes",
    "reseal-objects",
    "resources",
    "resources-in-namespace",
    "stale-changes",
    "stale-objects",
}
PARTITIONS: Final = """
    CREATE TABLE changes_now PARTITION OF changes FOR VALUES FROM (now()) TO (now() + interval '1 day');
    CREATE TABLE changes_next PARTITION OF changes FOR VALUES FROM (now() + interval '1 day') TO (MAXVALUE)
"""
LEADING: Final = """
    SELECT c.relname, a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    JOIN pg_attribute a ON a.attrelid = i.indexrelid AND a.attnum = 1
"""


def statements() -> dict[str, Statement]:
    """Those that modules define, and some that depend on the query; those of a partition are left out."""
    of_nothing = predicate(TenantId(1), ResourceName("widgets"), ())
    queries = [Query(ResourceName("widgets"), **options) for options in (
        {}, {"namespace": "a"}, {"key": ObjectKey("a")}, {"labels": 7})]  # fmt: skip
    made = [
        *(pages._page_now(query, of_nothing, pages._GATHERED) for query in queries),
        *(pages._page_at(query, of_nothing, pages._GATHERED, near=near) for query in queries for near in (True, False)),
        *(pages._remaining_statement(query) for query in queries),
    ]
    for module in pkgutil.walk_packages(registry.store.__path__, "registry.store."):
        for value in vars(importlib.import_module(module.name)).values():
            made += _statements_in(value)
    distinct = sorted({one.sql: one for one in made if "{partition}" not in one.sql}.values(), key=lambda one: one.name)
    return {f"{number}-{one.name}": one for number, one in enumerate(distinct)}


def _statements_in(value: object) -> Iterator[Statement]:
    if isinstance(value, Statement):
        yield value
    elif isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple):
        for one in value:
            yield from _statements_in(one)


STATEMENTS: Final = statements()


@pytest.fixture(scope="module")
def empty(postgres_server: str, template_database: str) -> Iterator[psycopg.Connection[Any]]:
    """A session of a server on a database that was analyzed while it was empty. Plans do not depend on values."""
    with (
        temporary_database(postgres_server, template_database) as url,
        psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection,
    ):
        # As a server does, at least two: PostgreSQL 18 scans a single one in spite of the setting.
        connection.execute(PARTITIONS)
        connection.execute("ANALYZE")
        connection.execute(session._SESSION)
        connection.execute("SET plan_cache_mode = force_generic_plan")
        yield connection


def wrong_scans(connection: psycopg.Connection[Any], plan: dict[str, Any], *, of_tenant: bool = False) -> list[str]:
    """Scans of growing tables that no condition on the first column of an index bounds; and, unless they are `of_tenant`,
    those of objects and changes by their tenant alone."""
    leading = dict(connection.execute(LEADING).fetchall())
    wrong = []
    for node in _nodes(plan):
        index, condition = node.get("Index Name", ""), node.get("Index Cond", "")
        table = node.get("Relation Name", index)
        if not GROWING.fullmatch(table) or node["Node Type"] in ("ModifyTable", "Bitmap Heap Scan", "Tid Scan"):
            continue
        columns = {leading.get(index, "(no index)")}
        if not of_tenant and re.search("objects_pkey|_tenant_id_resource", index):
            columns.add("resource")
        if not all(re.search(rf"\b{re.escape(column)}\b", condition) for column in columns):
            wrong.append(f"{node['Node Type']} of {table} by {index or 'nothing'}: {condition or 'all of it'}")
    return wrong


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _nodes(below)


@pytest.mark.parametrize("name", STATEMENTS)
def test_statements_look_up(empty: psycopg.Connection[Any], name: str) -> None:
    one = STATEMENTS[name]
    text, parameters = numbered(one.sql)
    nothing = f"({', '.join(['NULL'] * len(parameters))})" if parameters else ""
    empty.execute(f"PREPARE one AS {text}".encode())
    try:
        [[[found]]] = empty.execute(f"EXPLAIN (FORMAT JSON) EXECUTE one {nothing}".encode()).fetchall()
    finally:
        empty.execute("DEALLOCATE one")
    wrong = wrong_scans(empty, found["Plan"], of_tenant=one.name in OF_TENANT)
    assert bool(wrong) == (one.name in WHOLE), wrong


WRITE: Final = """ARRAY[(
    t.id, t.domain_id, 1, %(flags)s, NULL, NULL, NULL, 2, %(operation)s, %(resource)s, %(key)s, 'x', 'v1', '"spec":{}}', 'a',
    'a', 'a', NULL, NULL, NULL, %(unless_used)s, '{8}', ARRAY[int8send(8) || %(entry)s::bytea]::text)::registry_write]"""
COMMIT: Final = f"SELECT c.* FROM tenants t, registry_commit(1, {WRITE}, 1000, %(exact)s) c WHERE t.name = %(tenant)s"
COMMIT_TENANT: Final = (
    f"SELECT c.* FROM tenants t, registry_commit_tenant(1, {WRITE}, 1000, true, %(wanted)s) c WHERE t.name = %(tenant)s"
)
COMMIT_SHARED: Final = COMMIT_TENANT.replace("commit_tenant", "commit_shared")
INDEX: Final = """
SELECT registry_index_begin(t.id, t.domain_id, 'widgets', ARRAY[8::bigint], 5),
    registry_index_put(t.id, t.domain_id, 'widgets', 5, 2, ARRAY['a/a'], ARRAY[{revision}::bigint],
        ARRAY[ARRAY[int8send(8) || '\\x0262'::bytea]::text], NULL),
    registry_index_ready(t.id, t.domain_id, 'widgets', ARRAY[8::bigint], 5)
FROM tenants t WHERE t.name = 'a'
"""
CREATED: Final = {
    "tenant": "a", "flags": 0, "operation": "create", "resource": "widgets", "key": "a/a", "unless_used": None,
    "entry": b"\x02a", "exact": True,
}  # fmt: skip
TENANTS: Final = {"kind": "tenant", "life": "living", "parent": "p", "domain": "shared"}
BINDING: Final = {
    "kind": "binding", "binding": "b", "provider": "a", "export": "e", "definitions": ["widgets"],
    "seen": [["widgets", "a/a", 3]],
}  # fmt: skip
DEFINITION: Final = {
    "kind": "definition", "name": "widgets", "ending": False, "removed": ["v0"], "bindings": "bindings", "actor": "a",
    "manager": "m",
}  # fmt: skip
GROWTH: Final = """
WITH made AS (
    INSERT INTO objects (
        tenant_id, resource, key, uid, revision, version, schema_id, body, created_at, updated_at, index_entries)
    SELECT t.id, 'widgets', 'b/' || n, n::text, 1, 'v1', 1, '"spec":{}}', now(), now(), ARRAY[int8send(8) || int4send(n)]
    FROM tenants t, generate_series(1, 20000) AS n RETURNING tenant_id, key, index_entries
)
INSERT INTO index_entries SELECT tenant_id, index_entries[1], key FROM made
"""


def _calls() -> Iterator[tuple[str, dict[str, Any]]]:
    for name in ("p", "a", "b"):
        wanted = TENANTS | {"name": name, "sqlSchema": name} | ({} if name != "p" else {"parent": None})
        yield (
            COMMIT_TENANT,
            {**CREATED, "tenant": "system", "resource": "tenants", "key": name, "wanted": json.dumps(wanted)},
        )
    yield COMMIT, CREATED
    yield COMMIT, CREATED | {"operation": "update", "entry": b"\x01b"}
    for key, unused in (("b/a", {"resource": "gadgets"}), ("c/a", {"prefix": "n/", "except": {"events": None}})):
        yield COMMIT, CREATED | {"key": key, "unless_used": json.dumps(unused), "exact": False}
    yield INDEX.format(revision=2), {}
    shares = CREATED | {"tenant": "b", "resource": "bindings", "key": "b"}
    yield COMMIT_SHARED, shares | {"wanted": json.dumps(BINDING | {"seen": []})}
    yield COMMIT_SHARED, shares | {"key": "c", "wanted": json.dumps(BINDING)}
    yield COMMIT_SHARED, CREATED | {"resource": "definitions", "key": "widgets", "wanted": json.dumps(DEFINITION)}
    yield (
        COMMIT_SHARED,
        shares | {"operation": "update", "wanted": json.dumps({"kind": "binding", "binding": "b", "ends": True})},
    )
    yield COMMIT, CREATED | {"operation": "delete"}
    ends = TENANTS | {"name": "a", "life": "ending"}
    yield COMMIT_TENANT, {
        **CREATED, "tenant": "system", "operation": "update", "resource": "tenants", "key": "a", "wanted": json.dumps(ends)
    }  # fmt: skip


def test_functions_look_up(empty: psycopg.Connection[Any]) -> None:
    """By what the module auto_explain says of the statements in functions and triggers."""
    try:
        empty.execute("LOAD 'auto_explain'")
    except psycopg.Error:
        pytest.skip("the server has no auto_explain, or the role may not load it")
    said: list[str] = []
    empty.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
    with empty.transaction(force_rollback=True):
        empty.execute("INSERT INTO domains DEFAULT VALUES")
        empty.execute("INSERT INTO tenants (name, domain_id) SELECT 'system', id FROM domains")
        for setting, value in {
            "auto_explain.log_min_duration": "0",
            "auto_explain.log_nested_statements": "on",
            "auto_explain.log_format": "json",
            "client_min_messages": "log",
        }.items():
            empty.execute(f"SET LOCAL {setting} = {value}".encode())
        outcomes = []
        for call, values in _calls():
            outcomes += [row[1] for row in empty.execute(call, values).fetchall()]
    plans = [json.loads(text[text.index("{") :]) for text in said if "plan:" in text]
    wrong = {
        f"{one['Query Text'][:100]}: {scans}"
        for one in plans
        if "FROM tenants t, registry_" not in one["Query Text"]
        and (scans := wrong_scans(empty, one["Plan"], of_tenant=True))
    }
    assert not wrong, "\n".join(sorted(wrong))
    # The second binding refers to a state that is no longer there.
    assert outcomes == [*["ok"] * 9, "sharing", *["ok"] * 4]


def test_writes_cost_the_same_after_tables_have_grown(empty: psycopg.Connection[Any]) -> None:
    with empty.transaction(force_rollback=True):
        empty.execute("INSERT INTO domains DEFAULT VALUES")
        empty.execute("INSERT INTO tenants (name, domain_id) SELECT 'a', id FROM domains")
        calls = [CREATED | {"operation": operation} for operation in ("create", "update", "delete")]
        for values in calls:
            empty.execute(COMMIT, values)
        empty.execute(GROWTH)
        for values in calls:
            [[[found]]] = empty.execute("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + COMMIT, values).fetchall()
            # Some hundred; all objects, or all entries, are tens of thousands.
            assert found["Plan"]["Shared Hit Blocks"] < 2_000, values["operation"]
