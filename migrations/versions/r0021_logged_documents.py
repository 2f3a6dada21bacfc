"""Changes log the document of the state that they replace, for history views.

It is NULL in the rows that are there: their documents are made from bodies, as before.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from migrations.locks import Lock

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

LOCKS = (Lock("changes"),)
SERVERS = "0013"


def upgrade() -> None:
    op.add_column("changes", sa.Column("previous_doc", JSONB))


def downgrade() -> None:
    # With it go the views of reports that hold on to it; the server of the older revision makes its own (env.py).
    op.execute("ALTER TABLE changes DROP COLUMN previous_doc CASCADE")
