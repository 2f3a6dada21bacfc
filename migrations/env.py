"""How Alembic runs our migrations: on the connection that `registry.store.migrate` hands over.

Each migration is a transaction of its own. A lock timeout keeps a migration that cannot have its lock from standing in
the way of everybody who queues up behind it.
"""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from migrations.functions import have_functions, make_functions, restore_functions
from registry.store.reporting.tables import metadata

connection = context.config.attributes["connection"]
assert isinstance(connection, Connection)


def revision() -> str | None:
    return context.get_context().get_current_revision()


context.configure(
    connection=connection,
    target_metadata=metadata,
    transaction_per_migration=True,
    on_version_apply=context.config.attributes.get("on_version_apply"),
)
before = revision()
with context.begin_transaction():
    context.run_migrations()
connection.commit()
if before != revision() and revision() != context.get_head_revision():
    restore_functions(connection, revision())
    # A server leaves views alone that a newer release has made; now it is to make its own.
    for schema in ("reports", "reports_all"):
        if connection.exec_driver_sql("SELECT to_regnamespace(%s)", (schema,)).scalar_one():
            connection.exec_driver_sql(f"COMMENT ON SCHEMA {schema} IS NULL")
elif before != revision() or not have_functions(connection):
    make_functions(connection)
connection.commit()
