"""The Alembic migrations of registry's database. Run by `registry.store.migrate`, or `registry migrate`."""
