"""Revisions that a failover has lost: `domains.lost` holds pairs (a, b) of which those between a and b do not count.

They were given out by a server that is gone (timelines.py), or by nobody. a is the last revision of the log before them
and b the counter after them, so b continues a. Pairs are in their order; None stands for none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import LiteralString

Lost = Sequence[int] | None


def continued(revision: int, lost: Lost) -> int | None:
    """The revision to go on from where a client has seen everything up to `revision`; None if that one is lost."""
    for last, first in pairs(lost):
        if last == revision:
            revision = first
        elif last < revision < first:
            return None
    return revision


def reached(after: int, upto: int, lost: Lost) -> int:
    """The revision to go on from where the log has nothing from `after` to `upto`: across what is lost, not into it."""
    for last, first in pairs(lost):
        if after <= last <= upto:
            upto = max(upto, first)
    return upto


def lowest(at: LiteralString) -> LiteralString:
    """SQL of the lowest revision that `at` must not be below: the compact revision, or the end of what is lost with it.
    `at` is an expression; `d` the row of the domain."""
    return (
        "CASE WHEN d.lost IS NULL THEN d.compact_revision ELSE greatest(d.compact_revision, ("
        "SELECT max(d.lost[i + 1]) FROM generate_series(1, cardinality(d.lost), 2) i WHERE d.lost[i] < "
        + at
        + " AND "
        + at
        + " < d.lost[i + 1])) END"
    )


def pairs(lost: Lost) -> Iterator[tuple[int, int]]:
    if lost:
        yield from zip(lost[::2], lost[1::2], strict=True)
