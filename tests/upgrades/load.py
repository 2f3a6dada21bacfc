"""Ordinary clients at work while servers are replaced: writers at a rate, and watchers that resume.

They keep connections, heed `Connection: close`, and repeat nothing but a watch that has ended, and a GET on a kept connection
that turns out to be closed, as Go's net/http does by itself. What they note as `failed` is what a user would have to know of.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from collections.abc import Sequence
from typing import Any

import httpx

from tests.api.widgets import widget
from tests.faults.actors import _event, _revision, widgets
from tests.faults.history import UNKNOWN, History, Watch, Write

REQUEST_SECONDS = 60.0
# Refusals that belong to the request: an object that is there, or is not, or was changed by another writer.
EXPECTED = (200, 201, 404, 409)


class Load:
    """`rate` writes a second over all tenants, and `watches` watches, from `start` to `stop`.

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
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"}
        self._rotate = rotate
        self._tokens = itertools.count(1)
        self._stopping = False
        self._writers = [
            self._write_on(tenant, n, 2 * len(tenants) / rate) for n, tenant in enumerate([*tenants, *tenants])
        ]
        self._watchers = [self._follow(tenants[n % len(tenants)], n) for n in range(watches)]
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._began = time.monotonic()
        self._tasks = [asyncio.create_task(job) for job in (*self._writers, *self._watchers)]

    @property
    def acknowledged(self) -> int:
        return sum(write.is_acknowledged for write in self.history.writes)

    @property
    def rate(self) -> float:
        return self.acknowledged / (time.monotonic() - self._began)

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
        newest: dict[str, int] = {}
        for write in self.history.writes:
            newest[write.tenant] = max(newest.get(write.tenant, 0), write.revision)
        async with asyncio.timeout(600):
            while any(watch.position < newest[watch.tenant] for watch in self.history.watches):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        for task in watchers:
            task.cancel()
        for outcome in await asyncio.gather(*watchers, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome

    def _client(self) -> httpx.AsyncClient:
        # Without a context of TLS, which takes longer to make than the requests that follow.
        return httpx.AsyncClient(
            base_url=self._url, headers=self._headers, timeout=REQUEST_SECONDS, trust_env=False, verify=False
        )

    async def _write_on(self, tenant: str, number: int, pause: float) -> None:
        """A writer of objects of its own."""
        chance, client, count = random.Random(number), self._client(), 0
        try:
            due = time.monotonic() + chance.uniform(0, pause)
            while not self._stopping:
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                due = max(due + pause, time.monotonic() - 1)
                await self._write(client, tenant, f"w{number}-{chance.randrange(20)}", chance)
                count += 1
                if self._rotate and count % self._rotate == 0:
                    await client.aclose()
                    client = self._client()
        finally:
            await client.aclose()

    async def _write(self, client: httpx.AsyncClient, tenant: str, name: str, chance: random.Random) -> None:
        token, began, code, revision = next(self._tokens), time.monotonic(), UNKNOWN, 0
        verb = chance.choices(("ADDED", "MODIFIED", "DELETED"), (3, 6, 2))[0]
        path = f"{widgets(tenant)}/{name}"
        match verb:
            case "ADDED":
                request = client.build_request("POST", widgets(tenant), json=widget(name, size=token))
            case "MODIFIED":
                kind = {"Content-Type": "application/merge-patch+json"}
                patch = json.dumps({"spec": {"size": token}})
                request = client.build_request("PATCH", path, content=patch, headers=kind)
            case _:
                request = client.build_request("DELETE", path)
        try:
            answer = await client.send(request)
        except httpx.HTTPError as error:
            self.failed.append(f"{verb} {path}: {error!r}")
        else:
            code = answer.status_code
            if code not in EXPECTED:
                self.failed.append(f"{verb} {path}: {code} {answer.text[:300]}")
            elif code in (200, 201) and verb != "DELETED":
                revision = _revision(answer.json())
        ended = time.monotonic()
        self.seconds.append(ended - began)
        self.history.writes.append(Write(tenant, verb, name, token, began, ended, code, revision))

    async def _follow(self, tenant: str, number: int) -> None:
        chance, client = random.Random(-number), self._client()
        try:
            answer = await client.get(widgets(tenant))
            assert answer.status_code == 200, answer.text
            watch = Watch(tenant, int(answer.json()["metadata"]["resourceVersion"]))
            self.history.watches.append(watch)
            while True:
                seconds = f"&timeoutSeconds={chance.randint(3, 8)}" if self._rotate else ""
                path = f"{widgets(tenant)}?watch=1&resourceVersion={watch.position}{seconds}"
                if self._rotate:
                    await client.aclose()
                    client = self._client()
                begun = await self._begin(client, path)
                if begun is None or begun.status_code != 200:
                    await asyncio.sleep(0.1)
                    continue
                try:
                    await self._read(begun, watch)
                except httpx.HTTPError as error:
                    self.broken.append(f"{tenant} at {watch.position}: {error!r}")
                finally:
                    await begun.aclose()
        finally:
            await client.aclose()

    async def _begin(self, client: httpx.AsyncClient, path: str) -> httpx.Response | None:
        # Writes may pause for a long time on a busy machine, so a watch waits without a limit.
        request = client.build_request("GET", path, timeout=httpx.Timeout(REQUEST_SECONDS, read=None))
        for attempt in (1, 2):
            try:
                answer = await client.send(request, stream=True)
            except httpx.HTTPError as error:
                if attempt == 2:
                    self.failed.append(f"watch {path}: {error!r}")
                continue
            if answer.status_code != 200:
                self.failed.append(f"watch {path}: {answer.status_code} {(await answer.aread())[:300]!r}")
            return answer
        return None

    async def _read(self, answer: httpx.Response, watch: Watch) -> None:
        async for line in answer.aiter_lines():
            event: Any = json.loads(line)
            if event["type"] == "ERROR":
                self.failed.append(f"watch of {watch.tenant}: {line}")
                return
            watch.events.append(_event(event))
