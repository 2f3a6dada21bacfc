"""The embedded PostgreSQL: where its programs come from, its configuration, its lifecycle.

Knows nothing of tables: those are registry/store's. Start with server.py.
"""
