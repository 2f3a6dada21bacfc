"""Clients of started servers: requests, watches that are resumed, and writers that note what was acknowledged."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any, Self

import httpx

from tests.api.errors import status_shape
from tests.api.widgets import DEFINITIONS, WIDGETS, widget, widgets_definition

# What is waited for comes within seconds; the rest is for busy machines.
PATIENCE_SECONDS = 120.0


class ServerClient:
    """The administrator at one server."""

    def __init__(self, url: str, token: str, verify: ssl.SSLContext | bool = True) -> None:
        limits = httpx.Limits(max_connections=50)
        self._http = httpx.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            limits=limits,
            timeout=PATIENCE_SECONDS,
            trust_env=False,
            verify=verify,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def request(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> httpx.Response:
        content = None if body is None else json.dumps(body)
        try:
            return await self._http.request(method, path, content=content, headers={"Content-Type": content_type})
        except AttributeError as error:
            # anyio 4 on uvloop, of a connection that is closed while it is made: 'NoneType' has no 'getpeername'.
            if error.name != "getpeername":
                raise
            raise httpx.ConnectError("closed while connecting") from error

    async def get(self, path: str) -> Any:
        answer = await self.request("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def patch(self, path: str, body: Any) -> httpx.Response:
        return await self.request("PATCH", path, body, "application/merge-patch+json")

    async def create(self, name: str, **spec: Any) -> httpx.Response:
        return await self.request("POST", WIDGETS, widget(name, **spec))

    async def define_widgets(self, tenant: str = "") -> None:
        """`tenant` is what stands before its paths."""
        answer = await self.request("POST", tenant + DEFINITIONS, widgets_definition())
        assert answer.status_code == 201, answer.text

        async def established() -> bool:
            return (await self.request("GET", tenant + WIDGETS)).status_code == 200

        await eventually(established)

    async def revision(self) -> int:
        return int((await self.get(WIDGETS))["metadata"]["resourceVersion"])

    @contextlib.asynccontextmanager
    async def watch(self, after: int, *, bookmarks: bool = False) -> AsyncIterator[AsyncIterator[Any]]:
        """The events of the widgets after a revision; they end where the server ends the watch."""
        path = f"{WIDGETS}?watch=1&resourceVersion={after}&allowWatchBookmarks={str(bookmarks).lower()}"
        async with self._http.stream("GET", path) as answer:
            assert answer.status_code == 200
            yield (json.loads(line) async for line in answer.aiter_lines())


def revision_of(obj: Any) -> int:
    return int(obj["metadata"]["resourceVersion"])


async def eventually(condition: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> Any:
    """The first true value of an async function, which may fail until then as servers and databases are away."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            found = await condition()
        except httpx.HTTPError:
            found = None
        if found:
            return found
        assert time.monotonic() < deadline, "what was waited for did not come"
        await asyncio.sleep(0.02)


class Watcher:
    """Follows the widgets as an informer does: over any number of watches, each from the last revision seen."""

    def __init__(self, client: ServerClient, after: int) -> None:
        self.client = client
        self.seen: list[tuple[int, str, str]] = []
        self.position = after
        self.watches = 0
        self._task = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        while True:
            with contextlib.suppress(httpx.HTTPError, AssertionError):
                async with self.client.watch(self.position) as events:
                    self.watches += 1
                    async for event in events:
                        assert event["type"] != "ERROR", event
                        obj = event["object"]
                        self.position = revision_of(obj)
                        self.seen.append((self.position, event["type"], obj["metadata"]["name"]))
            await asyncio.sleep(0.05)

    async def reach(self, revision: int) -> None:
        async def there() -> bool:
            return self.position >= revision

        await eventually(there)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class Writers:
    """Clients that create and patch widgets until stopped, and note each acknowledged revision."""

    def __init__(self, clients: list[ServerClient], count: int = 6) -> None:
        self.acknowledged: dict[int, tuple[str, str]] = {}
        self.refused: list[httpx.Response] = []
        self._stop = asyncio.Event()
        self._tasks = [asyncio.create_task(self._write(clients[n % len(clients)], f"w{n}")) for n in range(count)]

    async def _write(self, client: ServerClient, label: str) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            name = f"{label}-{number}"
            if await self._one("ADDED", client.create(name, size=number)):
                await self._one("MODIFIED", client.patch(f"{WIDGETS}/{name}", {"spec": {"size": number + 1}}))
            else:
                await asyncio.sleep(0.02)

    async def _one(self, type_: str, call: Any) -> bool:
        try:
            answer = await call
        except httpx.HTTPError:
            return False
        if answer.status_code >= 300:
            self.refused.append(answer)
            return False
        obj = answer.json()
        self.acknowledged[revision_of(obj)] = (type_, obj["metadata"]["name"])
        return True

    async def more(self, count: int) -> None:
        """Waits for so many more acknowledged writes."""
        wanted = len(self.acknowledged) + count

        async def there() -> bool:
            return len(self.acknowledged) >= wanted

        await eventually(there)

    async def stop(self) -> None:
        self._stop.set()
        await asyncio.gather(*self._tasks)


def assert_unavailable(answer: httpx.Response) -> None:
    """A Status of a server whose database is away: 5xx, and when to try again."""
    assert answer.status_code in (500, 503), answer.text
    reason = "ServiceUnavailable" if answer.status_code == 503 else "InternalError"
    status = status_shape(answer.json(), answer.status_code, reason)
    assert status["details"]["retryAfterSeconds"] >= 1
    assert int(answer.headers["retry-after"]) >= 1
