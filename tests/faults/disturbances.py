"""The faults of a campaign: each breaks something for a moment and repairs it."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import random
import shutil
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import psutil
import psycopg

from registry.store import compaction
from registry.store.connection import Pool
from tests.processes import wait_until
from tests.proxy import Proxy
from tests.replication import Node
from tests.running import RunningServer, start_server


class Place:
    """One server at its address: it may be another process after a fault."""

    def __init__(self, server: RunningServer, arguments: tuple[str, ...], module: tuple[str, ...]) -> None:
        self.server = server
        self._arguments = arguments
        self._module = module

    async def start_again(self) -> None:
        folder = self.server.data_dir
        self.server = await asyncio.to_thread(
            start_server, folder, *self._arguments, module=self._module, detached=True
        )

    def workers(self) -> list[int]:
        """The process numbers of the workers below the supervisor."""
        return [child.pid for child in psutil.Process(self.server.process.pid).children()]

    async def kill(self) -> None:
        self.server.process.kill()
        await asyncio.to_thread(self.server.process.wait)


@dataclass(slots=True)
class Scene:
    """What may be broken: `proxy` stands between the servers and PostgreSQL."""

    node: Node
    proxy: Proxy
    places: list[Place]
    chance: random.Random
    # Replicates `node`, where the campaign has replication.
    standby: Node | None = None
    synchronous: bool = False
    longest_pause_seconds: float = 60.0

    def execute(self, statement: str) -> list[Any]:
        return self.node.execute(statement)

    async def pause(self, least: float, most: float) -> None:
        # A part of the disturbance.
        await asyncio.sleep(min(self.chance.uniform(least, most), self.longest_pause_seconds))

    def backends(self) -> list[int]:
        rows = self.execute("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'registry %'")
        return [row[0] for row in rows]


async def kill_server(scene: Scene) -> None:
    place = scene.chance.choice(scene.places)
    await place.kill()
    await place.start_again()


async def restart_server(scene: Scene) -> None:
    place = scene.chance.choice(scene.places)
    code = await asyncio.to_thread(place.server.stop)
    assert code == 0, f"a stop ended with {code}: {place.server.log[-2000:]}"
    await place.start_again()


async def stall_server(scene: Scene) -> None:
    pid = scene.chance.choice(scene.places).server.process.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        await scene.pause(0.5, 4)
    finally:
        os.kill(pid, signal.SIGCONT)


def _worker(scene: Scene) -> int:
    """The process number of a worker, of a server that has some."""
    return scene.chance.choice([pid for place in scene.places for pid in place.workers()])


async def kill_worker(scene: Scene) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(_worker(scene), signal.SIGKILL)


async def stall_worker(scene: Scene) -> None:
    pid = _worker(scene)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    try:
        await scene.pause(0.5, 4)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


async def _restart_postgresql(scene: Scene, number: int) -> None:
    await asyncio.to_thread(scene.node.stop, number)
    await asyncio.to_thread(scene.node.start)


async def restart_postgresql_fast(scene: Scene) -> None:
    await _restart_postgresql(scene, signal.SIGINT)


async def restart_postgresql_immediately(scene: Scene) -> None:
    await _restart_postgresql(scene, signal.SIGQUIT)


async def kill_postgresql(scene: Scene) -> None:
    await asyncio.to_thread(scene.node.kill)
    await asyncio.to_thread(scene.node.start)


async def kill_backend(scene: Scene) -> None:
    """PostgreSQL ends all sessions then, and recovers."""
    if pids := await asyncio.to_thread(scene.backends):
        with contextlib.suppress(ProcessLookupError):
            os.kill(scene.chance.choice(pids), signal.SIGKILL)


async def terminate_backends(scene: Scene) -> None:
    await asyncio.to_thread(
        scene.execute, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'registry %'"
    )


async def cancel_statements(scene: Scene) -> None:
    for _ in range(20):
        await asyncio.to_thread(
            scene.execute,
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'registry %'",
        )
        await asyncio.sleep(0.02)


async def stall_backends(scene: Scene) -> None:
    pids = await asyncio.to_thread(scene.backends)
    stalled = scene.chance.sample(pids, min(len(pids), 4))
    for pid in stalled:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    try:
        await scene.pause(0.5, 6)
    finally:
        for pid in stalled:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


async def stall_postgresql(scene: Scene) -> None:
    scene.node.freeze()
    try:
        await scene.pause(0.5, 6)
    finally:
        scene.node.freeze(frozen=False)


async def cut(scene: Scene) -> None:
    for _ in range(scene.chance.randint(1, 5)):
        scene.proxy.cut()
        await scene.pause(0, 0.2)


async def freeze(scene: Scene) -> None:
    with scene.proxy.frozen():
        await scene.pause(0.5, 8)


async def refuse(scene: Scene) -> None:
    scene.proxy.refuse()
    try:
        await scene.pause(0.5, 5)
    finally:
        scene.proxy.refuse(refuses=False)


async def delay(scene: Scene) -> None:
    scene.proxy.delay(scene.chance.uniform(0.005, 0.1))
    try:
        await scene.pause(0.5, 2)
    finally:
        scene.proxy.delay(0)


async def lose_answers(scene: Scene) -> None:
    """The failpoint behind the commit: PostgreSQL has done what it was asked, and nobody hears of it."""
    for _ in range(10):
        scene.proxy.swallow(answers=True)
        await scene.pause(0.02, 0.1)


async def lose_calls(scene: Scene) -> None:
    """The failpoint before the commit."""
    for _ in range(10):
        scene.proxy.swallow(answers=False)
        await scene.pause(0.02, 0.1)


async def _heal(action: Callable[[], object]) -> None:
    """Puts something right, again where PostgreSQL is too busy for a connection."""
    for _ in range(20):
        try:
            await asyncio.to_thread(action)
        except psycopg.OperationalError:
            await asyncio.sleep(0.5)
        else:
            return
    raise AssertionError("what was broken cannot be put right")


FULL_DISK: Final = """
    CREATE OR REPLACE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$;
    CREATE OR REPLACE TRIGGER full_disk BEFORE INSERT ON changes FOR EACH ROW EXECUTE FUNCTION full_disk()
"""


async def fill_disk(scene: Scene) -> None:
    """For the change log, in the middle of a transaction."""
    await asyncio.to_thread(scene.execute, FULL_DISK)
    try:
        await scene.pause(0.3, 1.5)
    finally:
        await _heal(lambda: scene.execute("DROP TRIGGER IF EXISTS full_disk ON changes"))


async def forbid_writes(scene: Scene) -> None:
    await asyncio.to_thread(scene.node.reload, default_transaction_read_only="on")
    try:
        await scene.pause(0.3, 1.5)
    finally:
        await _heal(lambda: _allow_writes(scene.node))


def _allow_writes(node: Node) -> None:
    node.configure(default_transaction_read_only="off")
    with psycopg.connect(node.url, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute("SELECT pg_reload_conf()")


# What compactions take away is kept for the checker.
ARCHIVE: Final = "CREATE TABLE archive (LIKE changes)"
_PARTITIONS: Final = """
    SELECT name, bounds[1], bounds[2] FROM (
        SELECT c.relname AS name, regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \\((.*)\\) TO \\((.*)\\)') AS bounds
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'changes'::regclass
    ) p WHERE trim('''' FROM bounds[2])::timestamptz > %(cut)s
    AND (bounds[1] = 'MINVALUE' OR trim('''' FROM bounds[1])::timestamptz < %(cut)s)
"""

_BEFORE: Final = "SELECT FROM pg_stat_activity WHERE backend_type = 'client backend' AND xact_start < %s LIMIT 1"


def _split_log(url: str) -> bool:
    """The partition of now ends now, and another begins. False where the log must stay as it is: rows are of a clock
    that had jumped ahead, or a commit from before does not end."""
    with psycopg.connect(url) as connection:
        connection.execute("SET LOCAL lock_timeout = '5s'")
        connection.execute("LOCK TABLE changes IN ACCESS EXCLUSIVE MODE")
        [(cut,)] = connection.execute("SELECT pg_catalog.clock_timestamp()").fetchall()
        if connection.execute("SELECT FROM changes WHERE at >= %s LIMIT 1", [cut]).fetchone() is not None:
            return False
        [(name, lower, upper)] = connection.execute(_PARTITIONS, {"cut": cut}).fetchall()
        after = f"changes_p{cut:%Y%m%d%H%M%S%f}"
        for statement in (
            f"ALTER TABLE changes DETACH PARTITION {name}",
            f"ALTER TABLE changes ATTACH PARTITION {name} FOR VALUES FROM ({lower}) TO ('{cut}')",
            f"CREATE TABLE {after} (LIKE changes INCLUDING ALL)",
            f"ALTER TABLE changes ATTACH PARTITION {after} FOR VALUES FROM ('{cut}') TO ({upper})",
        ):
            connection.execute(statement.encode())
    with psycopg.connect(url, autocommit=True) as connection:
        # A commit that has taken its time before the cut, and waited for the lock, may still come.
        for _ in range(200):
            if connection.execute(_BEFORE, [cut]).fetchone() is None:
                connection.execute("INSERT INTO archive SELECT * FROM changes WHERE at < %s", [cut])
                return True
            time.sleep(0.05)
    return False


async def compact(scene: Scene) -> None:
    """The log is compacted up to now, and now and then PostgreSQL is killed in the middle of that."""
    if not await asyncio.to_thread(_split_log, scene.node.url):
        return
    pool = Pool(scene.node.url, "compaction", 1)
    compacting = asyncio.create_task(compaction.compact(pool, datetime.timedelta(0)))
    try:
        if scene.chance.random() < 0.5:
            await scene.pause(0, 0.05)
            await asyncio.to_thread(scene.node.kill)
            await asyncio.to_thread(scene.node.start)
        await asyncio.wait([compacting])
        compacting.exception()
    finally:
        await pool.close()


async def jump_clock(scene: Scene) -> None:
    """The clock of one server jumps, forward or back (defects.py), for a while."""
    clock = scene.chance.choice(scene.places).server.data_dir / "clock"
    clock.write_text(str(_jump(scene)))
    try:
        await scene.pause(0.5, 1.5)
    finally:
        clock.write_text("0")


# Put before PostgreSQL's own by the search path: the functions and statements of the store read this clock.
CLOCK: Final = """
    CREATE TABLE clock_jump (seconds float8 NOT NULL);
    INSERT INTO clock_jump VALUES (0);
    CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
        SELECT pg_catalog.clock_timestamp() + seconds * interval '1 second' FROM clock_jump $$;
    CREATE FUNCTION now() RETURNS timestamptz LANGUAGE sql STABLE AS $$
        SELECT pg_catalog.now() + seconds * interval '1 second' FROM clock_jump $$;
    ALTER ROLE registry SET search_path = public, pg_catalog
"""


async def jump_clock_of_postgresql(scene: Scene) -> None:
    seconds = _jump(scene)
    await asyncio.to_thread(scene.execute, f"UPDATE clock_jump SET seconds = {seconds}")
    try:
        await scene.pause(0.5, 1.5)
    finally:
        await _heal(lambda: scene.execute("UPDATE clock_jump SET seconds = 0"))


def _jump(scene: Scene) -> int:
    """From a second to a day, either way."""
    return int(scene.chance.choice((-1, 1)) * 86_400.0 ** scene.chance.random())


async def fail_over(scene: Scene) -> None:
    """The primary is gone with its machine, and the standby promoted; the old one comes back as a standby of it.

    Asynchronous, the standby may have stopped to receive before: then acknowledged writes are lost.
    """
    primary, standby = scene.node, scene.standby
    assert standby is not None
    if not scene.synchronous and scene.chance.random() < 0.5:
        await asyncio.to_thread(standby.leave, primary)
        await scene.pause(0.1, 1)
    await asyncio.to_thread(primary.kill)
    await _heal(standby.promote)
    scene.node, scene.standby = standby, primary
    scene.proxy.redirect(standby.port)
    await _heal(lambda: follow(primary, standby, synchronous=scene.synchronous))


def follow(standby: Node, primary: Node, *, synchronous: bool) -> None:
    """Makes a server a standby of a running primary, from nothing; synchronous as soon as it streams."""
    standby.stop(signal.SIGQUIT)
    shutil.rmtree(standby.data, ignore_errors=True)
    standby.clone(primary)
    standby.start()
    wait_until(lambda: primary.execute("SELECT state FROM pg_stat_replication") == [("streaming",)], "streaming")
    if synchronous:
        primary.reload(synchronous_standby_names=standby.name)
        wait_until(lambda: primary.execute("SELECT sync_state FROM pg_stat_replication") == [("sync",)], "synchronous")


Disturbance = Callable[[Scene], Awaitable[None]]

# What costs a start of a server comes less often.
DISTURBANCES: Final[dict[Disturbance, int]] = {
    kill_server: 1, restart_server: 1, stall_server: 3, restart_postgresql_fast: 2, restart_postgresql_immediately: 2,
    kill_postgresql: 2, kill_backend: 3, terminate_backends: 4, cancel_statements: 3, stall_backends: 3,
    stall_postgresql: 2, cut: 5, freeze: 2, refuse: 2, delay: 2, lose_answers: 6, lose_calls: 4, fill_disk: 3,
    forbid_writes: 2, jump_clock: 3, jump_clock_of_postgresql: 3,
}  # fmt: skip
# Only without failovers: the log no longer shows what they have lost, once it is compacted.
COMPACTING: Final[dict[Disturbance, int]] = {compact: 4}
# Only where servers have several workers.
OF_WORKERS: Final[dict[Disturbance, int]] = {kill_worker: 3, stall_worker: 3}
# Only where there is a standby.
REPLICATED: Final[dict[Disturbance, int]] = {fail_over: 15}
