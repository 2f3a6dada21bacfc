"""PostgreSQL storage: the only package that contains SQL. It knows nothing of HTTP or of Kubernetes' rules.

store.py is the entry point for everything above, types.py the types it exchanges; commit/ writes, reads/ reads, feed/
serves the change log to watches, reporting/ maintains the SQL views, encryption/ seals bodies.
"""
