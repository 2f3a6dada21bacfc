"""Logins for reports that see what other tenants have bound of one: `registry sql grant --provider`."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("report_logins", sa.Column("provider_id", sa.BigInteger))
    connection = op.get_bind()
    schema = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
    text = Path(__file__).with_name("r0010_provider_logins.sql").read_text("utf-8")
    connection.exec_driver_sql(text.replace("{schema}", schema))


def downgrade() -> None:
    # The policies and views that call these are made by the server, and made anew by an older one.
    op.execute("DROP FUNCTION report_bound() CASCADE")
    op.execute("DROP FUNCTION report_bound_since(bigint, text) CASCADE")
    op.execute("DELETE FROM report_logins WHERE provider_id IS NOT NULL")
    op.drop_column("report_logins", "provider_id")
