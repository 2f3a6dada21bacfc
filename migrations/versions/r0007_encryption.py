"""The data keys of tenants, wrapped by master keys that are not in the database."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context, op
from alembic.util import CommandError

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "tenant_keys",
        sa.Column("tenant_id", sa.BigInteger, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("master", sa.Text(collation="C"), nullable=False),
        sa.Column("wrapped", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()")),
        sa.PrimaryKeyConstraint("tenant_id", "number", name="tenant_keys_pkey"),
    )


def downgrade() -> None:
    # Going down to nothing takes the objects as well.
    to_nothing = context.get_revision_argument() is None
    if not to_nothing and op.get_bind().exec_driver_sql("SELECT EXISTS (SELECT 1 FROM tenant_keys)").scalar():
        raise CommandError(
            "objects are encrypted by keys that revision 0006 does not know: they could never be read"
            " again. `base` removes everything"
        )
    op.drop_table("tenant_keys")
