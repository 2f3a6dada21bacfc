"""Rolling upgrades under load without failed requests: within one release, and from the previous one."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from registry.postgres.server import EmbeddedPostgres
from registry.store import migrate
from tests.databases import embedded_postgres
from tests.faults.campaign import CREATE_TENANTS, read_logs
from tests.faults.checker import violations
from tests.faults.clients import ServerClient, eventually
from tests.folders import data_folder
from tests.running import RunningServer, start_server
from tests.upgrades.balancer import Backend, Balancer
from tests.upgrades.load import NAMESPACES, Load
from tests.upgrades.releases import PREVIOUS, PREVIOUS_REVISION, command_of

pytestmark = pytest.mark.slow

TENANTS = [f"tenant-{number}" for number in range(10)]
# Of a machine that has room for it; on another it is what the machine does.
WRITES_PER_SECOND = 100
WATCHES = 100


@pytest.fixture
def folder() -> Iterator[Path]:
    with data_folder() as folder:
        yield folder


@pytest.fixture
def postgres(folder: Path) -> Iterator[EmbeddedPostgres]:
    with embedded_postgres(folder / "postgres") as server:
        yield server


@pytest.fixture(scope="module")
def previous() -> Iterator[tuple[str, ...]]:
    """What to run in place of `registry` for the previous release; compiled at its first start."""
    with data_folder() as folder:
        yield command_of(PREVIOUS, folder / "previous")


class Fleet:
    """Servers of one database behind a balancer."""

    def __init__(self, folder: Path, url: str, balancer: Balancer) -> None:
        self._folder = folder
        self._url = url
        self._balancer = balancer
        self.running: list[tuple[RunningServer, Backend]] = []
        (folder / "token").write_text("an-administrator-s-token")

    @property
    def token(self) -> str:
        return (self._folder / "token").read_text()

    async def start(self, *arguments: str, command: Sequence[str] = ()) -> RunningServer:
        server = await asyncio.to_thread(
            start_server, self._folder / f"server-{len(list(self._folder.glob('server-*')))}", "--database-url",
            self._url, "--plain-http", "--admin-token-file", str(self._folder / "token"), *arguments, command=command,
        )  # fmt: skip
        self.running.append((server, await self._balancer.add(server.port)))
        return server

    async def stop(self, *, drained_first: bool = False) -> RunningServer:
        """Ends the oldest server by SIGTERM. `drained_first`: once the balancer has no connection to it."""
        server, backend = self.running.pop(0)
        if drained_first:
            backend.drains = True
            async with asyncio.timeout(600):
                while backend.connections:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        assert await asyncio.to_thread(server.stop) == 0, server.log[-8000:]
        self._balancer.remove(backend)
        return server

    async def end(self) -> None:
        for server, _ in self.running:
            with contextlib.suppress(Exception):
                await asyncio.to_thread(server.stop)


@contextlib.asynccontextmanager
async def _fleet(folder: Path, url: str) -> AsyncIterator[tuple[Fleet, Balancer]]:
    async with Balancer() as balancer:
        fleet = Fleet(folder, url, balancer)
        try:
            yield fleet, balancer
        finally:
            await fleet.end()


async def _make_tenants(url: str, token: str) -> None:
    async with ServerClient(url, token) as client:
        for tenant in TENANTS:
            body = {"apiVersion": "tenancy.registry/v1", "kind": "Tenant", "metadata": {"name": tenant}}
            answer = await client.request("POST", CREATE_TENANTS, body)
            assert answer.status_code == 201, answer.text
        for tenant in TENANTS:
            await client.define_widgets(f"/clusters/{tenant}")
            for namespace in NAMESPACES:
                body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
                answer = await client.request("POST", f"/clusters/{tenant}/api/v1/namespaces", body)
                assert answer.status_code == 201, answer.text


def _check(load: Load, url: str) -> None:
    """No request failed, and the whole history is one that the change log allows."""
    seconds = sorted(load.seconds)
    events = sum(len(watch.events) for watch in load.history.watches)
    print(
        f"{load.acknowledged} writes acknowledged, {load.rate:.0f} a second, {events} events in {WATCHES} watches;"
        f" median {statistics.median(seconds) * 1000:.0f} ms, 99% {seconds[int(len(seconds) * 0.99)] * 1000:.0f} ms,"
        f" worst {seconds[-1]:.2f} s; {len(load.failed)} failed, {len(load.broken)} watches broken off;"
        f" clients and balancer took {load.processor_milliseconds:.1f} ms of processor time a write"
    )
    assert load.failed == []
    assert load.broken == []
    assert violations(load.history, read_logs(url, TENANTS)) == []


async def test_servers_are_replaced_one_after_the_other(folder: Path, postgres: EmbeddedPostgres) -> None:
    async with _fleet(folder, postgres.url) as (fleet, balancer):
        for _ in range(2):
            await fleet.start("--shutdown-delay-seconds", "2")
        await _make_tenants(balancer.url, fleet.token)
        load = Load(balancer.url, fleet.token, TENANTS, rate=WRITES_PER_SECOND, watches=WATCHES)
        load.start()
        await load.more(200)
        for _ in range(2):
            stopped = await fleet.stop()
            await load.more(100)
            await fleet.start("--shutdown-delay-seconds", "2")
            await load.more(200)
            assert "Traceback" not in stopped.log, stopped.log.partition("Traceback")[2][:4000]
        await load.stop()
        _check(load, postgres.url)


async def test_the_previous_release_is_replaced_while_it_serves(
    folder: Path, postgres: EmbeddedPostgres, previous: tuple[str, ...]
) -> None:
    """Each migration since it is applied under load, and both releases serve on one database for a while."""
    async with _fleet(folder, postgres.url) as (fleet, balancer):
        old = [await fleet.start(command=previous) for _ in range(2)]
        assert migrate.current(postgres.url) == PREVIOUS_REVISION
        await _make_tenants(balancer.url, fleet.token)
        load = Load(balancer.url, fleet.token, TENANTS, rate=WRITES_PER_SECOND, watches=WATCHES, rotate=5)
        load.start()
        await load.more(200)
        plan = await asyncio.to_thread(migrate.plan_upgrade, postgres.url)
        assert len(plan.running) == 2
        assert plan.refusal() is None
        await fleet.stop(drained_first=True)
        await fleet.start("--shutdown-delay-seconds", "2")
        assert migrate.current(postgres.url) != PREVIOUS_REVISION
        await load.more(400)
        # Everything of both is there for both.
        await _agree(fleet)
        await fleet.stop(drained_first=True)
        await fleet.start("--shutdown-delay-seconds", "2")
        await load.more(200)
        await load.stop()
        for server in old:
            assert "Traceback" not in server.log, server.log[-3000:]
        _check(load, postgres.url)


async def _agree(fleet: Fleet) -> None:
    """Servers of both releases show the same, and take part in the same compaction of the change log."""
    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(ServerClient(server.url, fleet.token)) for server, _ in fleet.running
        ]
        path = "/clusters/tenant-0/apis/test.example.com/v1/widgets"

        async def same() -> bool:
            revision = (await clients[0].get(path))["metadata"]["resourceVersion"]
            exact = f"{path}?resourceVersion={revision}&resourceVersionMatch=Exact"
            lists = [await client.get(exact) for client in clients]
            return bool(lists[0]["items"] == lists[1]["items"])

        await eventually(same)


async def test_a_step_down_gives_the_previous_release_its_database_back(
    folder: Path, postgres: EmbeddedPostgres, previous: tuple[str, ...]
) -> None:
    async with _fleet(folder, postgres.url) as (fleet, balancer):
        await fleet.start()
        await _make_tenants(balancer.url, fleet.token)
        load = Load(balancer.url, fleet.token, TENANTS, rate=WRITES_PER_SECOND, watches=WATCHES)
        load.start()
        await load.more(200)
        await load.stop()
        _check(load, postgres.url)
        await fleet.stop()
        await asyncio.to_thread(migrate.downgrade, postgres.url, PREVIOUS_REVISION)

        server = await fleet.start(command=previous)
        again = Load(balancer.url, fleet.token, TENANTS, rate=WRITES_PER_SECOND, watches=WATCHES, rotate=5)
        again.go_on_from(load)
        again.start()
        await again.more(200)
        await again.stop()
        assert "Traceback" not in server.log, server.log[-3000:]
        _check(again, postgres.url)
