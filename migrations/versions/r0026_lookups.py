"""Statements of functions look up rows, whatever the statistics say.

The functions are made with all others (migrations/functions.py); no table changes.
"""

from __future__ import annotations

from migrations.locks import Lock

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

LOCKS: tuple[Lock, ...] = ()
SERVERS = "0013"


def upgrade() -> None:
    pass


def downgrade() -> None:
    pass
