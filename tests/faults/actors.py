"""Clients of a campaign: writers, readers, pagers and watchers, each at any of the servers, over some tenants.

They take failures as they come: a request that has no answer is noted as such, and the next goes to another server.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import ssl
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import httpx

from tests.api.widgets import GROUP, widget
from tests.faults.history import UNKNOWN, Event, History, Listing, Read, Watch, Write

# Long enough for a server that waits for its database; what hangs for longer is a fault of its own (`hung`).
REQUEST_SECONDS = 60.0
NAMES = [f"w{number}" for number in range(12)]
PAGE = 5
# The name of tasks that end by themselves when clients stop.
_ENDS = "client that ends"


# Something that a client does at a tenant; false where it had better wait before the next.
Once = Callable[[str, random.Random], Coroutine[Any, Any, bool]]


class Cluster:
    """The servers that clients know: `urls` changes as they are replaced."""

    def __init__(self, servers: Sequence[tuple[str, str, str]]) -> None:
        """Of each its URL, the administrator's token and the file of its authority."""
        self._clients = [
            httpx.AsyncClient(
                base_url=url,
                headers={"Authorization": f"Bearer {token}"},
                timeout=REQUEST_SECONDS,
                limits=httpx.Limits(max_connections=40),
                verify=ssl.create_default_context(cafile=authority),
                trust_env=False,
            )
            for url, token, authority in servers
        ]

    def any(self, chance: random.Random) -> httpx.AsyncClient:
        return chance.choice(self._clients)

    async def aclose(self) -> None:
        for client in self._clients:
            await client.aclose()


class Actors:
    """Runs them until `stop`; what they do is in `history`."""

    def __init__(self, cluster: Cluster, tenants: Sequence[str], seed: int) -> None:
        self.history = History()
        # Requests that had no answer within REQUEST_SECONDS.
        self.hung: list[str] = []
        # Watches that had not come up to what was written, REQUEST_SECONDS after the last write.
        self.late: list[str] = []
        # When the last write was acknowledged, by time.monotonic.
        self.wrote_at = 0.0
        self._cluster = cluster
        self._tokens = itertools.count(1)
        self._stopping = False
        # Watches that go on.
        self._open: list[Watch] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._jobs: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self._watchers: list[Callable[[], Coroutine[Any, Any, None]]] = []
        for number, tenant in enumerate(tenants):
            chances = [random.Random(f"{seed}/{number}/{n}") for n in range(6)]
            repeated = (self._write, self._write, self._read, self._list)
            self._jobs += [
                partial(self._repeat, once, tenant, chance) for once, chance in zip(repeated, chances[:4], strict=True)
            ]
            self._watchers += [partial(self._follow, tenant, chance) for chance in chances[4:]]

    def start(self) -> None:
        self._tasks = [
            *(asyncio.create_task(job(), name=_ENDS) for job in self._jobs),
            *(asyncio.create_task(job()) for job in self._watchers),
        ]

    async def stop(self) -> None:
        """Ends the writers, lets the watchers come up to what was written, and ends them."""
        self._stopping = True
        # What is under way is answered first: nothing may be written while the log is read.
        await asyncio.wait([task for task in self._tasks if task.get_name() == _ENDS])
        newest: dict[str, int] = {}
        for write in self.history.writes:
            newest[write.tenant] = max(newest.get(write.tenant, 0), write.revision)
        deadline = time.monotonic() + REQUEST_SECONDS

        def late() -> list[str]:
            return [
                f"{watch.tenant}: a watch at {watch.position}, and {newest[watch.tenant]} was written"
                for watch in self._open
                if watch.position < newest.get(watch.tenant, 0)
            ]

        while late() and time.monotonic() < deadline:  # noqa: ASYNC110 (they have no event to wait for)
            await asyncio.sleep(0.05)
        self.late = late()
        for task in self._tasks:
            task.cancel()
        for outcome in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome

    async def _repeat(self, once: Once, tenant: str, chance: random.Random) -> None:
        while not self._stopping:
            done = await once(tenant, chance)
            await asyncio.sleep(chance.uniform(0, 0.05) if done else 0.1)

    async def _request(
        self, chance: random.Random, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> httpx.Response | None:
        """The answer; None without one."""
        client = self._cluster.any(chance)
        try:
            return await client.request(
                method, path, content=None if body is None else json.dumps(body), headers={"Content-Type": kind}
            )
        except httpx.TimeoutException:
            self.hung.append(f"{method} {path}")
        except (httpx.HTTPError, ssl.SSLError):
            pass
        return None

    async def _write(self, tenant: str, chance: random.Random) -> bool:
        name, token = chance.choice(NAMES), next(self._tokens)
        verb = chance.choices(("ADDED", "MODIFIED", "APPLIED", "DELETED"), (4, 4, 2, 2))[0]
        path, began = f"{widgets(tenant)}/{name}", time.monotonic()
        match verb:
            case "ADDED":
                answer = await self._request(chance, "POST", widgets(tenant), widget(name, size=token))
            case "DELETED":
                answer = await self._request(chance, "DELETE", path)
            case "MODIFIED":
                patch = {"spec": {"size": token}}
                answer = await self._request(chance, "PATCH", path, patch, "application/merge-patch+json")
            case _:
                path += "?fieldManager=applier&force=true"
                answer = await self._request(
                    chance, "PATCH", path, widget(name, size=token), "application/apply-patch+yaml"
                )
                # An apply creates what is not there.
                verb = "ADDED" if answer is not None and answer.status_code == 201 else "MODIFIED"
        code = UNKNOWN if answer is None else answer.status_code
        revision = 0
        if answer is not None and code in (200, 201):
            self.wrote_at = time.monotonic()
            revision = _deleted_at(answer.json()) if verb == "DELETED" else _revision(answer.json())
        write = Write(tenant, verb, name, token, began, time.monotonic(), code, revision)
        self.history.writes.append(write)
        return answer is not None and code < 500

    async def _read(self, tenant: str, chance: random.Random) -> bool:
        name, began = chance.choice(NAMES), time.monotonic()
        answer = await self._request(chance, "GET", f"{widgets(tenant)}/{name}")
        if answer is None or answer.status_code not in (200, 404):
            return False
        found = answer.json() if answer.status_code == 200 else None
        token, revision = (None, 0) if found is None else (found["spec"]["size"], _revision(found))
        self.history.reads.append(Read(tenant, name, began, time.monotonic(), token, revision))
        return True

    async def _list(self, tenant: str, chance: random.Random) -> bool:
        began, objects, path = time.monotonic(), {}, f"{widgets(tenant)}?limit={PAGE}"
        while True:
            answer = await self._request(chance, "GET", path)
            if answer is None or answer.status_code != 200:
                return False
            page = answer.json()
            for obj in page["items"]:
                objects[obj["metadata"]["name"]] = (_revision(obj), obj["spec"]["size"])
            if not (onward := page["metadata"].get("continue")):
                break
            path = f"{widgets(tenant)}?limit={PAGE}&continue={onward}"
        revision = int(page["metadata"]["resourceVersion"])
        self.history.listings.append(Listing(tenant, began, time.monotonic(), revision, objects))
        return True

    async def _follow(self, tenant: str, chance: random.Random) -> None:
        """An informer: a list, and watches from there, each for a while and at another server."""
        watch: Watch | None = None
        while True:
            if watch is None:
                answer = await self._request(chance, "GET", widgets(tenant))
                if answer is None or answer.status_code != 200:
                    await asyncio.sleep(0.1)
                    continue
                watch = Watch(tenant, int(answer.json()["metadata"]["resourceVersion"]))
                self.history.watches.append(watch)
                self._open.append(watch)
            if await self._watch_once(watch, chance):
                self._open.remove(watch)
                watch = None
            await asyncio.sleep(chance.uniform(0, 0.1))

    async def _watch_once(self, watch: Watch, chance: random.Random) -> bool:
        """Whether the revision has expired."""
        path = f"{widgets(watch.tenant)}?watch=1&allowWatchBookmarks=true&resourceVersion={watch.position}"
        seconds = chance.uniform(1, 8)
        try:
            async with asyncio.timeout(seconds), self._cluster.any(chance).stream("GET", path) as answer:
                if answer.status_code != 200:
                    return answer.status_code == 410
                async for line in answer.aiter_lines():
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        return bool(event["object"]["code"] == 410)
                    watch.events.append(_event(event))
        except (httpx.HTTPError, ssl.SSLError, TimeoutError, json.JSONDecodeError):
            pass
        return False


def widgets(tenant: str) -> str:
    return f"/clusters/{tenant}/apis/{GROUP}/v1/namespaces/default/widgets"


def _revision(obj: Any) -> int:
    return int(obj["metadata"]["resourceVersion"])


def _deleted_at(answer: Any) -> int:
    """A deletion is answered with a Status, which has no revision, or with the object as it was deleted."""
    return int(answer.get("metadata", {}).get("resourceVersion") or 0)


def _event(event: Any) -> Event:
    obj = event["object"]
    if event["type"] == "BOOKMARK":
        return Event("BOOKMARK", _revision(obj))
    return Event(event["type"], _revision(obj), obj["metadata"]["name"], obj["spec"]["size"])
