"""Reads: single rows in batches, pages exact at one revision, history, and what controllers look up."""
