"""A campaign of faults: servers on one PostgreSQL behind a proxy, clients at work, faults at random from a seed; then
checker.py decides on the whole history."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import ssl
import statistics
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psycopg

from tests.faults.actors import Actors, Cluster
from tests.faults.checker import violations
from tests.faults.clients import ServerClient
from tests.faults.defects import module_of
from tests.faults.disturbances import (
    ARCHIVE,
    CLOCK,
    COMPACTING,
    DISTURBANCES,
    OF_WORKERS,
    REPLICATED,
    Disturbance,
    Place,
    Scene,
    follow,
)
from tests.faults.history import Change, Log, Views
from tests.folders import data_folder
from tests.proxy import Proxy
from tests.replication import Node, free_port
from tests.running import RunningServer, start_server

TENANTS = ("alpha", "beta", "gamma")
# After a fault a write must be acknowledged within this time: what takes longer has not recovered.
RECOVERY_SECONDS = 120.0
CREATE_TENANTS = "/clusters/system/apis/tenancy.registry/v1/tenants"


@dataclass(slots=True)
class Plan:
    """`rounds` faults, or each kind `each` times, or as many as fit into `seconds`; then clients continue undisturbed
    until `writes` are acknowledged in all. `module` is run in place of `registry`."""

    seed: int
    rounds: int | None = None
    seconds: float | None = None
    servers: int = 2
    # Of each server: one is a process alone, more have a supervisor.
    workers: int = 1
    writes: int = 0
    module: tuple[str, ...] = module_of()
    # "asynchronous" or "synchronous": with a standby, which is promoted now and then.
    replication: str = ""
    disturbances: Sequence[Disturbance] = ()
    each: int | None = None
    # No pause in a fault takes longer.
    longest_pause_seconds: float = 60.0
    # A stopped PostgreSQL with the tables, which is copied. Without it the first server to start makes them, and the
    # others wait for it.
    migrated: Node | None = None
    # Where the logs of the servers are kept; their own folders are removed.
    logs: Path | None = None
    # Set from outside: the campaign ends after the fault under way, and is checked as it is.
    ended: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class Report:
    faults: dict[str, list[float]] = field(default_factory=dict)  # name → seconds until a write was acknowledged
    operations: int = 0
    acknowledged: int = 0
    events: int = 0
    hung: list[str] = field(default_factory=list)
    # Watches that stood still at the end, short of what was written.
    late: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        count = sum(len(times) for times in self.faults.values())
        table = [
            f"{name:32} {len(times):4} {statistics.median(times):7.2f} s {max(times):7.2f} s"
            for name, times in sorted(self.faults.items())
        ]
        return [
            "fault                           times    median     worst until a write is acknowledged",
            *table,
            f"{count} faults, {self.operations} operations, {self.acknowledged} acknowledged writes,"
            f" {self.events} watch events",
            f"{len(self.hung)} requests without an answer in time: {self.hung[:5]}",
            f"{len(self.late)} watches that stood still: {self.late[:5]}",
            *([f"VIOLATION {line}" for line in self.violations] or ["no violation"]),
        ]


async def run(plan: Plan) -> Report:
    chance = random.Random(plan.seed)
    report = Report()
    async with _scene(plan, chance) as scene:
        cluster = Cluster(
            [(place.server.url, place.server.token, str(place.server.authority)) for place in scene.places]
        )
        actors = Actors(cluster, TENANTS, plan.seed)
        actors.start()
        try:
            await _disturb(plan, scene, actors, report)
        finally:
            await actors.stop()
            await cluster.aclose()
        history = actors.history
        report.operations = len(history.writes) + len(history.reads) + len(history.listings)
        report.acknowledged = sum(write.is_acknowledged for write in history.writes)
        report.events = sum(len(watch.events) for watch in history.watches)
        report.hung = actors.hung
        report.late = actors.late
        try:
            logs = await asyncio.to_thread(read_logs, scene.node.url, TENANTS)
        except psycopg.OperationalError as error:
            # PostgreSQL has not come back: what was found until then says why.
            report.violations.append(f"{error!r}: {scene.node.log[-2000:]}")
            return report
        report.violations += violations(history, logs, lossless=plan.replication != "asynchronous")
        report.violations += [f"a traceback: {one.server.log[-2000:]}" for one in scene.places if _has_traceback(one)]
    return report


def _has_traceback(place: Place) -> bool:
    return "Traceback" in place.server.log


async def _disturb(plan: Plan, scene: Scene, actors: Actors, report: Report) -> None:
    known = DISTURBANCES | (REPLICATED if plan.replication else COMPACTING)
    known |= OF_WORKERS if plan.workers > 1 else {}
    weights = {one: known.get(one, 1) for one in plan.disturbances or known}
    following = _disturbances(weights, plan.each or 0, scene.chance)
    rounds = plan.each * len(weights) if plan.each is not None else plan.rounds
    end = time.monotonic() + plan.seconds if plan.seconds is not None else None
    done = 0
    await recovered(actors, "the start")

    def has_more() -> bool:
        return done < rounds if rounds is not None else end is not None and time.monotonic() < end

    while not plan.ended.is_set() and has_more():
        await scene.pause(0.05, 0.4)
        disturbance = next(following)
        begun = time.strftime("%H:%M:%S")
        try:
            with contextlib.suppress(psycopg.OperationalError):  # PostgreSQL is still busy with the fault before
                await disturbance(scene)
            seconds = await recovered(actors, disturbance.__name__)
        except Exception as error:
            # What was done until then is checked anyway.
            report.violations.append(f"after {done} faults, {disturbance.__name__}: {error!r}")
            return
        report.faults.setdefault(disturbance.__name__, []).append(seconds)
        print(f"{begun} {disturbance.__name__} {seconds:.2f} s", file=sys.stderr, flush=True)
        done += 1
    while not plan.ended.is_set() and sum(write.is_acknowledged for write in actors.history.writes) < plan.writes:
        await recovered(actors, "the last fault")


def _disturbances(weights: Mapping[Disturbance, int], each: int, chance: random.Random) -> Iterator[Disturbance]:
    """Yields every fault `each` times, shuffled, and then faults at random by their weights."""
    first = list(weights) * each
    chance.shuffle(first)
    yield from first
    while True:
        yield from chance.choices(list(weights), list(weights.values()))


async def recovered(actors: Actors, after: str) -> float:
    """Seconds from now until a write that began later is acknowledged."""
    begun = time.monotonic()
    while True:
        if any(write.is_acknowledged and write.began > begun for write in actors.history.writes[-50:]):
            return time.monotonic() - begun
        assert time.monotonic() - begun < RECOVERY_SECONDS, f"no write for {RECOVERY_SECONDS} s after {after}"
        await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def _scene(plan: Plan, chance: random.Random) -> AsyncIterator[Scene]:
    with data_folder() as folder:
        node = Node(folder / "a", "a")
        if plan.migrated is None:
            node.make()
        else:
            node.make_as(plan.migrated)
        node.start()
        node.execute(CLOCK)
        standby = Node(folder / "b", "b") if plan.replication else None
        if standby is not None:
            await asyncio.to_thread(follow, standby, node, synchronous=plan.replication == "synchronous")
        places: list[Place] = []
        with Proxy("127.0.0.1", node.port) as proxy:
            try:
                starting = [
                    _place(
                        plan,
                        folder / f"server-{number}",
                        "--database-url",
                        proxy.url(node.url),
                        "--port",
                        str(free_port()),
                    )
                    for number in range(plan.servers)
                ]
                places += await asyncio.gather(*starting)
                await define(places[0].server)
                node.execute(ARCHIVE)
                yield Scene(
                    node, proxy, places, chance, standby, plan.replication == "synchronous", plan.longest_pause_seconds
                )
            finally:
                for one in places:
                    with contextlib.suppress(Exception):
                        await asyncio.to_thread(one.server.stop, timeout_seconds=60)
                    if plan.logs is not None:
                        _keep(one.server.data_dir, plan.logs, plan.seed)
                for one_node in filter(None, (standby, node)):
                    one_node.stop()


async def _place(plan: Plan, folder: Path, *arguments: str) -> Place:
    if plan.workers > 1:
        arguments = (*arguments, "--workers", str(plan.workers))
    server = await asyncio.to_thread(start_server, folder, *arguments, module=plan.module, detached=True)
    return Place(server, arguments, plan.module)


def _keep(folder: Path, logs: Path, seed: int) -> None:
    logs.mkdir(exist_ok=True)
    (logs / f"{seed}-{folder.name}.log").write_text((folder / "server.log").read_text(errors="replace"))


async def define(server: RunningServer) -> None:
    """Makes the tenants, and widgets in each."""
    context = ssl.create_default_context(cafile=str(server.authority))
    async with ServerClient(server.url, server.token, context) as client:
        for tenant in TENANTS:
            body = {"apiVersion": "tenancy.registry/v1", "kind": "Tenant", "metadata": {"name": tenant}}
            answer = await client.request("POST", CREATE_TENANTS, body)
            assert answer.status_code == 201, answer.text
            await client.define_widgets(f"/clusters/{tenant}")


_CHANGES = """
    SELECT DISTINCT ON (c.revision) c.revision, c.type, c.key, coalesce(c.body, c.previous_body),
        c.resource LIKE 'widgets.%%'
    FROM {log} c WHERE c.domain_id = %s ORDER BY c.revision
"""
_WITH_ARCHIVE: Final = "(SELECT * FROM changes UNION ALL SELECT * FROM archive)"
_OBJECTS = "SELECT key, revision, body FROM objects WHERE tenant_id = %s AND resource LIKE 'widgets.%%'"
_TOKEN = re.compile(r'"size":\s*(\d+)')


def read_logs(url: str, tenants: Sequence[str]) -> dict[str, Log]:
    logs = {}
    with psycopg.connect(url) as connection:
        has_archive = connection.execute("SELECT to_regclass('archive')").fetchone() != (None,)
        for name in tenants:
            found = connection.execute(
                "SELECT t.id, d.id, to_jsonb(d) -> 'lost' FROM tenants t JOIN domains d ON d.id = t.domain_id WHERE t.name = %s",
                [name],
            ).fetchone()
            assert found is not None
            tenant, domain, lost = found
            log = "changes" if not has_archive else _WITH_ARCHIVE
            rows = connection.execute(_CHANGES.format(log=log).encode(), [domain]).fetchall()
            changes = [Change(row[0], row[1], _name(row[2]), _token(row[3])) for row in rows if row[4]]
            objects = {
                _name(key): (revision, _token(body)) for key, revision, body in connection.execute(_OBJECTS, [tenant])
            }
            logs[name] = Log(changes, [row[0] for row in rows], lost or [], objects, read_views(url, name))
    return logs


_VIEW: Final = "SELECT name, resource_version, spec_size FROM reports.widgets_test_example_com"
_TYPES: Final = {"create": "ADDED", "update": "MODIFIED", "delete": "DELETED"}
_HISTORY: Final = """
    SELECT name, revision, operation, spec_size FROM reports.widgets_test_example_com_history
    ORDER BY revision
"""


def read_views(url: str, tenant: str) -> Views | None:
    """What the SQL views of a tenant show; None where there are none."""
    with psycopg.connect(url, options=f"-c registry.tenant={tenant}") as connection:
        if connection.execute("SELECT to_regclass('reports.widgets_test_example_com')").fetchone() == (None,):
            return None
        objects = {name: (revision, size) for name, revision, size in connection.execute(_VIEW)}
        history = [
            Change(revision, _TYPES.get(kind or "", ""), name, size)
            for name, revision, kind, size in connection.execute(_HISTORY)
        ]
        compacted = connection.execute(
            # The first release calls it floor.
            "SELECT coalesce(to_jsonb(d) -> 'compact_revision', to_jsonb(d) -> 'floor')::bigint"
            " FROM tenants t JOIN domains d ON d.id = t.domain_id WHERE t.name = %s",
            [tenant],
        ).fetchone()
        assert compacted is not None
        return Views(objects, history, compacted[0])


def _name(key: str) -> str:
    return key.rpartition("/")[2]


def _token(body: str) -> int:
    found = _TOKEN.search(body)
    return int(found[1]) if found else 0
