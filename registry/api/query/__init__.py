"""Lists by filter and order: `filter=`, `orderBy=`, `offset=`, `count=` (docs/query.md).

parsing.py makes a ListQuery of the parameters, reading.py reads what matches in its order, listing.py answers a page.
"""
