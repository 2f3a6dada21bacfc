"""Declared indexes: the entries of objects, sorted, and which indexes are complete.

The columns are NULL until a definition declares an index and its objects are written, or the index is built.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

from migrations.locks import Lock

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

LOCKS = (Lock("objects"), Lock("changes"))
SERVERS = "0013"


def upgrade() -> None:
    op.add_column("objects", sa.Column("index_layout", sa.BigInteger))
    op.add_column("objects", sa.Column("index_entries", ARRAY(sa.LargeBinary)))
    op.add_column("changes", sa.Column("previous_index_entries", ARRAY(sa.LargeBinary)))
    op.create_table(
        "index_entries",
        sa.Column("tenant_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("entry", sa.LargeBinary, nullable=False),
        sa.Column("key", sa.Text(collation="C"), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "entry", "key", name="index_entries_pkey"),
    )
    op.create_table(
        "ready_indexes",
        sa.Column("tenant_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("resource", sa.Text(collation="C"), nullable=False),
        sa.Column("index_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("build", sa.BigInteger, nullable=False),
        sa.Column("revision", sa.BigInteger),
        sa.PrimaryKeyConstraint("tenant_id", "resource", "index_id", name="ready_indexes_pkey"),
    )


def downgrade() -> None:
    op.drop_table("ready_indexes")
    op.drop_table("index_entries")
    op.drop_column("changes", "previous_index_entries")
    op.drop_column("objects", "index_entries")
    op.drop_column("objects", "index_layout")
