"""Triggers that count objects return at once where a batch of writes has added or removed none.

Their functions are made with all others (migrations/functions.py); no table changes.
"""

from __future__ import annotations

from migrations.locks import Lock

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

LOCKS: tuple[Lock, ...] = ()
SERVERS = "0013"


def upgrade() -> None:
    pass


def downgrade() -> None:
    pass
