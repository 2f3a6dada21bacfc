"""Clients that disconnect in every phase of a request leave nothing behind, and their neighbours notice nothing."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import random
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import pytest

from registry.flowcontrol.fair_queue import EXEMPT, PRESENT_SECONDS, FairQueue, Seat
from registry.http import metrics
from registry.http.middleware.fast_gets import FastGets
from registry.http.serving.cycle import Cycle
from registry.store.store import Store
from tests.api.client import Client, eventually
from tests.application import shares_application
from tests.flowcontrol.idle import assert_idle
from tests.http.acceptors import accepting
from tests.tenancy.tenants import CONFIG_MAPS, make

CLIENTS = 400
AT_ONCE = 40


def queue_of(client: Client) -> FairQueue:
    store: Store = client._app.state.backend.store  # type: ignore[attr-defined]
    return store._feed._wake_reader.__self__  # type: ignore[attr-defined, no-any-return]


@dataclass
class Storm:
    """Clients of several tenants that disconnect."""

    port: int
    tokens: list[str]
    paths: list[str]
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    answered: int = 0

    def request(self) -> bytes:
        path, token = self.chance.choice(self.paths), self.chance.choice(self.tokens)
        body = json.dumps({"metadata": {"generateName": "s-"}, "data": {"text": "x" * 2_000}}).encode()
        sent = self.chance.choice([None, len(body), len(body) // 2])
        method, path, text = self.chance.choice(
            [
                ("GET", f"{path}/a", b""),
                ("GET", f"{path}/a", b""),
                ("GET", path, b""),
                ("GET", f"{path}?watch=true&resourceVersion=0", b""),
                ("POST", path, body),
                ("POST", f"{path}?dryRun=All", body[:sent]),
                ("DELETE", f"{path}?labelSelector=none", b""),
            ]
        )
        length = len(body) if text else 0
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\nContent-Length: {length}\r\n\r\n"
        )
        return head.encode() + text

    async def client(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        with contextlib.suppress(OSError):
            for _ in range(self.chance.randint(0, 2)):
                writer.write(get(self.chance.choice(self.paths), self.tokens[0]))  # further gets have a plan
                if await reader.read(64):
                    self.answered += 1
            writer.write(b"".join(self.request() for _ in range(self.chance.choice([1, 1, 4]))))
            await asyncio.sleep(self.chance.choice([0, 0, 0.001, 0.003, 0.01, 0.03]))  # when its client disconnects
            writer.transport.abort()

    async def run(self) -> None:
        left = iter(range(CLIENTS))

        async def clients() -> None:
            for _ in left:
                await self.client()

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(clients())


def get(path: str, token: str) -> bytes:
    return f"GET {path}/a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n".encode()


async def revisions_seen(created: asyncio.Future[set[str]], port: int, path: str, token: str) -> list[int]:
    """The revisions of the events that a watch of ConfigMaps gets, up to the last of those created."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = f"GET {path}&watch=true HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n"
    writer.write(request.encode())
    await reader.readuntil(b"\r\n\r\n")
    revisions: list[int] = []
    seen: set[str] = set()
    while not created.done() or not created.result() <= seen:
        size = int(await reader.readline(), 16)
        chunk = await reader.readexactly(size + 2)
        for line in chunk.splitlines():
            if line:
                found = json.loads(line)["object"]["metadata"]
                seen.add(found["name"])
                revisions.append(int(found["resourceVersion"]))
    writer.close()
    return revisions


def names_in(found: dict[str, Any]) -> set[str]:
    return {item["metadata"]["name"] for item in found["items"]}


def noting(take: Callable[..., Seat | None], seats: list[Seat]) -> Callable[..., Seat | None]:
    """A method of the queue that adds the seats that it returns to a list."""

    def noted(*arguments: Any) -> Seat | None:
        if (seat := take(*arguments)) is not None:
            seats.append(seat)
        return seat

    return noted


@shares_application
async def test_clients_that_disconnect_in_any_phase_leave_nothing(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    seats: list[Seat] = []

    for name in ("_take_first", "_take_more"):
        monkeypatch.setattr(FairQueue, name, noting(getattr(FairQueue, name), seats))
    system = api.of_tenant("system")
    tenants = [await make(system, name) for name in ("one", "two", "quiet")]
    for tenant in tenants:
        (await tenant.post(CONFIG_MAPS, {"metadata": {"name": "a"}})).ok(201)
        for number in range(100):
            (await tenant.post(CONFIG_MAPS, {"metadata": {"name": f"m{number}"}, "data": {"t": "x" * 500}})).ok(201)
    queue = queue_of(api)
    one, _, quiet = tenants
    paths = [f"{tenant.prefix}{CONFIG_MAPS}" for tenant in tenants[:2]]
    token = api._token
    async with accepting(1_000, None, api._app) as (acceptor, port):
        before = metrics.IN_FLIGHT.count
        created: asyncio.Future[set[str]] = asyncio.get_running_loop().create_future()
        before_all = (await one.get(CONFIG_MAPS)).ok()
        since = before_all["metadata"]["resourceVersion"]
        watching = asyncio.create_task(revisions_seen(created, port, f"{paths[0]}?resourceVersion={since}", token))
        storm = Storm(port, [token, token, token, "unknown", ""], paths)
        storming = asyncio.create_task(storm.run())
        answers = []
        while not storming.done():
            answers.append((await quiet.get(f"{CONFIG_MAPS}/a")).code)
        await storming
        created.set_result(names_in((await one.get(CONFIG_MAPS)).ok()) - names_in(before_all) | {"last"})
        (await one.post(CONFIG_MAPS, {"metadata": {"name": "last"}})).ok(201)
        revisions = await asyncio.wait_for(watching, 60)
        assert revisions == sorted(set(revisions))
        assert {*answers} == {200}
        assert storm.answered > CLIENTS // 4

        async def is_idle() -> bool:
            return acceptor.shares.count == 0 and metrics.IN_FLIGHT.count <= before and queue._renewal is None

        await eventually(is_idle)
        # The tenants of these requests are no longer present.
        await asyncio.sleep(2 * PRESENT_SECONDS)
        assert_idle(queue, queue._clock())
        assert [seat.tenant for seat in seats if seat.short_until] == []  # all of them have been released
        queue.try_acquire("one", queue._clock())
        # That was the request of another tenant than the last one.
        await asyncio.sleep(2 * PRESENT_SECONDS)
        assert queue.try_acquire("one", queue._clock()) is EXEMPT


@shares_application
async def test_gets_that_wait_are_freed_when_their_clients_disconnect(tenant_api: Client) -> None:
    """They had to wait for a search for reference cycles, with the buffers of their connections."""
    (await tenant_api.post(CONFIG_MAPS, {"metadata": {"name": "a"}})).ok(201)
    request = get(f"{tenant_api.prefix}{CONFIG_MAPS}", tenant_api._token)
    waiting: list[Callable[[], bool]] = []
    cycles: list[weakref.ref[Cycle]] = []
    real_begin = FastGets.begin

    def begin(path: FastGets, cycle: Cycle, give_back: Callable[[], None]) -> bool:
        cycles.append(weakref.ref(cycle))
        return real_begin(path, cycle, give_back)

    def wait(_queue: FairQueue, _name: str, _grant: object, is_gone: Callable[[], bool]) -> None:
        waiting.append(is_gone)

    async def waits() -> bool:
        return bool(waiting)

    async def is_freed() -> bool:
        # As the queue does before it grants a seat.
        if waiting and waiting[0]():
            waiting.clear()
        return not waiting and cycles[0]() is None

    async with accepting(10, None, tenant_api._app) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        assert await reader.read(64)
        await asyncio.sleep(0.1)  # the rest of the request, after its answer
        gc.collect()
        gc.disable()
        try:
            with (
                mock.patch.object(FastGets, "begin", begin),
                mock.patch.object(FairQueue, "try_acquire", return_value=None),
                mock.patch.object(FairQueue, "acquire_later", wait),
            ):
                writer.write(request)
                await eventually(waits)
            writer.transport.abort()
            assert await eventually(is_freed)
        finally:
            gc.enable()
