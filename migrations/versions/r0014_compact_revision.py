"""The lowest revision from which a log is whole gets etcd's word for it: `compact_revision`.

Servers of 0013 know it as `floor`. Both columns are there while they serve, and a trigger lets each follow the other;
commits change neither, so they do not run it. The release after this one drops `floor`.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from migrations.locks import Lock, Rows

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

LOCKS = (Lock("domains", rows=Rows.WRITTEN),)
SERVERS = "0013"

_FOLLOW = """
    CREATE FUNCTION follow_floor() RETURNS trigger LANGUAGE plpgsql AS $function$
    BEGIN
        NEW.compact_revision := greatest(NEW.compact_revision, NEW.floor);
        NEW.floor := NEW.compact_revision;
        RETURN NEW;
    END
    $function$
"""


def upgrade() -> None:
    op.add_column("domains", sa.Column("compact_revision", sa.BigInteger, nullable=False, server_default=sa.text("0")))
    op.execute("UPDATE domains SET compact_revision = floor WHERE floor > 0")
    op.execute(_FOLLOW)
    op.execute(
        "CREATE TRIGGER domains_follow_floor BEFORE UPDATE OF floor, compact_revision ON domains"
        " FOR EACH ROW EXECUTE FUNCTION follow_floor()"
    )


def downgrade() -> None:
    op.execute("DROP TRIGGER IF EXISTS domains_follow_floor ON domains")
    op.execute("DROP FUNCTION IF EXISTS follow_floor()")
    # Unreleased states of this revision had renamed the column.
    op.execute("ALTER TABLE domains ADD COLUMN IF NOT EXISTS floor bigint NOT NULL DEFAULT 0")
    op.execute("UPDATE domains SET floor = compact_revision WHERE floor <> compact_revision")
    # With it go the views of reports that hold on to it; the server of the older release makes its own (env.py).
    op.execute("ALTER TABLE domains DROP COLUMN compact_revision CASCADE")
