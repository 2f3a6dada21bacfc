"""How much one read brings along: a bound on the size of bodies as they are served, not as they are stored.

Bodies are stored compressed, and 3 MB of one letter compress to a few kilobytes. `octet_length` is the size before
compression; PostgreSQL reads it from the header of the stored value and decompresses nothing for it
(toast_raw_datum_size in src/backend/access/common/detoast.c).
"""

from __future__ import annotations

from typing import Final, LiteralString

# Bytes of bodies that one query brings along. A body that is larger by itself comes alone. What a process holds of them
# at the same time is a few times as much: libpq's buffer, the texts, and what is made of them.
READ_BYTES: Final = 4 << 20
# Bytes of bodies that are gathered where all rows are needed at once: quotas of a namespace, exports of a tenant.
GATHERED_BYTES: Final = 16 << 20


def within_bytes(
    rows: LiteralString, order: LiteralString, size: LiteralString = "octet_length(r.body)"
) -> LiteralString:
    """The first of `rows`, in their order, that have %(bytes)s bytes together, and always one.

    `size` is that of a row named r, never NULL. There may be more rows where fewer come than `rows` allows: readers go
    on until none comes.
    """
    return (
        "SELECT r.* FROM (SELECT r.*, sum(" + size + ") OVER w AS upto, row_number() OVER w AS place"
        " FROM (" + rows + ") r WINDOW w AS (ORDER BY " + order + " ROWS UNBOUNDED PRECEDING)) r"
        " WHERE r.upto <= %(bytes)s::bigint OR r.place = 1 ORDER BY " + order
    )
