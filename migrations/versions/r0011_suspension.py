"""In a suspended tenant the server's own writes go on: clean-up that was begun is finished."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _run("r0011_suspension_commit.sql")


def downgrade() -> None:
    op.execute("DROP FUNCTION registry_commit")
    _run("r0005_tenancy_commit.sql")


def _run(name: str) -> None:
    # exec_driver_sql: the percent signs and colons of the text are its own.
    op.get_bind().exec_driver_sql(Path(__file__).with_name(name).read_text("utf-8"))
