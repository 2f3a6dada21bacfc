"""Compressed bodies up to a page stay in their rows, where a page of a list finds them without a look-up each.

PostgreSQL moves values out of a row of more than 2 kB, largest first, unless their storage is MAIN: those it only
compresses, as long as the row fits into a page. So all of a table are MAIN, or the smaller ones would go in place of
the bodies. What was written before stays where it is until it is written again.
"""

from __future__ import annotations

from alembic import op

from migrations.locks import Lock

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

LOCKS = (Lock("objects"), Lock("changes"))
SERVERS = "0013"

_COLUMNS = {
    "objects": ("resource", "key", "uid", "version", "body", "doc", "index_entries"),
    "changes": (
        *("resource", "key", "uid", "type", "version", "body", "labels"),
        *("previous_version", "previous_body", "previous_labels", "previous_index_entries"),
        *("actor_user", "actor_manager", "actor_verb"),
    ),
}


def upgrade() -> None:
    _set_storage("MAIN")


def downgrade() -> None:
    _set_storage("EXTENDED")


def _set_storage(storage: str) -> None:
    for table, columns in _COLUMNS.items():
        changed = ", ".join(f"ALTER COLUMN {column} SET STORAGE {storage}" for column in columns)
        op.execute(f"ALTER TABLE {table} {changed}")
