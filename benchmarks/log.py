"""The change log as a server has it after a week: in as many partitions, the older ones in the past."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import psycopg

from registry.store.compaction import CHANGES_PARTITION_PREFIX, DEFAULT_RETENTION, PARTITIONS, PARTS

WIDTH: Final = DEFAULT_RETENTION / PARTS
# With the one being filled, the partly expired one and those ahead.
COUNT: Final = PARTS + 3


class Partition(NamedTuple):
    """A partition, and the time from and until which it has changes; the oldest has no beginning."""

    name: str
    lower: datetime.datetime | None
    upper: datetime.datetime


def partitions(now: datetime.datetime) -> list[Partition]:
    """Returns those of a server that has run for a week, the oldest first: that one has half a width left."""
    uppers = [now + WIDTH * (number - COUNT + 3.5) for number in range(COUNT)]
    lowers = [None, *uppers]
    return [
        Partition(f"{CHANGES_PARTITION_PREFIX}{upper:%Y%m%d%H%M%S%f}", lower, upper)
        for lower, upper in zip(lowers, uppers, strict=False)
    ]


@contextmanager
def replaced(owner: psycopg.Connection[Any]) -> Iterator[list[Partition]]:
    """Replaces the partitions by those of a week.

    While the block runs they are bare tables of the same names, to be filled, and what had been logged is in the table
    `logged`: it is added afterwards, by its `at`, which the block may change.
    """
    with owner.transaction():
        owner.execute("CREATE TEMP TABLE logged ON COMMIT DROP AS SELECT * FROM changes")
        for name, _ in owner.execute(PARTITIONS.sql.encode()).fetchall():
            owner.execute(f"DROP TABLE {name}".encode())
        [(now,)] = owner.execute("SELECT clock_timestamp()").fetchall()
        made = partitions(now)
        for one in made:
            owner.execute(f"CREATE TABLE {one.name} (LIKE changes INCLUDING DEFAULTS INCLUDING STORAGE)".encode())
        yield made
        for one in made:
            is_in = "at < %(upper)s AND (at >= %(lower)s) IS NOT FALSE"
            owner.execute(
                f"INSERT INTO {one.name} SELECT * FROM logged WHERE {is_in}".encode(),
                {"lower": one.lower, "upper": one.upper},
            )
            lower = "MINVALUE" if one.lower is None else f"'{one.lower.isoformat()}'"
            # Its indexes are made now, from all rows.
            owner.execute(
                f"ALTER TABLE changes ATTACH PARTITION {one.name}"
                f" FOR VALUES FROM ({lower}) TO ('{one.upper.isoformat()}')".encode()
            )
