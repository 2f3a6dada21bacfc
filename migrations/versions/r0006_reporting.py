"""What SQL reports stand on: indexed fields of objects, total functions over documents, who may see what.

The views themselves, their schemas and roles are made while the server runs (registry/store/reporting/views.py): roles
belong to the whole PostgreSQL server, and views follow the definitions.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# Column of objects, its type, and how it is made from the text that a writer has put into the document.
FACETS = (
    # Whether there are any: what the indexes are of. An index only of those that are not NULL could not count.
    ("facet_any", "boolean", "({0})::boolean"),
    ("facet_text1", 'text COLLATE "C"', "{0}"),
    ("facet_text2", 'text COLLATE "C"', "{0}"),
    ("facet_text3", 'text COLLATE "C"', "{0}"),
    ("facet_int1", "bigint", "({0})::bigint"),
    ("facet_int2", "bigint", "({0})::bigint"),
    ("facet_float1", "double precision", "({0})::double precision"),
    ("facet_time1", "timestamptz", "to_timestamp(({0})::double precision)"),
    ("facet_ready", "boolean", "({0})::boolean"),
    ("facet_ready_since", "timestamptz", "to_timestamp(({0})::double precision)"),
)
_UNINDEXED = ("facet_any", "facet_ready_since")


def upgrade() -> None:
    # One statement, since it writes the table anew. Migrations give up on a lock after five seconds, not on this.
    op.execute("SET LOCAL statement_timeout = 0")
    op.execute("ALTER TABLE objects " + ", ".join(_column(*facet) for facet in FACETS))
    for name, _, _ in FACETS:
        if name not in _UNINDEXED:
            op.create_index(
                f"objects_{name}_idx",
                "objects",
                ["tenant_id", "resource", name, *(["facet_ready_since"] if name == "facet_ready" else [])],
                postgresql_where=sa.text("facet_any"),
            )
    for name in ("facet_text1", "facet_text2", "facet_text3"):
        # As the labels: compressed values would be compared as they are compressed, and updates not be HOT.
        op.execute(f"ALTER TABLE objects ALTER COLUMN {name} SET STORAGE MAIN")
    op.create_index("objects_uid_idx", "objects", ["uid"])
    _tables()
    connection = op.get_bind()
    schema = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
    text = Path(__file__).with_name("r0006_reporting.sql").read_text("utf-8")
    connection.exec_driver_sql(text.replace("{schema}", schema))
    op.execute("REVOKE CREATE ON SCHEMA " + schema + " FROM PUBLIC")


def downgrade() -> None:
    connection = op.get_bind()
    schemas = connection.exec_driver_sql("SELECT quote_ident(name) FROM report_schemas").scalars().all()
    for schema in schemas:
        op.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    for table in ("objects", "changes"):
        policies = (
            connection.exec_driver_sql(
                "SELECT quote_ident(polname) FROM pg_policy WHERE polrelid = %s::regclass", (table,)
            )
            .scalars()
            .all()
        )
        for policy in policies:
            op.execute(f"DROP POLICY {policy} ON {table}")
        op.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")
    for function in (
        "report_tenant()",
        "report_sees_all()",
        "report_tenants_seen()",
        "report_document(text)",
        "report_ready(jsonb, text)",
        "report_time(text)",
        "report_date(text)",
        "report_float(jsonb)",
        "report_int(jsonb)",
    ):
        op.execute(f"DROP FUNCTION {function}")
    for table in ("report_logins", "report_schemas", "report_tenants", "report_definitions", "report_views"):
        op.drop_table(table)
    op.drop_index("objects_uid_idx", "objects")
    for name, _, _ in FACETS:
        op.drop_column("objects", name)


def _column(name: str, kind: str, made: str) -> str:
    text = "doc #>> '{metadata,facets," + name.removeprefix("facet_") + "}'::text[]"
    return f"ADD COLUMN {name} {kind} GENERATED ALWAYS AS ({made.format(text)}) STORED"


def _tables() -> None:
    op.create_table(
        "report_views",
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), nullable=False),
        sa.Column("resource", _bytewise(), nullable=False),
        sa.Column("name", _bytewise(), nullable=False),
        sa.Column("digests", ARRAY(_bytewise()), nullable=False),
        sa.Column("shape", JSONB, nullable=False),
        sa.Column("relations", sa.BigInteger, nullable=False),
        sa.Column("last_tenant_id", sa.BigInteger, nullable=False),
        sa.Column("empty_since", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name="report_views_pkey"),
    )
    op.create_index("report_views_name_key", "report_views", ["name"], unique=True)
    op.create_index("report_views_resource_idx", "report_views", ["resource"])
    op.create_table(
        "report_definitions",
        sa.Column("tenant_id", sa.BigInteger, nullable=False),
        sa.Column("resource", _bytewise(), nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("version", _bytewise(), nullable=False),
        sa.Column("view_id", sa.BigInteger),
        sa.Column("state", _bytewise(), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("short_name", _bytewise()),
        sa.Column("facets", JSONB, nullable=False, server_default=sa.text("'{}'::jsonb")),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()")),
        sa.PrimaryKeyConstraint("tenant_id", "resource", name="report_definitions_pkey"),
    )
    op.create_index("report_definitions_view_id_idx", "report_definitions", ["view_id", "tenant_id"])
    op.create_table(
        "report_tenants",
        sa.Column("tenant_id", sa.BigInteger, nullable=False),
        sa.Column("definitions_revision", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", name="report_tenants_pkey"),
    )
    op.create_table(
        "report_schemas",
        sa.Column("name", _bytewise(), nullable=False),
        sa.Column("tenant_id", sa.BigInteger),
        sa.PrimaryKeyConstraint("name", name="report_schemas_pkey"),
    )
    op.create_index("report_schemas_tenant_id_idx", "report_schemas", ["tenant_id"])
    op.create_table(
        "report_logins",
        sa.Column("name", _bytewise(), nullable=False),
        sa.Column("across", sa.Boolean, nullable=False),
        sa.Column("tenant_ids", ARRAY(sa.BigInteger)),
        sa.Column("timeout_seconds", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()")),
        sa.PrimaryKeyConstraint("name", name="report_logins_pkey"),
    )


def _bytewise() -> sa.Text:
    return sa.Text(collation="C")
