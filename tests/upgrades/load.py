"""Ordinary clients at work while servers are replaced: writers at a rate, and watchers that resume.

They keep connections, heed `Connection: close`, and repeat nothing but a watch that has ended, and a GET on a kept connection
that turns out to be closed, as Go's net/http does by itself. What they note as `failed` is what a user would have to know of.
They share the machine with the servers, so they do no more with an answer than to find its revision.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
import time
from collections.abc import AsyncIterator, Sequence
from typing import Final

from benchmarks.client import JSON, MERGE_PATCH, Connection, Target
from tests.api.widgets import GROUP, widget
from tests.faults.history import UNKNOWN, Event, History, Watch, Write

REQUEST_SECONDS = 60.0
# Of each tenant.
NAMESPACES: Final = tuple(f"n{number}" for number in range(5))
# Of each tenant: so many that they keep up the rate while each waits for an answer.
WRITERS: Final = 6
# Refusals that belong to the request: an object that is there, or is not, or was changed by another writer.
EXPECTED = (200, 201, 404, 409)

_REVISION: Final = re.compile(rb'"resourceVersion":"(\d+)"')
_EVENT: Final = re.compile(rb'\{"type":"([A-Z]+)"')
_NAME: Final = re.compile(rb'"name":"(n\d+-[^"]+)"')
_SIZE: Final = re.compile(rb'"size":(\d+)')

Broken = (OSError, EOFError, TimeoutError)


class Load:
    """`rate` writes a second over all tenants and their namespaces, and `watches` watches, each of a namespace, from
    `start` to `stop`.

    `rotate`: a writer takes another connection after so many requests, and a watch ends after some seconds and begins in
    another one, so that a balancer can drain a server which says nothing of its end.
    """

    def __init__(
        self, url: str, token: str, tenants: Sequence[str], *, rate: float, watches: int, rotate: int = 0
    ) -> None:
        self.history = History()
        self.failed: list[str] = []
        # Watches that broke off in the middle of something.
        self.broken: list[str] = []
        self.seconds: list[float] = []
        self.acknowledged = 0
        self._target = Target(url, token)
        self._rotate = rotate
        self._tokens = itertools.count(1)
        self._stopping = False
        # The newest revision that was written to a tenant and namespace.
        self._newest: dict[tuple[str, str], int] = {}
        pause = WRITERS * len(tenants) / rate
        self._writers = [self._write_on(tenant, n, pause) for n, tenant in enumerate([*tenants] * WRITERS)]
        places = list(itertools.product(tenants, NAMESPACES))
        self._watchers = [self._follow(*places[n % len(places)], n) for n in range(watches)]
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._began, self._processor_began = time.monotonic(), time.process_time()
        self._tasks = [asyncio.create_task(job) for job in (*self._writers, *self._watchers)]

    def go_on_from(self, other: Load) -> None:
        """Writes other numbers than `other` did."""
        self._tokens = other._tokens

    @property
    def rate(self) -> float:
        return self.acknowledged / (time.monotonic() - self._began)

    @property
    def processor_milliseconds(self) -> float:
        """What this process has taken for each acknowledged write, watches included."""
        return 1000 * (time.process_time() - self._processor_began) / self.acknowledged

    async def more(self, count: int) -> None:
        """Waits for so many more acknowledged writes."""
        wanted = self.acknowledged + count
        async with asyncio.timeout(900):
            while self.acknowledged < wanted:  # noqa: ASYNC110 (nothing tells of a write)
                await asyncio.sleep(0.02)

    async def stop(self) -> None:
        self._stopping = True
        writers, watchers = self._tasks[: len(self._writers)], self._tasks[len(self._writers) :]
        await asyncio.gather(*writers)
        async with asyncio.timeout(600):
            while any(map(self._is_late, self.history.watches)):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        for task in watchers:
            task.cancel()
        for outcome in await asyncio.gather(*watchers, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome

    def _is_late(self, watch: Watch) -> bool:
        return watch.position < self._newest.get((watch.tenant, watch.prefix), 0)

    async def _write_on(self, tenant: str, number: int, pause: float) -> None:
        """A writer of objects of its own: it knows which of them there are, but for what others of its name have left."""
        chance, client, count = random.Random(number), Client(self._target), 0
        there: set[str] = set()
        try:
            due = time.monotonic() + chance.uniform(0, pause)
            while not self._stopping:
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                due = max(due + pause, time.monotonic() - 1)
                namespace = chance.choice(NAMESPACES)
                name = f"{namespace}-w{number}-{chance.randrange(4)}"
                verb = "ADDED" if name not in there else chance.choice(("MODIFIED", "MODIFIED", "MODIFIED", "DELETED"))
                # A refusal says that it is not as was thought.
                if await self._write(client, tenant, namespace, name, verb) in (404, 409) or verb != "MODIFIED":
                    there ^= {name}
                count += 1
                if self._rotate and count % self._rotate == 0:
                    client.close()
        finally:
            client.close()

    async def _write(self, client: Client, tenant: str, namespace: str, name: str, verb: str) -> int:
        """The code of the answer, UNKNOWN without one."""
        token, began, code, revision = next(self._tokens), time.monotonic(), UNKNOWN, 0
        path = widgets(tenant, namespace)
        match verb:
            case "ADDED":
                request = ("POST", path, json.dumps(widget(name, size=token)).encode(), JSON)
            case "MODIFIED":
                patch = json.dumps({"spec": {"size": token}}).encode()
                request = ("PATCH", f"{path}/{name}", patch, MERGE_PATCH)
            case _:
                request = ("DELETE", f"{path}/{name}", b"", JSON)
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                code, body = await client.request(*request)
        except Broken as error:
            self.failed.append(f"{verb} {path}/{name}: {error!r}")
        else:
            if code not in EXPECTED:
                self.failed.append(f"{verb} {path}/{name}: {code} {body[:300]!r}")
            elif code in (200, 201):
                self.acknowledged += 1
                if verb != "DELETED":
                    revision, place = _number(_REVISION, body), (tenant, f"{namespace}-")
                    self._newest[place] = max(revision, self._newest.get(place, 0))
        ended = time.monotonic()
        self.seconds.append(ended - began)
        self.history.writes.append(Write(tenant, verb, name, token, began, ended, code, revision))
        return code

    async def _follow(self, tenant: str, namespace: str, number: int) -> None:
        chance, client = random.Random(-number), Client(self._target)
        try:
            code, body = await client.request("GET", f"{widgets(tenant, namespace)}?limit=1")
            assert code == 200, body
            watch = Watch(tenant, int(json.loads(body)["metadata"]["resourceVersion"]), prefix=f"{namespace}-")
            self.history.watches.append(watch)
            while True:
                seconds = f"&timeoutSeconds={chance.randint(3, 8)}" if self._rotate else ""
                if self._rotate:
                    client.close()
                path = f"{widgets(tenant, namespace)}?watch=1&resourceVersion={watch.position}{seconds}"
                if not await self._watch_once(client, path, watch):
                    await asyncio.sleep(0.1)
        finally:
            client.close()

    async def _watch_once(self, client: Client, path: str, watch: Watch) -> bool:
        """Whether it began. It is read without a time limit: writes may pause for long on a busy machine."""
        for attempt in (1, 2):
            try:
                async with asyncio.timeout(REQUEST_SECONDS):
                    code, body = await client.begin_watch(path)
                break
            except Broken as error:
                if attempt == 2:
                    self.failed.append(f"watch {path}: {error!r}")
                    return False
        if code != 200:
            self.failed.append(f"watch {path}: {code} {body[:300]!r}")
            return False
        try:
            async for line in client.lines():
                kind = _EVENT.match(line)
                assert kind is not None, line
                if kind[1] == b"ERROR":
                    self.failed.append(f"watch {path}: {line!r}")
                    break
                name = _NAME.search(line)
                assert name is not None, line
                watch.events.append(
                    Event(kind[1].decode(), _number(_REVISION, line), name[1].decode(), _number(_SIZE, line))
                )
        except Broken as error:
            self.broken.append(f"{watch.tenant} {watch.prefix} at {watch.position}: {error!r}")
            client.close()
        return True


class Client:
    """One connection at a time, kept while the server keeps it."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._connection: Connection | None = None
        self._is_last = False

    def close(self) -> None:
        if self._connection is not None:
            self._connection.drop()
            self._connection = None

    async def request(self, method: str, path: str, body: bytes = b"", kind: str = JSON) -> tuple[int, bytes]:
        """The code and the body of the answer."""
        connection, code, headers = await self._send(method, path, body, kind)
        answer = await connection.body(headers)
        if headers.get("connection") == "close":
            self.close()
        return code, answer

    async def begin_watch(self, path: str) -> tuple[int, bytes]:
        """The code, and the body of a refusal."""
        connection, code, headers = await self._send("GET", path, b"", JSON)
        self._is_last = headers.get("connection") == "close"
        return code, b"" if code == 200 else await connection.body(headers)

    async def lines(self) -> AsyncIterator[bytes]:
        """Those of the watch that was begun, up to its end."""
        assert self._connection is not None
        rest = b""
        async for chunk in self._connection.chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line
        assert not rest, rest
        if self._is_last:
            self.close()

    async def _send(self, method: str, path: str, body: bytes, kind: str) -> tuple[Connection, int, dict[str, str]]:
        if self._connection is None or self._connection.reader.at_eof():
            self.close()
            self._connection = await Connection.open(self._target)
        connection = self._connection
        try:
            connection.send(method, path, body, kind)
            return connection, *await connection.head()
        except BaseException:
            self.close()
            raise


def widgets(tenant: str, namespace: str) -> str:
    return f"/clusters/{tenant}/apis/{GROUP}/v1/namespaces/{namespace}/widgets"


def _number(pattern: re.Pattern[bytes], text: bytes) -> int:
    found = pattern.search(text)
    assert found is not None, text
    return int(found[1])
