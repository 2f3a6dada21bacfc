"""How Alembic runs our migrations: on the connection that `registry.store.migrate` hands over.

Each migration is a transaction of its own. A lock timeout keeps a migration that cannot have its lock from standing in
the way of everybody who queues up behind it.
"""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from registry.store.tables import metadata

connection = context.config.attributes["connection"]
assert isinstance(connection, Connection)

context.configure(connection=connection, target_metadata=metadata, transaction_per_migration=True)
with context.begin_transaction():
    context.run_migrations()
