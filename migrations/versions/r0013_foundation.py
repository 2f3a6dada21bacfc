"""Everything up to the first release, 0.1.0: the revisions 0001 to 0013 in one, with the id of the last of them.

A database that went through them one by one is at this revision (tests/store/test_squashed.py).
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

from migrations.functions import drop_functions

revision = "0013"
down_revision = None
branch_labels = None
depends_on = None

LOCKS = ()
SERVERS = "0013"


def upgrade() -> None:
    connection = op.get_bind()
    # exec_driver_sql: the percent signs and colons of the text are its own.
    connection.exec_driver_sql(Path(__file__).with_name("r0013_tables.sql").read_text("utf-8"))
    schema = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
    op.execute(f"REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC")


def downgrade() -> None:
    connection = op.get_bind()
    # The schemas of reports are made by the server; their policies go with the tables.
    for schema in connection.exec_driver_sql("SELECT quote_ident(name) FROM report_schemas").scalars().all():
        op.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    op.execute("DROP VIEW resource_history, resources")
    op.execute(
        "DROP TABLE report_logins, report_schemas, report_tenants, report_definitions, report_views, api_bindings,"
        " audit_events, tenant_keys, signing_keys, access_tokens, leaders, settings, changes, objects, tenants, domains"
    )
    drop_functions(connection)
