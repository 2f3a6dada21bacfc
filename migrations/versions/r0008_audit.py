"""Audit events, where they are written to the database."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "audit_events",
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("tenant", sa.Text),
        sa.Column("username", sa.Text, nullable=False),
        sa.Column("verb", sa.Text, nullable=False),
        sa.Column("resource", sa.Text, nullable=False),
        sa.Column("namespace", sa.Text),
        sa.Column("name", sa.Text),
        sa.Column("code", sa.Integer),
        sa.Column("event", JSONB, nullable=False),
    )
    op.create_index("audit_events_at_idx", "audit_events", ["at"])
    op.create_index(
        "audit_events_tenant_resource_idx", "audit_events", ["tenant", "resource", "namespace", "name", "at"]
    )


def downgrade() -> None:
    op.drop_table("audit_events")
