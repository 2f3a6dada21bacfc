"""Encryption at rest: bodies are sealed by a tenant's data key, which is wrapped by a master key outside the database.

sealing.py is the only place where bodies are sealed and opened; the store calls it where rows enter and leave it.
master_keys.py wraps keys; resealing.py rotates keys. Knows nothing of the content of bodies.
"""
