"""Queries over lists: filters in CEL, orders, indexes, and the plan of what to read for them. Pure: no I/O.

    filter=, orderBy= ──► language, ordering ──► constraints ──► planner ──► Plan: ranges of one index, or a scan
    an object written ──► indexes.entries_of ──► encoding ──► the bytes that registry/store keeps sorted

Start with planner.py. The statements are in registry/store/reads/indexed.py, the execution in registry/api/query.
"""
