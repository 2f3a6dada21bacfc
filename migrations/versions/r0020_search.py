"""Full text: the words of objects; and the space of declared indexes counts among the bytes of a tenant."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import TSVECTOR

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

LOCKS = ()
SERVERS = "0013"

# As registry_index_bytes (registry/store/sql/commit.sql) counts them.
_USED = """
    UPDATE tenants t SET bytes = t.bytes {sign} u.bytes
    FROM (
        SELECT o.tenant_id, sum(octet_length(e) + 64) AS bytes
        FROM objects o CROSS JOIN LATERAL unnest(o.index_entries) AS e
        WHERE o.index_entries IS NOT NULL
        GROUP BY o.tenant_id
    ) u
    WHERE u.tenant_id = t.id
"""


def upgrade() -> None:
    op.create_table(
        "search_words",
        sa.Column("tenant_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("resource", sa.Text(collation="C"), nullable=False),
        sa.Column("key", sa.Text(collation="C"), nullable=False),
        sa.Column("words", TSVECTOR, nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "resource", "key", name="search_words_pkey"),
    )
    op.create_index(
        "search_words_words_idx",
        "search_words",
        ["words"],
        postgresql_using="gin",
        postgresql_with={"gin_pending_list_limit": "512"},
    )
    op.execute(_USED.format(sign="+"))


def downgrade() -> None:
    op.execute(_USED.format(sign="-"))
    op.drop_table("search_words")
