"""SQL statements of queries read only the rows that they return, whatever plan PostgreSQL prefers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from benchmarks.query import DEFINITION, GROUP, fill
from registry.definitions.compiled import compile_definition
from registry.query.encoding import ABSENT, OVERFLOW, PRESENT, behind, encode, prefix_range
from registry.query.fields import FieldKind
from registry.query.indexes import indexes_of
from registry.query.text import Word
from registry.store import arrays
from registry.store.reads import grouped, indexed
from registry.store.reads.grouped import GroupRead, IndexSpans
from registry.store.reads.indexed import IndexRead, Span
from registry.store.reads.words import CANDIDATES, Words
from registry.store.statements import Statement
from registry.store.types import DomainId, ObjectKey, ResourceName, TenantId
from tests.databases import temporary_database

LIMIT = 21
RESOURCE = ResourceName(f"items.{GROUP}")
COMPILED = compile_definition({**DEFINITION, "metadata": {**DEFINITION["metadata"], "resourceVersion": "1"}})
INDEXES = indexes_of(COMPILED)
BY_TEXT = {index.text: index for index in INDEXES.indexes}
SIZE, OWNER, NAME = (BY_TEXT[f"spec.{name}"].id for name in ("size", "owner", "name"))
ALL_SIZES = Span(SIZE + PRESENT, SIZE + behind(ABSENT))
OWNERS = [OWNER + encode(FieldKind.STRING, f"owner-{number}") for number in (5, 6, 7)]
NAMES = [NAME + encode(FieldKind.STRING, f"name-{number}") for number in (1, 22, 333)]
TAG = BY_TEXT["spec.tags[*]"].id + encode(FieldKind.STRING, "tag-7")
OWNED = BY_TEXT["spec.owner,spec.size"].id + encode(FieldKind.STRING, "owner-5")
MIDDLE = (SIZE + encode(FieldKind.INTEGER, 500_000), ObjectKey("default/i1"))


def read(*spans: Span, **options: Any) -> IndexRead:
    return IndexRead(RESOURCE, 1, SIZE + b"\xff", list(spans), **options)


READS = {
    "equality": read(*(Span(one, behind(one)) for one in NAMES[:1]), by_key=True),
    "in": read(*(Span(one, behind(one)) for one in NAMES), by_key=True),
    "a page of equal ones": read(
        Span(OWNERS[0], behind(OWNERS[0])), by_key=True, after=(b"", ObjectKey("default/i00001"))
    ),
    "range": read(Span(SIZE + encode(FieldKind.INTEGER, 10), SIZE + encode(FieldKind.INTEGER, 900_000))),
    "sorted page": read(ALL_SIZES),
    "a further sorted page": read(ALL_SIZES, after=MIDDLE),
    "descending": read(ALL_SIZES, descending=True),
    "a further descending page": read(ALL_SIZES, descending=True, after=MIDDLE),
    "prefix": read(Span(*(NAME + end for end in prefix_range("name-12")))),
    "array element": read(Span(TAG, behind(TAG)), by_key=True),
    "two fields": read(Span(OWNED + encode(FieldKind.INTEGER, 500_000), OWNED + behind(PRESENT))),
    "sorted within an owner, descending": read(Span(OWNED + PRESENT, OWNED + ABSENT), descending=True),
    "in a namespace": read(ALL_SIZES, namespace="default"),
}


@pytest.fixture(scope="module")
def filled(postgres_server: str, template_database: str) -> Iterator[psycopg.Connection[Any]]:
    with temporary_database(postgres_server, template_database) as url:
        with psycopg.connect(url) as connection:
            connection.execute("INSERT INTO domains DEFAULT VALUES")
            connection.execute("INSERT INTO tenants (name, domain_id) SELECT 'default', id FROM domains")
        fill(url, INDEXES, 1, 4000, 5)
        with psycopg.connect(url, autocommit=True) as connection:
            arrays.register(connection)
            connection.execute(indexed.SESSION)
            yield connection


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


def rows_read(connection: psycopg.Connection[Any], chosen: Statement, one: IndexRead | GroupRead) -> dict[str, int]:
    """Of each table, by a plan for any values, as a prepared statement has."""
    tenant, domain = connection.execute("SELECT id, domain_id FROM tenants").fetchone() or (0, 0)
    if isinstance(one, GroupRead):
        values = grouped.values_of(one, TenantId(tenant))
    else:
        values = indexed.values_of(one, TenantId(tenant), DomainId(domain), LIMIT)
    explained = "EXPLAIN (ANALYZE, FORMAT JSON) " + chosen.sql
    [[[found]]] = connection.execute(explained, values).fetchall()
    read_of: dict[str, int] = {}
    for node in nodes(found["Plan"]):
        if "Relation Name" in node and node["Node Type"] != "Bitmap Heap Scan":
            removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
            name = node["Relation Name"]
            read_of[name] = read_of.get(name, 0) + round((node["Actual Rows"] + removed) * node["Actual Loops"])
            assert node["Node Type"] != "Seq Scan" or name not in ("objects", "index_entries"), node
    return read_of


@pytest.mark.parametrize("past", [False, True], ids=["now", "at a revision"])
@pytest.mark.parametrize("name", READS)
def test_a_page_reads_only_its_rows(filled: psycopg.Connection[Any], name: str, past: bool) -> None:
    one = replace(READS[name], at=0 if past else None)
    found = rows_read(filled, indexed.PAGES[one.by_key, one.descending, past], one)
    allowed = LIMIT * len(one.spans) + 2
    assert 0 < found["objects"] <= allowed, found
    assert 0 < found["index_entries"] <= allowed, found


def test_words_are_found_by_their_index(filled: psycopg.Connection[Any]) -> None:
    """Among the words of other tenants, which are the same."""
    (tenant,) = filled.execute("SELECT id FROM tenants").fetchone() or (0,)
    words = Words(7, [[Word("word12", prefix=True), Word("common")]], b"\x00" * 7 + b"\x07" + OVERFLOW)
    scope = "decode(lpad(to_hex(o.tenant_id), 16, '0'), 'hex') || int8send(7)"
    with filled.transaction(force_rollback=True):
        # As the sessions that read lists have it.
        filled.execute("SET LOCAL enable_bitmapscan = on")
        filled.execute("SET LOCAL plan_cache_mode = auto")
        filled.execute(
            "INSERT INTO search_words SELECT o.tenant_id, o.resource, o.key, array_to_tsvector(ARRAY["
            f" encode({scope}, 'base64') || 'common', encode({scope}, 'base64') || 'word' || right(o.key, 4)])"
            " FROM objects o"
        )
        filled.execute("ANALYZE search_words")
        values = {**words.values(TenantId(tenant)), "tenant": tenant, "resource": RESOURCE}
        explained = "EXPLAIN (ANALYZE, FORMAT JSON) " + CANDIDATES
        [[[found]]] = filled.execute(explained, values).fetchall()
    assert found["Plan"]["Actual Rows"] == 100
    read = {node["Index Name"]: node["Actual Rows"] for node in nodes(found["Plan"]) if "Index Name" in node}
    assert read["search_words_words_idx"] == 100
    assert not any(node["Node Type"] == "Seq Scan" for node in nodes(found["Plan"]))


def test_counting_reads_entries_only(filled: psycopg.Connection[Any]) -> None:
    one = read(*(Span(entry, behind(entry)) for entry in OWNERS), at=0)
    found = rows_read(filled, indexed.COUNT, one)
    assert found.get("objects", 0) == 0
    assert 0 < found["index_entries"] < 100


def test_groups_read_the_entries_of_their_ranges_only(filled: psycopg.Connection[Any]) -> None:
    spans = IndexSpans(1, OWNER + OVERFLOW, [Span(entry, behind(entry)) for entry in OWNERS])
    found = rows_read(filled, grouped.BY_ENTRIES, GroupRead(RESOURCE, spans, None, False))
    assert found.get("objects", 0) == 0
    assert 0 < found["index_entries"] < 100


@pytest.mark.parametrize("namespaces", [None, ["default", "other"]], ids=["all", "some"])
def test_objects_are_counted_by_the_keys_of_their_tenant(
    filled: psycopg.Connection[Any], namespaces: list[str] | None
) -> None:
    found = rows_read(filled, grouped.BY_KEYS, GroupRead(RESOURCE, None, namespaces, True))
    assert found["objects"] == 4000
