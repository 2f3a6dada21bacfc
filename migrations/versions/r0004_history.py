"""What is gone can be listed; a write can demand that a definition or namespace is not in use."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "changes_deleted_idx",
        "changes",
        ["tenant_id", "resource", "key", "revision"],
        postgresql_where=sa.text("type = 'DELETED'::text"),
    )
    _run("r0004_in_use.sql")
    _run("r0004_history_commit.sql")


def downgrade() -> None:
    op.execute("DROP FUNCTION registry_commit")
    _run("r0001_commit.sql")
    op.execute("DROP FUNCTION registry_in_use")
    op.drop_index("changes_deleted_idx", "changes")


def _run(name: str) -> None:
    # exec_driver_sql: the percent signs and colons of the text are its own.
    op.get_bind().exec_driver_sql(Path(__file__).with_name(name).read_text("utf-8"))
