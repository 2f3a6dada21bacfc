"""Lists by filter and order: `filter=`, `orderBy=`, `offset=`, `count=` (docs/query.md).

parsing.py parses the parameters to a ListQuery, reading.py reads what matches in its order, listing.py answers a page.
"""
