"""Encryption at rest: bodies are sealed by a tenant's data key, which a master key outside the database wraps.

sealing.py is the one place where bodies are sealed and opened; the store calls it where rows enter and leave it.
master_keys.py wraps keys; resealing.py re-encrypts everything by new ones. Knows nothing of what a body means.
"""
