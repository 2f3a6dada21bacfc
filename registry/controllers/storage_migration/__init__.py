"""StorageVersionMigrations: rows rewritten at the storage version, with a queue of their own."""
