"""Revisions lost in a failover: `domains.lost` holds pairs (a, b); revisions between a and b are not valid.

They were assigned by a server that is gone (timelines.py), or never. a is the last revision of the log before them and
b the counter after them, so b continues a. Pairs are ordered; None means no pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import LiteralString

Lost = Sequence[int] | None


def resume_after(revision: int, lost: Lost) -> int | None:
    """Returns the revision to resume from after everything up to `revision` was seen; None if `revision` is lost."""
    for last, first in _pairs(lost):
        if last == revision:
            revision = first
        elif last < revision < first:
            return None
    return revision


def skip_lost(after: int, upto: int, lost: Lost) -> int:
    """Returns the revision to resume from where the log has nothing from `after` to `upto`, skipping lost revisions."""
    for last, first in _pairs(lost):
        if after <= last <= upto:
            upto = max(upto, first)
    return upto


def lower_bound(at: LiteralString) -> LiteralString:
    """Returns SQL of the lower bound for the revision `at`: the compact revision, or the end of the lost range it is
    in. `at` is an expression; `d` the row of the domain."""
    return (
        "CASE WHEN d.lost IS NULL THEN d.compact_revision ELSE greatest(d.compact_revision, ("
        "SELECT max(d.lost[i + 1]) FROM generate_series(1, cardinality(d.lost), 2) i"
        f" WHERE d.lost[i] < {at} AND {at} < d.lost[i + 1])) END"
    )


def _pairs(lost: Lost) -> Iterator[tuple[int, int]]:
    if lost:
        yield from zip(lost[::2], lost[1::2], strict=True)
