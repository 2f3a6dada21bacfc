"""Writes: coalesced into batches, one call of registry_commit each, recovered when a connection breaks."""
