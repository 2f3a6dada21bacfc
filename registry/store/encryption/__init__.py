"""Encryption at rest: bodies sealed by a tenant's data key, which a master key outside the database wraps."""
