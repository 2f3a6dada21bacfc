"""Batched writes: all that wait together are one batch, one call of the commit function (store/sql/commit.sql).

batch.py chooses and encodes a batch without I/O; writer.py sends it and gives each write its result; recovery.py finds
the outcome of a batch whose connection broke. Knows neither readers nor the feed. Start with writer.py.
"""
