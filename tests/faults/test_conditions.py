"""Each condition in which reads or writes are refused, or watches stand still: /readyz names the check that fails, a metric
and the log say so, and the documentation has an entry. All is well again by itself when it is over."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import ssl
import subprocess
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from registry.store.types import TenantName
from tests.api.widgets import DEFINITIONS, GROUP, WIDGETS, widgets_definition
from tests.databases import open_store
from tests.docs.pages import ROOT
from tests.faults.clients import ServerClient, Watcher, eventually, revision_of
from tests.faults.disturbances import CLOCK, FULL_DISK
from tests.faults.failpoints import MODULE, failing
from tests.folders import data_folder
from tests.proxy import Proxy
from tests.replication import Node
from tests.running import RunningServer, running_server
from tests.store.writes import GADGETS, create

pytestmark = pytest.mark.slow

TROUBLESHOOTING = (ROOT / "docs/troubleshooting.md").read_text()
OPERATIONS = (ROOT / "docs/operations.md").read_text()
DEFINITION = f"{DEFINITIONS}/widgets.{GROUP}"


@dataclass(frozen=True)
class Place:
    """A server, and its PostgreSQL behind a proxy: for all tests of the module."""

    node: Node
    proxy: Proxy
    server: RunningServer


@pytest.fixture(scope="module")
def place(migrated_node: Node) -> Iterator[Place]:
    with data_folder() as folder:
        node = Node(folder / "node", "node")
        node.make_as(migrated_node)
        node.start()
        node.execute(CLOCK)
        try:
            with Proxy("127.0.0.1", node.port) as proxy:
                arguments = ("--database-url", proxy.url(node.url), "--no-sql-views")
                with running_server(folder / "server", *arguments, module=MODULE) as server:
                    yield Place(node, proxy, server)
        finally:
            node.stop()


@pytest.fixture
async def client(place: Place) -> AsyncIterator[ServerClient]:
    trust = ssl.create_default_context(cafile=str(place.server.authority))
    async with ServerClient(place.server.url, place.server.token, trust) as client:
        if (await client.request("GET", DEFINITION)).status_code == 404:
            await client.define_widgets()
        yield client
        await client.request("DELETE", WIDGETS)


@contextlib.contextmanager
def away(place: Place) -> Iterator[None]:
    place.proxy.refuse()
    try:
        yield
    finally:
        place.proxy.refuse(refuses=False)


def between(begin: str, end: str) -> Callable[[Place], AbstractContextManager[None]]:
    """Breaks something by a statement, and repairs it by another."""

    @contextlib.contextmanager
    def broken(place: Place) -> Iterator[None]:
        place.node.execute(begin)
        try:
            yield
        finally:
            place.node.execute(end)

    return broken


def statement_fails(name: str) -> Callable[[Place], AbstractContextManager[object]]:
    return lambda place: failing(place.server.data_dir, name)


@contextlib.contextmanager
def read_only(place: Place) -> Iterator[None]:
    place.node.reload(default_transaction_read_only="on")
    try:
        yield
    finally:
        place.node.reload(default_transaction_read_only="off")


class Reported(NamedTuple):
    """How a condition is reported: the check of /readyz and of the metric, the line of the log, and the answers to reads
    and writes; 0 where nothing is written meanwhile."""

    breaks: Callable[[Place], AbstractContextManager[object]]
    check: str
    line: str
    read: int
    write: int


CONDITIONS = {
    "PostgreSQL is away": Reported(away, "database", "PostgreSQL is away", 503, 503),
    "the disk is full": Reported(
        between(FULL_DISK, "DROP TRIGGER full_disk ON changes"), "disk", "PostgreSQL refuses writes", 200, 503
    ),
    "the database may only be read": Reported(read_only, "writes", "PostgreSQL refuses writes", 200, 503),
    "new sessions cannot run functions": Reported(
        between(
            "UPDATE pg_language SET lanplcallfoid = 0, laninline = 0 WHERE lanname = 'plpgsql'",
            "UPDATE pg_language SET lanplcallfoid = 'plpgsql_call_handler'::regproc,"
            " laninline = 'plpgsql_inline_handler'::regproc WHERE lanname = 'plpgsql'",
        ),
        "new-session", "the health check new-session fails", 200, 503,
    ),
    "the database was put back to an older migration": Reported(
        between(
            "CREATE TABLE kept AS SELECT version_num FROM alembic_version; UPDATE alembic_version SET version_num = '0013'",
            "UPDATE alembic_version SET version_num = (SELECT version_num FROM kept); DROP TABLE kept",
        ),
        "migrations", "the health check migrations fails", 200, 200,
    ),
    "the change log cannot be read": Reported(statement_fails("news"), "feed", "watches do not go on", 200, 200),
    "the counters cannot be polled": Reported(statement_fails("newer-counters"), "feed", "watches do not go on", 200, 0),
    "a changed definition cannot be read": Reported(
        statement_fails("replay-states"), "definitions", "changes of definitions cannot be read", 503, 503
    ),
    "a clock has jumped": Reported(
        between("UPDATE clock_jump SET seconds = 3600", "UPDATE clock_jump SET seconds = 0"),
        "clock", "the health check clock fails", 200, 200,
    ),
}  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS.keys())
async def test_a_condition_is_reported_everywhere(place: Place, client: ServerClient, condition: Reported) -> None:
    watcher = Watcher(client, await client.revision())
    await watcher.reach(revision_of((await client.create("a")).json()))
    await eventually(ready(client))
    before = len(place.server.log)

    async def answers() -> tuple[int, int]:
        read = await client.request("GET", f"{WIDGETS}/a")
        if not condition.write:
            return read.status_code, 0
        write = await client.patch(f"{WIDGETS}/a", {"metadata": {"labels": {"n": str(len(place.server.log))}}})
        return read.status_code, write.status_code

    async def reported() -> tuple[Any, ...]:
        checks = (await client.request("GET", "/readyz?verbose")).text
        return (
            await answers(), f"[-]{condition.check} failed" in checks, await outcome(client, condition.check),
            f"{condition.line}: " in place.server.log[before:],
        )  # fmt: skip

    found: tuple[Any, ...] = ()

    async def is_reported() -> bool:
        nonlocal found
        if condition.check == "feed" and condition.write:
            await write_elsewhere(place)
        found = await reported()
        return found == ((condition.read, condition.write), True, 0, True)

    with condition.breaks(place):
        if condition.check == "definitions":
            answer = await client.patch(DEFINITION, changed_definition(before))
            assert answer.status_code == 200, answer.text
        try:
            await eventually(is_reported)
        finally:
            print("found last:", found)
    await eventually(ready(client))
    assert await outcome(client, condition.check) == 1
    assert (await client.create("b")).status_code == 201
    await watcher.reach(await client.revision())
    await watcher.stop()
    assert watcher.seen[-1][1:] == ("ADDED", "b")
    assert condition.line.replace(f"check {condition.check} ", "check <name> ") in TROUBLESHOOTING
    assert f"| `{condition.check}` |" in OPERATIONS
    assert "Traceback" not in place.server.log


async def write_elsewhere(place: Place) -> None:
    """Another process writes: what the server commits itself, its watches need not read."""
    async with open_store(place.node.url) as other:
        tenant = await other.tenant(TenantName("default"))
        await other.commit(tenant, create(f"ns/{uuid.uuid4()}", resource=GADGETS))


def ready(client: ServerClient) -> Callable[[], Any]:
    async def is_ready() -> bool:
        return (await client.request("GET", "/readyz")).status_code == 200

    return is_ready


async def outcome(client: ServerClient, check: str) -> float:
    """Of a check, by the metric."""
    text = (await client.request("GET", "/metrics")).text
    [line] = [line for line in text.splitlines() if line.startswith(f'kubernetes_healthcheck{{name="{check}"')]
    return float(line.rpartition(" ")[2])


def changed_definition(number: int) -> Any:
    """A patch that replaces the schema of the definition."""
    versions = widgets_definition()["spec"]["versions"]
    versions[0]["schema"]["openAPIV3Schema"]["description"] = f"the {number}th"
    return {"spec": {"versions": versions}}


async def test_a_watch_pauses_during_an_outage_and_continues(
    place: Place, client: ServerClient, tmp_path: Path
) -> None:
    """Also one of kubectl, which asks for no bookmarks and would end without a message, since a new watch is refused."""
    assert (await client.create("before")).status_code == 201
    with kubectl_watch(place.server, tmp_path / "seen") as kubectl:
        await eventually(has(tmp_path / "seen", "before"))
        # That was listed; what is made now comes by its watch.
        revision = revision_of((await client.create("watched")).json())
        await eventually(has(tmp_path / "seen", "watched"))
        async with client.watch(revision, bookmarks=True) as events:
            assert (await anext(events))["type"] == "BOOKMARK"
            with away(place):
                await eventually(not_ready(client))
                # Each comes after a silence in which the definition was to be looked up.
                for _ in range(3):
                    assert (await anext(events))["type"] == "BOOKMARK"
                assert (await client.request("GET", f"{WIDGETS}?watch=1&resourceVersion={revision}")).status_code == 503
            await eventually(ready(client))
            after = revision_of((await client.create("after")).json())
            while (event := await anext(events))["type"] == "BOOKMARK":
                pass
            assert (event["type"], revision_of(event["object"])) == ("ADDED", after)
        await eventually(has(tmp_path / "seen", "after"))
        assert kubectl is None or kubectl.poll() is None


@contextlib.contextmanager
def kubectl_watch(server: RunningServer, output: Path) -> Iterator[subprocess.Popen[bytes] | None]:
    """`kubectl get --watch`, whose output goes to a file; a file that has everything where there is no kubectl."""
    if shutil.which("kubectl") is None:
        output.write_text("before watched after")
        yield None
        return
    command = ["kubectl", "--kubeconfig", str(server.kubeconfig), "get", f"widgets.{GROUP}", "--watch", "--output=name"]
    with open(output, "wb") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={**os.environ, "HOME": str(output.parent)}
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def has(file: Path, text: str) -> Callable[[], Any]:
    return lambda: asyncio.to_thread(lambda: text in file.read_text())


def not_ready(client: ServerClient) -> Callable[[], Any]:
    async def fails() -> bool:
        return "[-]database failed" in (await client.request("GET", "/readyz")).text

    return fails


async def test_a_watch_that_cannot_catch_up_tries_again(place: Place, client: ServerClient) -> None:
    """It begins before what this process has in memory, so that it reads the log by itself."""
    created = revision_of((await client.create("a")).json())
    async with contextlib.AsyncExitStack() as stack:
        with failing(place.server.data_dir, "replay") as failures:
            events = await stack.enter_async_context(client.watch(1))

            async def has_tried() -> bool:
                return failures() > 3

            await eventually(has_tried)
        while revision_of((await anext(events))["object"]) < created:
            pass
