"""Two server processes on one database: one order of events, one set of definitions, death of one."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence

import pytest

from tests.api.widgets import DEFINITIONS, GROUP, WIDGETS
from tests.faults.clients import PATIENCE_SECONDS, ServerClient, Watcher, Writers, eventually, revision_of
from tests.running import RunningServer

pytestmark = pytest.mark.slow

DEFINITION = f"{DEFINITIONS}/widgets.{GROUP}"


@pytest.fixture
def url(database_url: str) -> str:
    return database_url


async def test_watchers_of_both_processes_see_every_write_once_and_in_order(clients: Sequence[ServerClient]) -> None:
    one, two = clients
    await one.define_widgets()
    start = await two.revision()
    watchers = [Watcher(one, start), Watcher(two, start)]
    writers = Writers([one, two], 8)
    await writers.more(400)
    await writers.stop()
    last = await one.revision()
    late = Watcher(two, start)
    for watcher in (*watchers, late):
        await watcher.reach(max(writers.acknowledged))
        await watcher.stop()
        revisions = [revision for revision, _, _ in watcher.seen]
        assert revisions == sorted(set(revisions)), "each once, in order"
        assert {r: (type_, name) for r, type_, name in watcher.seen} == writers.acknowledged
    # The widgets are all that was written: nothing was skipped in the counting either.
    assert list(range(start + 1, last + 1)) == [r for r, _, _ in late.seen]


async def test_no_write_is_accepted_under_a_definition_that_was_replaced(clients: Sequence[ServerClient]) -> None:
    """By revisions: what is written after the definition satisfies it, whichever process wrote it."""
    one, two = clients
    await one.define_widgets()
    accepted: list[tuple[int, int]] = []
    stop = asyncio.Event()

    async def write(client: ServerClient, label: str) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            answer = await client.create(f"{label}-{number}", size=number % 20)
            if answer.status_code == 201:
                accepted.append((revision_of(answer.json()), number % 20))
            else:
                assert answer.status_code == 422, answer.text

    def more_than(count: int) -> Callable[[], Awaitable[bool]]:
        async def look() -> bool:
            return len(accepted) > count or any(task.done() for task in tasks)  # which has failed, then

        return look

    tasks = [asyncio.create_task(write(client, f"w{n}")) for n, client in enumerate((one, two, two, one))]
    bounds: list[tuple[int, int]] = []
    for bound in (15, 5, 12, 3, 18, 1):
        patch = [
            {
                "op": "add",
                "value": bound,
                "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/maximum",
            }
        ]
        answer = await one.request("PATCH", DEFINITION, patch, "application/json-patch+json")
        assert answer.status_code == 200, answer.text
        bounds.append((revision_of(answer.json()), bound))
        # At once, at the other process:
        refused = await two.create(f"over-{bound}", size=bound + 1)
        assert refused.status_code == 422, refused.text
        assert (await two.create(f"at-{bound}", size=bound)).status_code == 201
        await eventually(more_than(len(accepted) + 10))
    stop.set()
    await asyncio.gather(*tasks)
    for revision, size in accepted:
        valid = [bound for since, bound in bounds if since < revision]
        assert not valid or size <= valid[-1], f"size {size} at {revision}: {bounds}"
    assert len(accepted) > 50


async def test_a_crash_loses_no_acknowledged_write(
    clients: Sequence[ServerClient], servers: Sequence[RunningServer]
) -> None:
    one, two = clients
    await one.define_widgets()
    start = await one.revision()
    watcher = Watcher(one, start)
    writers = Writers([one, two, one])
    await writers.more(200)
    await watcher.reach(start + 1)  # its watch at the one has begun
    servers[0].process.kill()
    watcher.client = two
    await writers.more(100)
    await writers.stop()
    last = await two.revision()
    await watcher.reach(max(writers.acknowledged))
    await watcher.stop()
    seen = {revision: (type_, name) for revision, type_, name in watcher.seen}
    assert len(seen) == len(watcher.seen)
    assert writers.acknowledged.items() <= seen.items()
    names = {item["metadata"]["name"] for item in (await two.get(WIDGETS))["items"]}
    assert {name for _, name in writers.acknowledged.values()} <= names
    assert last >= max(writers.acknowledged)
    assert watcher.watches >= 2


async def test_a_stop_ends_watches_and_finishes_writes(
    clients: Sequence[ServerClient], servers: Sequence[RunningServer]
) -> None:
    one, two = clients
    await one.define_widgets()
    start = await one.revision()
    async with one.watch(start) as events:
        writers = Writers([one])
        await writers.more(50)
        seen = [await anext(events) for _ in range(50)]
        servers[0].process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE_SECONDS):  # of itself it would go on for half an hour
            seen += [event async for event in events]  # ends without an error: the last chunk was sent
    assert len(seen) >= 50
    assert await asyncio.to_thread(servers[0].process.wait, PATIENCE_SECONDS) == 0
    await writers.stop()
    rows = {item["metadata"]["name"] for item in (await two.get(WIDGETS))["items"]}
    assert {name for _, name in writers.acknowledged.values()} <= rows
    # Refused is refused cleanly, and only because the server was stopping.
    assert {r.status_code for r in writers.refused} <= {503}


async def test_work_of_a_crashed_process_is_finished_by_another(
    clients: Sequence[ServerClient], servers: Sequence[RunningServer]
) -> None:
    """A definition is deleted at a process that dies at once; its objects and it go anyway."""
    one, two = clients
    await one.define_widgets()
    for number in range(40):
        assert (await one.create(f"w{number}")).status_code == 201
    assert (await one.request("DELETE", DEFINITION)).status_code == 200
    servers[0].process.kill()

    async def gone() -> bool:
        return (await two.request("GET", DEFINITION)).status_code == 404

    await eventually(gone)
    assert (await two.request("GET", WIDGETS)).status_code == 404
