"""What a write says of itself is kept beside it, so that nobody looks for it in bodies.

Both columns are NULL where a row is older: then it is not known, and those who ask look at the object.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from migrations.locks import Lock

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

LOCKS = (Lock("objects"), Lock("changes"), Lock("report_tenants"))
SERVERS = "0013"


def upgrade() -> None:
    op.add_column("objects", sa.Column("terminating", sa.Boolean))
    op.add_column("changes", sa.Column("follow_up", sa.Boolean))
    # Alembic had made a sequence for a key that is another table's.
    op.alter_column("report_tenants", "tenant_id", server_default=None)
    op.execute("DROP SEQUENCE report_tenants_tenant_id_seq")


def downgrade() -> None:
    op.execute("CREATE SEQUENCE report_tenants_tenant_id_seq OWNED BY report_tenants.tenant_id")
    op.alter_column(
        "report_tenants", "tenant_id", server_default=sa.text("nextval('report_tenants_tenant_id_seq'::regclass)")
    )
    op.drop_column("changes", "follow_up")
    op.drop_column("objects", "terminating")
