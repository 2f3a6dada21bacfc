"""Tenants as objects: their rows follow them in the commit; what they use is counted and limited there."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_COUNTERS = ("objects", "bytes", "definitions", "namespaces")


def upgrade() -> None:
    op.add_column("domains", sa.Column("name", sa.Text(collation="C")))
    op.create_index("domains_name_key", "domains", ["name"], unique=True, postgresql_where=sa.text("name IS NOT NULL"))
    op.add_column("tenants", sa.Column("parent", sa.Text(collation="C")))
    op.add_column("tenants", sa.Column("sql_schema", sa.Text(collation="C")))
    op.add_column("tenants", sa.Column("suspended", sa.Boolean, nullable=False, server_default=sa.text("false")))
    for name in _COUNTERS:
        op.add_column("tenants", sa.Column(name, sa.BigInteger, nullable=False, server_default=sa.text("0")))
    for name in _COUNTERS:
        op.add_column("tenants", sa.Column(f"max_{name}", sa.BigInteger))
    op.create_index("tenants_parent_idx", "tenants", ["parent"], postgresql_where=sa.text("parent IS NOT NULL"))
    op.create_index(
        "tenants_deleted_at_idx", "tenants", ["deleted_at"], postgresql_where=sa.text("deleted_at IS NOT NULL")
    )
    op.create_index(
        "tenants_sql_schema_idx", "tenants", ["sql_schema"], postgresql_where=sa.text("sql_schema IS NOT NULL")
    )
    op.execute("""
        UPDATE tenants t
        SET objects = c.objects, bytes = c.bytes, definitions = c.definitions, namespaces = c.namespaces
        FROM (
            SELECT tenant_id, count(*) AS objects, sum(octet_length(body)) AS bytes,
                count(*) FILTER (WHERE resource = 'customresourcedefinitions.apiextensions.k8s.io') AS definitions,
                count(*) FILTER (WHERE resource = 'namespaces') AS namespaces
            FROM objects GROUP BY tenant_id
        ) c
        WHERE t.id = c.tenant_id
    """)
    op.execute("DROP FUNCTION registry_commit")
    _run("r0005_tenancy_commit.sql")
    _run("r0005_tenancy.sql")


def downgrade() -> None:
    for function in ("registry_commit_tenant", "registry_follow", "registry_tenancy_refusal", "registry_commit",
                     "registry_refusals"):  # fmt: skip
        op.execute(f"DROP FUNCTION {function}")
    _run("r0004_history_commit.sql")
    op.drop_index("tenants_sql_schema_idx", "tenants")
    op.drop_index("tenants_deleted_at_idx", "tenants")
    op.drop_index("tenants_parent_idx", "tenants")
    for name in (*(f"max_{name}" for name in _COUNTERS), *_COUNTERS, "suspended", "sql_schema", "parent"):
        op.drop_column("tenants", name)
    op.drop_index("domains_name_key", "domains")
    op.drop_column("domains", "name")


def _run(file: str) -> None:
    # exec_driver_sql: the percent signs and colons of the text are its own.
    op.get_bind().exec_driver_sql(Path(__file__).with_name(file).read_text("utf-8"))
