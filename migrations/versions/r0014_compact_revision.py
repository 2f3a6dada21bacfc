"""The lowest revision from which a log is whole gets etcd's word for it: `compact_revision`."""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.alter_column("domains", "floor", new_column_name="compact_revision")


def downgrade() -> None:
    op.alter_column("domains", "compact_revision", new_column_name="floor")
