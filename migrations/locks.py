"""What a revision declares of itself, for `registry migrate plan` and for refusals.

    LOCKS = (Lock("objects", "ACCESS EXCLUSIVE"), Lock("domains", "ACCESS EXCLUSIVE", Rows.WRITTEN))
    SERVERS = "0013"

`LOCKS` are the locks on tables that were there before, each kept until the revision is committed. `SERVERS` is the
oldest revision whose servers go on while the database is at this one. tests/migrations/test_plan.py compares `LOCKS`
with what PostgreSQL says, and tests/upgrades runs servers of `SERVERS`.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class Rows(enum.Enum):
    """What happens to the rows of a table while it is locked."""

    UNTOUCHED = "no row is touched"
    READ = "every row is read"
    WRITTEN = "every row is written"


class Lock(NamedTuple):
    """`mode` as in pg_locks and LOCK TABLE. ACCESS EXCLUSIVE keeps reads away too, SHARE only writes."""

    table: str
    mode: str = "ACCESS EXCLUSIVE"
    rows: Rows = Rows.UNTOUCHED
