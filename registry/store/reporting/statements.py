"""Statements of reporting other than changes to views: due work, bindings, documents."""

from __future__ import annotations

from typing import Final

from registry.store.bounds import within_bytes
from registry.store.rows import TENANT
from registry.store.statements import statement

OUTDATED: Final = statement(
    "reports-outdated",
    "Tenants whose definitions or whose schema's name have changed since their views were made,"
    " in the order of their ids; by the primary key.",
    f"""
    SELECT {TENANT}
    FROM tenants t LEFT JOIN report_tenants r ON r.tenant_id = t.id
        LEFT JOIN report_schemas s ON s.tenant_id = t.id
    WHERE t.id > %(after)s::bigint AND t.deleted_at IS NULL
        AND (t.definitions_revision <> coalesce(r.definitions_revision, 0) OR s.name IS DISTINCT FROM t.sql_schema)
    ORDER BY t.id LIMIT %(limit)s::bigint
    """,
)

GONE: Final = statement(
    "reports-of-gone-tenants",
    "Forgets what belongs to tenants that are gone.",
    """
    WITH gone AS (
        DELETE FROM report_tenants r WHERE NOT EXISTS (SELECT 1 FROM tenants t WHERE t.id = r.tenant_id)
        RETURNING r.tenant_id
    )
    DELETE FROM report_definitions d USING gone g WHERE d.tenant_id = g.tenant_id
    """,
)

MARK_DONE: Final = statement(
    "reports-done",
    "The views of a tenant are those of its definitions as of a revision; by the primary key.",
    """
    INSERT INTO report_tenants AS r (tenant_id, definitions_revision)
    SELECT t.id, %(revision)s::bigint FROM tenants t WHERE t.id = %(tenant)s::bigint AND t.deleted_at IS NULL
    ON CONFLICT (tenant_id) DO UPDATE SET definitions_revision = greatest(r.definitions_revision,
        excluded.definitions_revision)
    """,
)

DEFINITIONS: Final = statement(
    "definitions-and-reports",
    "The definitions of a tenant with their revisions, and the revisions that their views were made by; by the primary"
    " keys.",
    """
    SELECT coalesce(o.key, d.resource), o.revision, d.revision FROM (
        SELECT key, revision FROM objects WHERE tenant_id = %(tenant)s::bigint AND resource = %(resource)s::text
    ) o FULL JOIN (
        SELECT resource, revision FROM report_definitions WHERE tenant_id = %(tenant)s::bigint AND state <> 'deleted'
            AND reason <> 'bound'
    ) d ON d.resource = o.key
    """,
)

# The reason 'bound' marks a row of `report_definitions` that stands for another tenant's definition.
FOLLOW_BINDINGS: Final = statement(
    "reports-follow-bindings",
    "Tenants that have bound a definition of another belong to its view, those that no longer do have left it; reads"
    " all bindings.",
    """
    WITH ended AS (
        UPDATE report_definitions d SET state = 'deleted', at = now()
        WHERE d.reason = 'bound' AND d.state <> 'deleted' AND NOT EXISTS (
            SELECT 1 FROM api_bindings b
            WHERE b.tenant_id = d.tenant_id AND b.resource = d.resource AND b.until IS NULL)
    )
    INSERT INTO report_definitions AS r (tenant_id, resource, revision, version, view_id, state, reason, facets)
    SELECT b.tenant_id, b.resource, d.revision, d.version, d.view_id, 'ready', 'bound', d.facets
    FROM api_bindings b JOIN report_definitions d ON d.tenant_id = b.provider_id AND d.resource = b.resource
        JOIN tenants t ON t.id = b.tenant_id AND t.deleted_at IS NULL
    WHERE b.until IS NULL AND d.state = 'ready'
    ON CONFLICT (tenant_id, resource) DO UPDATE SET revision = excluded.revision, version = excluded.version,
        view_id = excluded.view_id, state = excluded.state, reason = excluded.reason, facets = excluded.facets,
        at = now()
    WHERE (r.version, r.view_id, r.state, r.facets) IS DISTINCT FROM
        (excluded.version, excluded.view_id, excluded.state, excluded.facets)
    RETURNING r.tenant_id, r.resource, r.view_id
    """,
)

LEAVING_VIEWS: Final = statement(
    "reports-that-bindings-move",
    "The views that tenants with a schema of their own leave for those of what they have bound; reads all bindings.",
    """
    SELECT r.tenant_id, r.resource, r.view_id
    FROM api_bindings b JOIN report_definitions d ON d.tenant_id = b.provider_id AND d.resource = b.resource
        JOIN report_definitions r ON r.tenant_id = b.tenant_id AND r.resource = b.resource
        JOIN report_schemas s ON s.tenant_id = b.tenant_id
    WHERE b.until IS NULL AND d.state = 'ready' AND r.view_id <> d.view_id
    """,
)

BOUND: Final = statement(
    "reports-bound",
    "The tenants that have bound a definition; by the index of providers.",
    f"""
    SELECT {TENANT}
    FROM api_bindings b CROSS JOIN LATERAL (
        SELECT t.* FROM tenants t WHERE t.id = b.tenant_id AND t.deleted_at IS NULL OFFSET 0
    ) t
    WHERE b.provider_id = %(tenant)s::bigint AND b.resource = %(resource)s::text AND b.until + 0 IS NULL
    ORDER BY t.id
    """,
)

STALE_DOCUMENTS: Final = statement(
    "stale-documents",
    "The first objects whose document is missing or of another layout, in the order of their keys, up to some bytes; by"
    " the primary key.",
    within_bytes(
        """
        SELECT key, revision, body FROM objects
        WHERE tenant_id = %(tenant)s::bigint AND resource = %(resource)s::text AND key > %(after)s::text
            AND (doc #>> '{metadata,facets,layout}') IS DISTINCT FROM %(layout)s::text
        ORDER BY key LIMIT %(limit)s::bigint
        """,
        "r.key",
    ),
)

PUT_DOCUMENTS: Final = statement(
    "put-documents",
    "Documents of objects that have not been written meanwhile; by the primary key.",
    """
    UPDATE objects o SET doc = w.doc::jsonb
    FROM unnest(%(keys)s::text[], %(revisions)s::bigint[], %(docs)s::text[]) AS w (key, revision, doc)
    WHERE o.tenant_id = %(tenant)s::bigint AND o.resource = %(resource)s::text AND o.key = w.key
        AND o.revision = w.revision
    """,
)
