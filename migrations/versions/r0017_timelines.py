"""Which servers a database has been on, and the revisions that a failover has lost."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from migrations.locks import Lock

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

LOCKS = (Lock("domains"),)
SERVERS = "0013"


def upgrade() -> None:
    op.add_column("domains", sa.Column("lost", sa.ARRAY(sa.BigInteger)))
    op.create_table(
        "timelines",
        sa.Column("number", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("system_identifier", sa.BigInteger, nullable=False),
        sa.Column("timeline", sa.BigInteger, nullable=False),
        sa.Column("token", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("number", name="timelines_pkey"),
    )


def downgrade() -> None:
    # Older servers know no lost revisions: clients that come with one from before the last failover begin again.
    op.execute(
        "UPDATE domains SET compact_revision = greatest(compact_revision, lost[cardinality(lost)])"
        " WHERE lost IS NOT NULL"
    )
    op.drop_table("timelines")
    op.drop_column("domains", "lost")
