"""Domains, tenants, objects, the change log, settings, leaders, and the one call that commits writes."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _counters()
    _objects()
    _changes()
    _shared()
    # exec_driver_sql: the percent signs and colons of the text are its own.
    op.get_bind().exec_driver_sql(Path(__file__).with_name("r0001_commit.sql").read_text("utf-8"))


def downgrade() -> None:
    op.execute("DROP FUNCTION registry_commit")
    for table in ("leaders", "settings", "changes", "objects", "tenants", "domains"):
        op.drop_table(table)


def _bytewise() -> sa.Text:
    return sa.Text(collation="C")


def _counters() -> None:
    op.create_table(
        "domains",
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("floor", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.PrimaryKeyConstraint("id", name="domains_pkey"),
        postgresql_with={"fillfactor": "10"},
    )
    op.create_table(
        "tenants",
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), nullable=False),
        sa.Column("name", _bytewise(), nullable=False),
        sa.Column("domain_id", sa.BigInteger, nullable=False),
        sa.Column("definitions_revision", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("namespaces_revision", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("attributes", JSONB, nullable=False, server_default=sa.text("'{}'::jsonb")),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()")),
        sa.Column("deleted_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name="tenants_pkey"),
        postgresql_with={"fillfactor": "50"},
    )
    op.create_index("tenants_name_key", "tenants", ["name"], unique=True)
    op.create_index("tenants_domain_id_idx", "tenants", ["domain_id"])


def _objects() -> None:
    op.create_table(
        "objects",
        sa.Column("tenant_id", sa.BigInteger, nullable=False),
        sa.Column("resource", _bytewise(), nullable=False),
        sa.Column("key", _bytewise(), nullable=False),
        sa.Column("uid", _bytewise(), nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("version", _bytewise(), nullable=False),
        sa.Column("schema_id", sa.BigInteger, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("labels", ARRAY(_bytewise())),
        sa.Column("owners", ARRAY(_bytewise())),
        sa.Column("doc", JSONB),
        sa.Column("pending", sa.Boolean, nullable=False, server_default=sa.text("false")),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "resource", "key", name="objects_pkey"),
        postgresql_with={"fillfactor": "80"},
    )
    op.create_index(
        "objects_labels_idx",
        "objects",
        ["labels"],
        postgresql_using="gin",
        postgresql_where=sa.text("labels IS NOT NULL"),
        postgresql_with={"gin_pending_list_limit": "512"},
    )
    op.create_index(
        "objects_pending_idx", "objects", ["tenant_id", "resource", "key"], postgresql_where=sa.text("pending")
    )
    op.create_index(
        "objects_owners_idx",
        "objects",
        ["owners"],
        postgresql_using="gin",
        postgresql_where=sa.text("owners IS NOT NULL"),
    )
    # Indexed columns are compared as stored: once compressed, to fit a body of some 2 kB into the row, an equal value
    # counts as changed, and no update of the row is HOT any more.
    op.execute("ALTER TABLE objects ALTER labels SET STORAGE MAIN, ALTER owners SET STORAGE MAIN")


def _changes() -> None:
    op.create_table(
        "changes",
        sa.Column("domain_id", sa.BigInteger, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("batch", sa.BigInteger, nullable=False),
        sa.Column("tenant_id", sa.BigInteger, nullable=False),
        sa.Column("resource", _bytewise(), nullable=False),
        sa.Column("key", _bytewise(), nullable=False),
        sa.Column("uid", _bytewise(), nullable=False),
        sa.Column("type", _bytewise(), nullable=False),
        sa.Column("version", _bytewise(), nullable=False),
        sa.Column("schema_id", sa.BigInteger, nullable=False),
        sa.Column("body", sa.Text),
        sa.Column("labels", ARRAY(_bytewise())),
        sa.Column("previous_revision", sa.BigInteger),
        sa.Column("previous_version", _bytewise()),
        sa.Column("previous_schema_id", sa.BigInteger),
        sa.Column("previous_body", sa.Text),
        sa.Column("previous_labels", ARRAY(_bytewise())),
        sa.Column("actor_user", sa.Text, nullable=False),
        sa.Column("actor_manager", sa.Text, nullable=False),
        sa.Column("actor_verb", sa.Text, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        postgresql_partition_by="RANGE (at)",
    )
    op.create_index("changes_domain_id_revision_idx", "changes", ["domain_id", "revision"])
    op.create_index(
        "changes_tenant_id_resource_key_revision_idx", "changes", ["tenant_id", "resource", "key", "revision"]
    )


def _shared() -> None:
    op.create_table(
        "settings",
        sa.Column("name", _bytewise(), nullable=False),
        sa.Column("value", JSONB, nullable=False),
        sa.PrimaryKeyConstraint("name", name="settings_pkey"),
    )
    op.create_table(
        "leaders",
        sa.Column("name", _bytewise(), nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name="leaders_pkey"),
        postgresql_with={"fillfactor": "10"},
    )
