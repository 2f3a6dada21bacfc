"""StorageVersionMigrations: rewrites rows at the storage version, with a separate queue."""
