"""The measurements of a running server; each yields rows of the table."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.client import JSON, MERGE_PATCH, Connection, Failed, served, spread
from benchmarks.data import PLURAL, definition, thing
from benchmarks.load import Request, load
from benchmarks.server import MeasuredServer
from benchmarks.watchers import Watchers, watching

WRITE_SIZE = 2_000
# As sent: with metadata and managedFields an object of a list comes to about 3 kB.
LIST_SIZE = 1_500


@dataclass(frozen=True)
class Scale:
    """The amount of work in a run."""

    seconds: float = 8.0
    objects: int = 10_000
    watchers: int = 200
    # Each round of the fan-out writes that many objects and waits until every watcher has received all of them.
    rounds: int = 20
    writes: int = 50
    latencies: int = 200
    definitions: int = 300


QUICK = Scale(seconds=1.0, objects=600, watchers=10, rounds=3, writes=20, latencies=10, definitions=10)


@dataclass(frozen=True)
class Row:
    """A measured `value` in `unit`. CPU times are microseconds for a request (or an event)."""

    name: str
    value: float
    unit: str
    p50_ms: float | None = None
    p99_ms: float | None = None
    server_cpu: float | None = None
    postgres_cpu: float | None = None
    failed: int = 0

    def asdict(self) -> dict[str, Any]:
        return {k: round(v, 3) if isinstance(v, float) else v for k, v in asdict(self).items() if v is not None}


class Bench:
    """The measurements of one run, whose definitions have an API group of their own."""

    def __init__(self, server: MeasuredServer, group: str, scale: Scale) -> None:
        self._server = server
        self._target = server.target
        self._scale = scale
        self._group = group
        self._base = f"/apis/{group}/v1/namespaces/default/{PLURAL}"
        # Lists have a group of their own, since the objects created meanwhile would make them longer.
        self._list_group = f"lists.{group}"
        self._lists = f"/apis/{self._list_group}/v1/namespaces/default/{PLURAL}"

    def run(self) -> Iterator[Row]:
        asyncio.run(self._prepare())
        yield self._loaded("get one object", Request("GET", [f"{self._base}/one"]))
        yield self._loaded("get of many objects", Request("GET", self._many))
        yield self._loaded("create", self._create())
        yield self._loaded("merge patch of many objects", self._patch(self._many))
        yield self._loaded("merge patch of one object", self._patch([f"{self._base}/one"]))
        yield self._loaded("first page of 500", Request("GET", [f"{self._lists}?limit=500"]), connections=8)
        yield self._loaded("pages of 500, all through", Request("GET", self._pages), connections=8)
        yield self._loaded(f"list of {self._scale.objects:,}", Request("GET", [self._lists]), connections=4)
        yield from asyncio.run(self._latency())
        yield self._fan_out()
        yield from asyncio.run(self._definitions())

    def clean(self) -> None:
        """Deletes the definitions of this run, as the database may be the user's."""
        asyncio.run(self._clean())

    # Preparing.

    async def _prepare(self) -> None:
        await self._define([definition(self._group), definition(self._list_group)])
        body = json.dumps(thing(self._group, "NAME", WRITE_SIZE))
        names = ["one", *(f"many-{n}" for n in range(min(2_000, self._scale.objects)))]
        await spread(self._target, [("POST", self._base, body.replace("NAME", n).encode(), JSON) for n in names])
        self._many = [f"{self._base}/{name}" for name in names[1:]]
        listed = json.dumps(thing(self._list_group, "NAME", LIST_SIZE))
        await spread(
            self._target,
            [
                ("POST", self._lists, listed.replace("NAME", f"object-{n}").encode(), JSON)
                for n in range(self._scale.objects)
            ],
            connections=16,
        )
        self._pages = await self._walk()

    async def _define(self, definitions: list[dict[str, Any]]) -> None:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await spread(self._target, [("POST", path, json.dumps(d).encode(), JSON) for d in definitions])
        specs = [one["spec"] for one in definitions]
        await served(self._target, *(f"/apis/{s['group']}/v1/{s['names']['plural']}?limit=1" for s in specs))

    async def _walk(self) -> list[str]:
        """Returns the paths of all pages of a list. Their tokens are valid as long as the log is kept."""
        connection = await Connection.open(self._target)
        paths, path = [], f"{self._lists}?limit=500"
        while path:
            paths.append(path)
            token = (await connection.json("GET", path))["metadata"].get("continue")
            path = f"{self._lists}?limit=500&continue={token}" if token else ""
        await connection.close()
        return paths

    async def _clean(self) -> None:
        connection = await Connection.open(self._target)
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for item in (await connection.json("GET", path))["items"]:
            if item["spec"]["group"].endswith(self._group):
                await connection.request("DELETE", f"{path}/{item['metadata']['name']}")
        await connection.close()

    # Requests under load.

    def _create(self) -> Request:
        body = json.dumps(thing(self._group, f"made-{time.time_ns():x}-NUMBER", WRITE_SIZE))
        return Request("POST", [self._base], body)

    def _patch(self, paths: list[str]) -> Request:
        return Request("PATCH", paths, '{"spec":{"revisionHistoryLimit":NUMBER}}', MERGE_PATCH)

    def _loaded(self, name: str, request: Request, connections: int = 32) -> Row:
        before = self._server.usage()
        result = load(self._target, request, self._scale.seconds, connections)
        used = self._server.usage().since(before)
        count = max(1, result.requests)
        return Row(
            name,
            result.rate,
            "/s",
            result.p50_ms,
            result.p99_ms,
            1e6 * used.server / count,
            1e6 * used.postgres / count,
            result.failed,
        )

    # Watches.

    async def _latency(self) -> list[Row]:
        """Measures single events on an idle server: from the answer to the write, and from its sending."""
        writer, watcher = await Connection.open(self._target), await Connection.open(self._target)
        watcher.send("GET", await self._watch_path(writer))
        await watcher.head()
        from_answer, from_sending = [], []
        for number in range(self._scale.latencies):
            event = asyncio.create_task(_next_event(watcher.reader))
            sent = time.monotonic()
            body = b'{"spec":{"replicas":%d}}' % (number + 10)
            status, answer = await writer.request("PATCH", f"{self._base}/one", body, MERGE_PATCH)
            if status != 200:
                raise Failed(f"{status} {answer[:300]!r}")
            answered = time.monotonic()
            arrived = await asyncio.wait_for(event, 10)
            from_answer.append(1000 * max(0.0, arrived - answered))
            from_sending.append(1000 * (arrived - sent))
            await asyncio.sleep(0.02)
        await writer.close()
        await watcher.close()
        return [
            _times("event at an idle watcher, from the answer to its write", from_answer),
            _times("the same from the sending of its write", from_sending),
        ]

    async def _watch_path(self, connection: Connection) -> str:
        listed = await connection.json("GET", f"{self._base}?limit=1")
        return f"{self._base}?watch=1&resourceVersion={listed['metadata']['resourceVersion']}"

    def _fan_out(self) -> Row:
        """Measures rounds of writes. Each round ends when all watchers have its events, so none falls behind."""
        scale = self._scale
        path = asyncio.run(self._fresh_watch_path())
        with watching(self._target, path, scale.watchers) as watchers:
            before, began = self._server.usage(), time.monotonic()
            asyncio.run(self._write_rounds(watchers))
            took = time.monotonic() - began
            used = self._server.usage().since(before)
        events = scale.rounds * scale.writes * scale.watchers
        return Row(
            f"events to {scale.watchers} watchers",
            events / took,
            "/s",
            server_cpu=1e6 * used.server / events,
            postgres_cpu=1e6 * used.postgres / events,
        )

    async def _fresh_watch_path(self) -> str:
        connection = await Connection.open(self._target)
        path = await self._watch_path(connection)
        await connection.close()
        return path

    async def _write_rounds(self, watchers: Watchers) -> None:
        for number in range(self._scale.rounds):
            body = b'{"spec":{"minReadySeconds":%d}}' % (number + 1)
            await spread(self._target, [("PATCH", self._many[n], body, MERGE_PATCH) for n in range(self._scale.writes)])
            watchers.wait_for((number + 1) * self._scale.writes)

    # Definitions.

    async def _definitions(self) -> list[Row]:
        """Measures the time until new definitions of 100 fields are served."""
        count = self._scale.definitions
        many = [definition(f"many.{self._group}", f"kind{n}s", fields=100) for n in range(count)]
        before, began = self._server.usage(), time.monotonic()
        await self._define(many)
        took = time.monotonic() - began
        used = self._server.usage().since(before)
        return [
            Row(
                f"{count} new definitions of 100 fields, until all are served",
                took,
                "s",
                server_cpu=1e6 * used.server / count,
                postgres_cpu=1e6 * used.postgres / count,
            )
        ]


async def _next_event(reader: asyncio.StreamReader) -> float:
    """Returns the time at which the next event has been received completely."""
    while not (await reader.readline()).endswith(b"}\n"):
        pass
    return time.monotonic()


def _times(name: str, milliseconds: list[float]) -> Row:
    ordered = sorted(milliseconds)
    at: Callable[[float], float] = lambda part: ordered[min(len(ordered) - 1, int(len(ordered) * part))]  # noqa: E731
    return Row(name, at(0.5), "ms", at(0.5), at(0.99))
