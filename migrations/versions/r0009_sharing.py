"""Definitions that tenants share: who has bound which definition of whom; a change of one moves the guards of all."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_FUNCTIONS = ("registry_commit_shared", "registry_share", "registry_sharing_refusal", "registry_tenancy_refusal",
              "registry_provides")  # fmt: skip


def upgrade() -> None:
    op.create_table(
        "api_bindings",
        sa.Column("tenant_id", sa.BigInteger, nullable=False),
        sa.Column("resource", sa.Text(collation="C"), nullable=False),
        sa.Column("since", sa.BigInteger, nullable=False),
        sa.Column("until", sa.BigInteger),
        sa.Column("provider_id", sa.BigInteger, nullable=False),
        sa.Column("export", sa.Text(collation="C"), nullable=False),
        sa.Column("binding", sa.Text(collation="C"), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "resource", "since", name="api_bindings_pkey"),
    )
    op.create_index(
        "api_bindings_now_key", "api_bindings", ["tenant_id", "resource"], unique=True,
        postgresql_where=sa.text("until IS NULL"),
    )  # fmt: skip
    op.create_index("api_bindings_provider_id_idx", "api_bindings", ["provider_id", "resource"])
    # exec_driver_sql: the percent signs and colons of the text are its own.
    op.get_bind().exec_driver_sql(Path(__file__).with_name("r0009_sharing.sql").read_text("utf-8"))


def downgrade() -> None:
    for function in _FUNCTIONS:
        op.execute(f"DROP FUNCTION {function}")
    op.execute("ALTER FUNCTION registry_tree_refusal(jsonb, boolean) RENAME TO registry_tenancy_refusal")
    op.drop_table("api_bindings")
