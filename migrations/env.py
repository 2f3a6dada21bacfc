"""How Alembic runs our migrations: on the connection that `registry.store.migrate` hands over.

Each migration is a transaction of its own. A lock timeout keeps a migration that cannot have its lock from standing in
the way of everybody who queues up behind it.
"""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from migrations.functions import drop_functions, have_functions, make_functions
from registry.store.tables import metadata

connection = context.config.attributes["connection"]
assert isinstance(connection, Connection)


def revision() -> str | None:
    return context.get_context().get_current_revision()


context.configure(connection=connection, target_metadata=metadata, transaction_per_migration=True)
before = revision()
with context.begin_transaction():
    context.run_migrations()
connection.commit()
if before != revision() and revision() != context.get_head_revision():
    drop_functions(connection, "registry_")
elif before != revision() or not have_functions(connection):
    make_functions(connection)
connection.commit()
