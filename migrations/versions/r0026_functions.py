"""Functions that look rows up whatever the statistics say, write by one statement, and return no replaced bodies.

They are made with all others (migrations/functions.py), and no table changes. The revisions 0022 to 0025, which were
never released and changed functions only, are part of this one (registry/store/migrate.py, FOLDED).
"""

from __future__ import annotations

revision = "0026"
down_revision = "0021"
branch_labels = None
depends_on = None

LOCKS = ()
SERVERS = "0013"


def upgrade() -> None:
    pass


def downgrade() -> None:
    pass
