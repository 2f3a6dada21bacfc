"""Bearer tokens of tenants, and the keys that service account tokens are signed with."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "access_tokens",
        sa.Column("tenant_id", sa.BigInteger, nullable=False),
        sa.Column("id", _bytewise(), nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("user_name", sa.Text, nullable=False),
        sa.Column("groups", ARRAY(sa.Text), nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()")),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
        sa.Column("revoked_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("tenant_id", "id", name="access_tokens_pkey"),
    )
    op.create_table(
        "signing_keys",
        sa.Column("id", _bytewise(), nullable=False),
        sa.Column("secret", sa.LargeBinary, nullable=False),
        sa.Column("signs_from", sa.DateTime(timezone=True), nullable=False),
        sa.Column("signs_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("verifies_until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="signing_keys_pkey"),
    )


def downgrade() -> None:
    op.drop_table("signing_keys")
    op.drop_table("access_tokens")


def _bytewise() -> sa.Text:
    return sa.Text(collation="C")
