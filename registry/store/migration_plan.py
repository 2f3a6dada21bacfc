"""What an upgrade would do to a database in use: what it locks, how, for how long; which servers may run meanwhile.

Revisions declare their locks and the oldest servers that can run beside them (migrations/locks.py). Servers publish the
newest revision that they know in the table of leaders (process_heartbeats.py); those of the first release do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from alembic.script import ScriptDirectory
from alembic.script.revision import RevisionError
from alembic.util import CommandError
from sqlalchemy import Connection

from registry.store.revision import newest_revision

# Of 0.1.0 (CHANGELOG.md).
FIRST_RELEASE: Final = "0013"

# Conservative rates of PostgreSQL on current hardware, with indexes to maintain.
ROWS_WRITTEN_PER_SECOND: Final = 20_000
ROWS_READ_PER_SECOND: Final = 500_000

# A partitioned table counts its partitions' rows. reltuples is -1 before the first ANALYZE; then a row counts as 1 kB.
_ROWS: Final = """
    SELECT sum(CASE WHEN c.reltuples >= 0 THEN c.reltuples ELSE c.relpages * 8 END)::bigint
    FROM pg_class c WHERE c.relkind = 'r'
        AND c.oid IN (SELECT to_regclass(%(table)s) UNION SELECT relid FROM pg_partition_tree(to_regclass(%(table)s)))
"""
_SERVERS: Final = """
    SELECT coalesce(r.holder, %s), substr(d.name, 8) FROM leaders d
    LEFT JOIN leaders r ON r.name = 'release/' || substr(d.name, 8)
    LEFT JOIN leaders s ON s.name = 'session/' || substr(d.name, 8)
    WHERE d.name >= 'duties/' AND d.name < 'duties0' AND d.expires_at > clock_timestamp()
        AND (s.name IS NULL OR EXISTS (
            SELECT FROM pg_stat_activity a WHERE a.pid::text = split_part(s.holder, '/', 1)))
    ORDER BY 1, 2
"""


class Incompatible(Exception):
    """Running servers cannot work with the result of a migration, or this code with the current database."""


class TableLock(NamedTuple):
    """A lock that a step holds until its commit. `rows` says what happens to the rows, `row_count` is an estimate."""

    table: str
    mode: str
    rows: str
    row_count: int
    seconds: float


class Step(NamedTuple):
    """A revision to apply. `servers` is the oldest revision whose servers can run with it."""

    revision: str
    title: str
    locks: Sequence[TableLock]
    servers: str


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """`running` is the revision and the name of each running server process."""

    current: str | None
    steps: Sequence[Step]
    running: Sequence[tuple[str, str]]

    def refusal(self) -> str | None:
        """Returns why the steps must wait, or None."""
        for step in self.steps:
            if old := [name for revision, name in self.running if revision < step.servers]:
                return (
                    f"migration {step.revision} needs servers of {step.servers} or newer, and {len(old)} older run"
                    f" ({', '.join(old[:3])}): upgrade one release at a time, and replace all servers in between"
                )
        return None

    def lines(self) -> list[str]:
        if not self.steps:
            return [f"the database is at {self.current}, and there is nothing to do"]
        lines = [f"the database is at {self.current or 'no revision'}"]
        for step in self.steps:
            lines.append(f"{step.revision}  {step.title}")
            lines += [f"      {_line(lock)}" for lock in step.locks] or ["      locks no table that is in use"]
        lines.append(f"servers of {max(step.servers for step in self.steps)} and newer go on meanwhile")
        return lines


def _line(lock: TableLock) -> str:
    what = lock.rows if lock.rows.startswith("no ") else f"{lock.rows}, about {lock.row_count:,}"
    seconds = "less than a second" if lock.seconds < 1 else f"about {lock.seconds:,.0f} s"
    return f"{lock.table}: {lock.mode}, {what}: {seconds}"


def plan(connection: Connection, scripts: ScriptDirectory, current: str | None, target: str) -> MigrationPlan:
    try:
        pending = list(scripts.iterate_revisions(target, current or "base"))[::-1]
    except RevisionError as error:
        raise CommandError(str(error)) from error
    return MigrationPlan(
        current, [_step(connection, one.revision, one.doc, one.module) for one in pending], running(connection)
    )


def _step(connection: Connection, revision: str, doc: str, module: Any) -> Step:
    locks = [_lock(connection, *lock) for lock in getattr(module, "LOCKS", ())]
    return Step(revision, doc.splitlines()[0], locks, getattr(module, "SERVERS", revision))


def _lock(connection: Connection, table: str, mode: str, rows: Any) -> TableLock:
    count = connection.exec_driver_sql(_ROWS, {"table": table}).scalar() or 0
    rate = {"READ": ROWS_READ_PER_SECOND, "WRITTEN": ROWS_WRITTEN_PER_SECOND}.get(rows.name)
    return TableLock(table, mode, rows.value, count, count / rate if rate else 0.0)


def running(connection: Connection) -> list[tuple[str, str]]:
    """Returns revision and name of each server process with a current heartbeat."""
    if not connection.exec_driver_sql("SELECT to_regclass('leaders') IS NOT NULL").scalar():
        return []
    return [(row[0], row[1]) for row in connection.exec_driver_sql(_SERVERS, (FIRST_RELEASE,))]


_NOTE: Final = re.compile(r"servers of (\d{4}) and newer")


def note_servers(connection: Connection, modules: Iterable[Any]) -> None:
    """Records in a table comment which servers may use the database, for code that does not know its revision."""
    oldest = max(getattr(module, "SERVERS", FIRST_RELEASE) for module in modules)
    connection.exec_driver_sql(f"COMMENT ON TABLE alembic_version IS 'servers of {oldest} and newer'")


def require_usable(connection: Connection, current: str) -> None:
    """Raises Incompatible if a newer release has migrated the database to a revision that this code cannot use."""
    note = connection.exec_driver_sql("SELECT obj_description(to_regclass('alembic_version'), 'pg_class')").scalar()
    note_match = _NOTE.search(note or "")
    oldest = note_match[1] if note_match else current
    if newest_revision() < oldest:
        raise Incompatible(
            f"the database is at migration {current}, which servers of {oldest} and newer can use: this one is of"
            f" {newest_revision()}"
        )
