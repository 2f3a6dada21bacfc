"""Generates the SQL of reporting views from their shape. All names and texts chosen by users are quoted here.

A view belongs to a role that may read the base tables under row-level security, and do nothing else; readers of the
view need no privilege on any table. So the rows that a login sees are decided by policies on `objects`, `changes` and
`tenants` alone (registry/store/reporting/setup.py), whatever a view says, and on every PostgreSQL from 14 on.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from registry.store.reporting.model import LAST_APPLIED, Child, Path, ReportColumn, ReportKind, Shape
from registry.store.reporting.quoting import array, identifier, literal, shorten

# Increment when views are generated differently: all are recreated then.
SQL_VERSION: Final = 11


@dataclass(frozen=True, slots=True)
class ViewPlace:
    """Where a set of views is created: in `schema`, for the roles that may read it. `across`: rows of many tenants.

    `built_in`: of a kind that every tenant has, so its objects have no documents.
    """

    schema: str
    name: str
    resource: str
    view_id: int
    tables: str
    across: bool = False
    # The tenant that owns the schema.
    tenant_id: int | None = None
    built_in: bool = False

    @property
    def document(self) -> str:
        """The expression for the document of a row of `_rows`."""
        return "d.doc" if self.built_in else "o.doc"

    def relation(self, suffix: str = "") -> str:
        return f"{identifier(self.schema)}.{identifier(self.name + suffix)}"


def _unseen(column: str) -> str:
    """Wraps a text column in an expression: so a condition on it cannot use an index or statistics, which contain other
    tenants' values, and is not evaluated before the policy. EXPLAIN shows the same, whatever others have stored."""
    return f"({column} || '')"


# Of the alias `t` below.
TENANT_NAME: Final = _unseen("t.name")


def statements(place: ViewPlace, shape: Shape, facets: Mapping[tuple[Path, ReportKind], str]) -> Iterator[str]:
    """Yields statements that create or replace all views of a shape. `facets` are columns for fields, including
    `ready`."""
    yield _view(place.relation(), _main(place, shape, facets))
    yield _view(place.relation("_raw"), _raw(place, shape))
    yield _view(place.relation("_history"), _history(place, shape))
    yield from _as_of(place)
    for child in shape.children:
        yield _view(relation_of_child(place, child), _child(place, shape, child))
        if not shape.bare:
            yield _view(relation_of_child(place, child, "_history"), _child_history(place, shape, child))


def drops(place: ViewPlace, shape: Shape) -> Iterator[str]:
    yield f"DROP FUNCTION IF EXISTS {place.relation('_as_of')}(timestamptz)"
    yield f"DROP FUNCTION IF EXISTS {place.relation('_at_revision')}(bigint)"
    for child in shape.children:
        for suffix in ("_history", ""):
            yield f"DROP VIEW IF EXISTS {relation_of_child(place, child, suffix)}"
    for suffix in ("_history", "_raw", ""):
        yield f"DROP VIEW IF EXISTS {place.relation(suffix)}"


def child_name(name: str, child: Child, suffix: str = "") -> str:
    """Returns a child view's name. Two underscores, which no main view has, avoid conflicts with other definitions; no
    child's own name ends like a history's (registry/reporting/fields.py)."""
    return shorten(f"{name}_conditions" if child.name == "conditions" else f"{name}__{child.name}", suffix)


def relation_of_child(place: ViewPlace, child: Child, suffix: str = "") -> str:
    return f"{identifier(place.schema)}.{identifier(child_name(place.name, child, suffix))}"


def _view(relation: str, query: str) -> str:
    return f"CREATE OR REPLACE VIEW {relation} AS {query}"


def _main(place: ViewPlace, shape: Shape, facets: Mapping[tuple[Path, ReportKind], str]) -> str:
    columns = [
        *_identity(shape, "o"),
        *_metadata(place, {column.name for column in shape.columns}),
        *_ready(place, facets, shape),
    ]
    for column in shape.columns:
        facet = None if column.hidden else facets.get(column.identity)
        columns.append((f"o.facet_{facet}" if facet else _value(place, place.document, column), column.name))
    # The condition of the partial indexes; true for every object of these definitions.
    indexed = " AND o.facet_any" if facets else ""
    return f"SELECT {_list(columns)} FROM {_rows(place)} WHERE {_mine(place, 'o')}{indexed}"


def _raw(place: ViewPlace, shape: Shape) -> str:
    left_out = (("metadata", "facets"), ("metadata", "annotations", LAST_APPLIED))
    document = place.document + "".join(f" #- {array(path)}" for path in left_out)
    if shape.redacted:
        # One literal: thousands of nested calls would be too many.
        document = f"{place.tables}.report_without({document}, {literal(json.dumps(shape.redacted))}::jsonb)"
    columns = [*_identity(shape, "o"), (f"({document})", "object")]
    return f"SELECT {_list(columns)} FROM {_rows(place)} WHERE {_mine(place, 'o')}"


def _child(place: ViewPlace, shape: Shape, child: Child) -> str:
    joins, columns = _elements(place, child, place.document)
    return f"SELECT {_list([*_identity(shape, 'o'), *columns])} FROM {_rows(place)}{joins} WHERE {_mine(place, 'o')}"


def _child_history(place: ViewPlace, shape: Shape, child: Child) -> str:
    joins, columns = _elements(place, child, "h.doc")
    return f"SELECT {_list([*_state(place, shape), *columns])} {_states(place)}{joins}"


def _elements(place: ViewPlace, child: Child, document: str) -> tuple[str, list[tuple[str, str]]]:
    """Returns the joins that turn a row with a document into one row per element, and its columns."""
    source = document
    joins = []
    for number, path in enumerate(child.path, 1):
        selected = f"{source} #> {array(path)}"
        elements = f"CASE jsonb_typeof({selected}) WHEN 'array' THEN {selected} END"
        joins.append(
            f" CROSS JOIN LATERAL jsonb_array_elements({elements}) WITH ORDINALITY AS e{number} (value, number)"
        )
        source = f"e{number}.value"
    columns = [(f"e{len(child.path) - 1}.number - 1", "parent_position")] if len(child.path) > 1 else []
    columns.append((f"e{len(child.path)}.number - 1", "position"))
    columns += [(_value(place, source, column), column.name) for column in child.columns]
    return "".join(joins), columns


def _history(place: ViewPlace, shape: Shape) -> str:
    columns = [*_state(place, shape), ("h.doc #> '{metadata,labels}'", "labels")]
    columns += _ready_from(place, "h.doc", shape)
    columns += [(_value(place, "h.doc", column), column.name) for column in shape.columns]
    return f"SELECT {_list(columns)} {_states(place)}"


def _states(place: ViewPlace) -> str:
    """Returns the states of objects: those in the log, those before their first change in it, and those it never
    mentions.

    `compact_revision` is the revision up to which the log has been dropped. The document of a state is that of the
    object while it is current, later that which the change that replaced it has logged. Where there is none (kinds
    without documents, rows of an earlier release) it is made from the body.
    """
    tables, resource = place.tables, literal(place.resource)

    def document(stored: str, body: str) -> str:
        return f"coalesce({stored}, {tables}.report_document({body}))"

    logged = f"""
        SELECT c.tenant_id, c.key, c.uid, c.revision, c.at AS valid_from,
            CASE c.type WHEN 'ADDED' THEN 'create' WHEN 'MODIFIED' THEN 'update' ELSE 'delete' END AS operation,
            {_unseen("c.actor_user")} AS actor_user, {_unseen("c.actor_manager")} AS actor_manager, c.actor_verb,
            CASE c.type WHEN 'DELETED' THEN c.at ELSE n.at END AS valid_to,
            CASE c.type WHEN 'DELETED' THEN c.revision ELSE n.revision END AS next_revision,
            {
        document(
            "CASE c.type WHEN 'DELETED' THEN c.previous_doc ELSE coalesce(n.previous_doc, o.doc) END",
            "coalesce(c.body, c.previous_body)",
        )
    } AS doc
        FROM {tables}.changes c
            LEFT JOIN {tables}.objects o ON o.tenant_id = c.tenant_id AND o.resource = {resource} AND o.key = c.key
                AND o.revision = c.revision
            LEFT JOIN LATERAL ({_replacement(tables, resource)}) n ON true
        WHERE c.resource = {resource} AND {_mine(place, "c")}"""
    replaced = f"""
        SELECT c.tenant_id, c.key, c.uid, c.previous_revision, NULL, 'earlier', NULL, NULL, NULL, c.at, c.revision,
            {document("c.previous_doc", "c.previous_body")}
        FROM {tables}.changes c JOIN {tables}.domains d ON d.id = c.domain_id
        WHERE c.resource = {resource} AND c.previous_revision <= d.compact_revision AND {_mine(place, "c")}"""
    unmentioned = f"""
        SELECT o.tenant_id, o.key, o.uid, o.revision, o.updated_at, 'earlier', NULL, NULL, NULL, NULL, NULL,
            {_built_in_document(place) if place.built_in else "o.doc"}
        FROM {tables}.objects o JOIN {tables}.tenants ot ON ot.id = o.tenant_id
            JOIN {tables}.domains d ON d.id = ot.domain_id
        WHERE o.resource = {resource} AND o.revision <= d.compact_revision AND {_mine(place, "o")}"""
    return (
        f"FROM ({logged} UNION ALL {replaced} UNION ALL {unmentioned}) h"
        f" LEFT JOIN {tables}.tenants t ON t.id = h.tenant_id"
    )


def _replacement(tables: str, resource: str) -> str:
    """Returns the query for the change that replaced the state of a change `c`; it has one row, of NULLs if there is
    none: `c` is a deletion, or the object `o` is still in this state.

    Partitions are searched from that of `c` on, up to the first that has the change; earlier ones only where the clock
    was set back between the two. The aggregates tell PostgreSQL that it is one row, so that it does not look where
    nothing of it is selected.
    """
    change = f"""
            SELECT n.at, n.revision, n.previous_doc FROM {tables}.changes n
            WHERE n.tenant_id = c.tenant_id AND n.resource = {resource} AND n.key = c.key AND n.revision > c.revision
                AND n.previous_revision = c.revision"""
    return f"""
        SELECT min(n.at) AS at, min(n.revision) AS revision, (array_agg(n.previous_doc))[1] AS previous_doc
        FROM ({change} AND n.at >= c.at
            UNION ALL {change} AND n.at < c.at
            LIMIT 1
        ) n
        WHERE o.revision IS NULL AND c.type <> 'DELETED'"""


def _state(place: ViewPlace, shape: Shape) -> list[tuple[str, str]]:
    """Returns the columns of a state: the object, its period, and who wrote it."""
    return [
        *_identity(shape, "h"),
        ("h.revision", "revision"),
        ("h.operation", "operation"),
        ("h.valid_from", "valid_from"),
        ("h.valid_to", "valid_to"),
        ("h.next_revision", "next_revision"),
        ("h.actor_user", "user_name"),
        ("h.actor_manager", "field_manager"),
        ("h.actor_verb", "verb"),
    ]


def _as_of(place: ViewPlace) -> Iterator[str]:
    """Yields functions to use in place of the view in a query; they run with the caller's privileges."""
    history = place.relation("_history")
    create = "CREATE OR REPLACE FUNCTION {}({}) RETURNS SETOF {} LANGUAGE sql STABLE AS {}"
    moment = (
        f"SELECT * FROM {history} h WHERE h.operation <> 'delete'"
        " AND (h.valid_from IS NULL OR h.valid_from <= $1) AND (h.valid_to IS NULL OR h.valid_to > $1)"
    )
    revision = (
        f"SELECT * FROM {history} h WHERE h.operation <> 'delete' AND h.revision <= $1"
        " AND (h.next_revision IS NULL OR h.next_revision > $1)"
    )
    yield create.format(place.relation("_as_of"), "timestamptz", history, literal(moment))
    yield create.format(place.relation("_at_revision"), "bigint", history, literal(revision))


def _rows(place: ViewPlace) -> str:
    # A LEFT JOIN, so that it costs nothing where the tenant's name is not selected.
    rows = f"{place.tables}.objects o LEFT JOIN {place.tables}.tenants t ON t.id = o.tenant_id"
    if place.built_in:
        # OFFSET 0: decoded once per row, not once per column.
        rows += f" CROSS JOIN LATERAL (SELECT {_built_in_document(place)} AS doc OFFSET 0) d"
    return rows


def _built_in_document(place: ViewPlace) -> str:
    return f"{place.tables}.report_document(o.body)"


def _mine(place: ViewPlace, row: str) -> str:
    """Returns the condition for rows whose tenant's definition has this view. For one tenant evaluated once per
    query."""
    member = (
        f"FROM {place.tables}.report_definitions m WHERE m.resource = {literal(place.resource)}"
        f" AND m.view_id = {int(place.view_id)}"
    )
    of_resource = f"{row}.resource = {literal(place.resource)}"
    if place.built_in:
        tenant = "" if place.across else f" AND {row}.tenant_id = (SELECT {place.tables}.report_tenant())"
        return f"{of_resource}{tenant}"
    if place.across:
        return f"{of_resource} AND EXISTS (SELECT 1 {member} AND m.tenant_id = {row}.tenant_id)"
    tenant = f"{place.tables}.report_tenant()"
    only = f" AND m.tenant_id = {int(place.tenant_id)}" if place.tenant_id is not None else ""
    return f"{of_resource} AND {row}.tenant_id = (SELECT m.tenant_id {member} AND m.tenant_id = {tenant}{only})"


def _identity(shape: Shape, row: str) -> list[tuple[str, str]]:
    key = f"{row}.key"
    place = ('NULL::text COLLATE "C"', key)
    if shape.namespaced:
        place = (f"split_part({key}, '/', 1)", f"split_part({key}, '/', 2)")
    return [(TENANT_NAME, "tenant"), (place[0], "namespace"), (place[1], "name"), (f"{row}.uid", "uid")]


def _metadata(place: ViewPlace, taken: Collection[str]) -> list[tuple[str, str]]:
    """Returns metadata columns, except those whose name an older column of a field already has (`taken`)."""
    document = place.document
    columns = [
        (f"{document} #> '{{metadata,labels}}'", "labels"),
        (f"({document} #> '{{metadata,annotations}}') - {literal(LAST_APPLIED)}", "annotations"),
        (f"{document} #> '{{metadata,ownerReferences}}'", "owner_references"),
        (f"{document} #> '{{metadata,finalizers}}'", "finalizers"),
        (f"{place.tables}.report_int({document} #> '{{metadata,generation}}')", "generation"),
        ("o.revision", "resource_version"),
        ("o.version", "stored_version"),
        ("o.created_at", "created_at"),
        (_actor(place, "c.uid = o.uid AND c.type = 'ADDED'"), "created_by"),
        ("o.updated_at", "updated_at"),
        (_actor(place, "c.revision = o.revision"), "updated_by"),
        (f"{place.tables}.report_time({document} #>> '{{metadata,deletionTimestamp}}')", "deletion_timestamp"),
    ]
    return [(value, name) for value, name in columns if name not in taken]


def _actor(place: ViewPlace, which: str) -> str:
    """Returns the user of a change of the object: looked up only where the column is selected."""
    return (
        f"(SELECT {_unseen('c.actor_user')} FROM {place.tables}.changes c WHERE c.tenant_id = o.tenant_id"
        f" AND c.resource = {literal(place.resource)} AND c.key = o.key AND {which} ORDER BY c.revision DESC LIMIT 1)"
    )


def _ready(place: ViewPlace, facets: Mapping[tuple[Path, ReportKind], str], shape: Shape) -> list[tuple[str, str]]:
    if READY not in facets or not shape.has_ready:
        return _ready_from(place, place.document, shape)
    reason = _ready_from(place, place.document, shape)[1]
    return [("o.facet_ready", "ready"), reason, ("o.facet_ready_since", "ready_since")]


READY: Final = (("status", "conditions"), ReportKind.BOOLEAN)


def _ready_from(place: ViewPlace, document: str, shape: Shape) -> list[tuple[str, str]]:
    """Returns the ready columns, in every view, so that they may be added to a definition later, and all are alike."""
    if not shape.has_ready:
        return [("NULL::boolean", "ready"), ("NULL::text", "ready_reason"), ("NULL::timestamptz", "ready_since")]
    field = f"{place.tables}.report_ready({document}, '{{}}')"
    return [
        (f"{field.format('status')} = 'True'", "ready"),
        (field.format("reason"), "ready_reason"),
        (f"{place.tables}.report_time({field.format('lastTransitionTime')})", "ready_since"),
    ]


def _value(place: ViewPlace, document: str, column: ReportColumn) -> str:
    # Texts compare by bytes, as the indexed columns do: a view's column cannot change its collation later.
    collation = ' COLLATE "C"' if column.kind is ReportKind.TEXT else ""
    if column.hidden:
        return f"NULL::{column.kind.value}{collation}"
    path = array(column.path)
    match column.kind:
        case ReportKind.TEXT:
            return f"({document} #>> {path}){collation}"
        case ReportKind.INTEGER:
            return f"{place.tables}.report_int({document} #> {path})"
        case ReportKind.NUMBER:
            return f"{place.tables}.report_float({document} #> {path})"
        case ReportKind.BOOLEAN:
            return f"CASE {document} #> {path} WHEN 'true'::jsonb THEN true WHEN 'false'::jsonb THEN false END"
        case ReportKind.TIME:
            return f"{place.tables}.report_time({document} #>> {path})"
        case ReportKind.DATE:
            return f"{place.tables}.report_date({document} #>> {path})"
        case ReportKind.JSON:
            return f"nullif({document} #> {path}, 'null'::jsonb)"


def _list(columns: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{value} AS {identifier(name)}" for value, name in columns)
