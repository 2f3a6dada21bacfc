"""The tables of reporting: its views, definitions, schemas and logins. Importing it completes `metadata`."""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Identity,
    Index,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from registry.store.tables import bytewise, metadata

__all__ = ["metadata"]

# One row per set of reporting views: all tenants with the same definition share it. `shape` holds its columns in their
# order, which is kept for good; `digests` the definitions that it has served. `relations` counts its views.
report_views = Table(
    "report_views",
    metadata,
    Column("id", BigInteger, Identity(always=True), nullable=False),
    Column("resource", bytewise(), nullable=False),
    Column("name", bytewise(), nullable=False),
    Column("digests", ARRAY(bytewise()), nullable=False),
    Column("shape", JSONB, nullable=False),
    Column("relations", BigInteger, nullable=False),
    Column("last_tenant_id", BigInteger, nullable=False),
    Column("empty_since", DateTime(timezone=True)),
    PrimaryKeyConstraint("id", name="report_views_pkey"),
    # No two views have one name; the views of a resource.
    Index("report_views_name_key", "name", unique=True),
    Index("report_views_resource_idx", "resource"),
)

# What has become of each definition in reports, as of its `revision`; a deleted one keeps its view, which shows its
# history. `facets` are the indexed fields that all its objects carry, `short_name` what its view is called in the
# tenant's own schema.
report_definitions = Table(
    "report_definitions",
    metadata,
    Column("tenant_id", BigInteger, nullable=False),
    Column("resource", bytewise(), nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("version", bytewise(), nullable=False),
    Column("view_id", BigInteger),
    Column("state", bytewise(), nullable=False),
    Column("reason", Text, nullable=False),
    Column("short_name", bytewise()),
    Column("facets", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    Column("at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    PrimaryKeyConstraint("tenant_id", "resource", name="report_definitions_pkey"),
    # The tenants of a view.
    Index("report_definitions_view_id_idx", "view_id", "tenant_id"),
)

# The revision of its definitions up to which a tenant's views have been created.
report_tenants = Table(
    "report_tenants",
    metadata,
    Column("tenant_id", BigInteger, autoincrement=False, nullable=False),
    Column("definitions_revision", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant_id", name="report_tenants_pkey"),
)

# The PostgreSQL schemas created by reporting; `tenant_id` if one is a tenant's own.
report_schemas = Table(
    "report_schemas",
    metadata,
    Column("name", bytewise(), nullable=False),
    Column("tenant_id", BigInteger),
    PrimaryKeyConstraint("name", name="report_schemas_pkey"),
    # The schema of a tenant.
    Index("report_schemas_tenant_id_idx", "tenant_id"),
)

# Logins for reports. Not `across`: one tenant's. `across`: the named tenants', or with NULL all.
report_logins = Table(
    "report_logins",
    metadata,
    Column("name", bytewise(), nullable=False),
    Column("across", Boolean, nullable=False),
    Column("tenant_ids", ARRAY(BigInteger)),
    Column("timeout_seconds", BigInteger, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    # The tenant whose exports it sees, in the tenants that have bound them.
    Column("provider_id", BigInteger),
    PrimaryKeyConstraint("name", name="report_logins_pkey"),
)
