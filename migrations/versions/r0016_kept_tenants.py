"""A deleted tenant is kept for a while, and can be brought back: `deleted_at` may lie in the future.

The functions of registry/store/sql know of it; tables stay as they are.
"""

from __future__ import annotations

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

LOCKS = ()
# To them a tenant that is kept is one to be removed: what is deleted while they serve is removed at once.
SERVERS = "0013"


def upgrade() -> None:
    pass


def downgrade() -> None:
    """What was kept is removed at once, as the version before removes it."""
    op.execute("UPDATE tenants SET deleted_at = now() WHERE deleted_at > now()")
