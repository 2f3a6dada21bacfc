"""Labels that selectable fields are found by are built again like declared indexes, when definitions change.

The functions are made with all others (migrations/functions.py); no table changes.
"""

from __future__ import annotations

from migrations.locks import Lock

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

LOCKS: tuple[Lock, ...] = ()
SERVERS = "0013"


def upgrade() -> None:
    pass


def downgrade() -> None:
    pass
