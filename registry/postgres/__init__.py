"""The embedded PostgreSQL: where its programs come from, its configuration, its life from start to stop.

Knows nothing of tables: those are registry/store's. Begin with server.py.
"""
