"""Limits on what one read returns, by the size of bodies as they are served rather than as they are stored.

Bodies are stored compressed, and 3 MB of one letter compress to a few kilobytes. `octet_length` is the size before
compression; PostgreSQL reads it from the header of the stored value without decompressing it (toast_raw_datum_size in
src/backend/access/common/detoast.c).
"""

from __future__ import annotations

from typing import Final, LiteralString

# Bytes of bodies that one query returns. A larger body is returned alone. A process temporarily holds a few times as
# much: libpq's buffer, the texts, and what is built from them.
READ_BYTES: Final = 4 << 20
# Rows of the first query of an unlimited list; later ones have up to twice as many. Enough to amortize the query's own
# cost, few enough to bound what is held twice, and how long reading them blocks the event loop.
CHUNK_ROWS: Final = 500
# Bytes of bodies collected where all rows are needed at once: quotas of a namespace, exports of a tenant.
GATHERED_BYTES: Final = 16 << 20


def within_bytes(
    rows: LiteralString, order: LiteralString, size: LiteralString = "octet_length(r.body)"
) -> LiteralString:
    """Returns SQL for the first of `rows`, in their order, that total at most %(bytes)s bytes, but at least one row.

    `size` is the size expression of a row named r, never NULL. A result shorter than the limit of `rows` does not mean
    the end: readers continue until a query returns nothing.
    """
    return (
        "SELECT r.* FROM (SELECT r.*, sum(" + size + ") OVER (ORDER BY " + order + " ROWS UNBOUNDED PRECEDING) AS upto"
        " FROM (" + rows + ") r) r WHERE r.upto <= %(bytes)s::bigint OR r.upto = " + size + " ORDER BY " + order
    )
