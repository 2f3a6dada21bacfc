"""Compares filtered watches with the lists that they should equal: `python -m benchmarks.filtered_watch`.

Several processes write at random to a server with several workers. Watches with different filters, some of which are
cut and resumed again and again, keep the objects that they receive. At the end each must hold what a list with its
filter returns, and what evaluating the filter on the whole list returns, and must never have received an event without
a change.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import random
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from benchmarks import server
from benchmarks.client import JSON, MERGE_PATCH, Connection, Target, served
from registry.definitions.compiled import compile_definition
from registry.query.language import compile_filter
from tests.api.widgets import DEFINITIONS, GROUP, WIDGETS, widgets_definition

FILTERS: Final = {
    "a range": "object.spec.size > 2",
    "labels and prefix": 'object.metadata.labels.team == "a" || object.spec.color.startsWith("re")',
    "an element": '"x" in object.spec.parts && object.spec.size < 5',
    "absent": "!has(object.spec.size)",
    "words": 'object.search("red -wheel")',
}
NAMES: Final = 300
CONNECTIONS: Final = 8
LAST: Final = "the-last"
SEARCH: Final = (("spec", "color"),)


@dataclass
class Watch:
    """The objects that a filtered watch has received. With `breaks`, it is cut and resumed after that many events."""

    filter: str
    breaks: int
    kept: dict[str, Any] = field(default_factory=dict)
    events: int = 0
    resumed: int = 0
    revision: str = ""

    async def run(self, target: Target) -> None:
        """Watches from a list on, until the last object has been added and deleted."""
        connection = await Connection.open(target)
        begun = await connection.json("GET", f"{WIDGETS}?filter={quote(self.filter)}")
        self.kept = {item["metadata"]["name"]: item for item in begun["items"]}
        self.revision = begun["metadata"]["resourceVersion"]
        await connection.close()
        while True:
            connection = await Connection.open(target)
            parameters = {"watch": "1", "filter": self.filter, "allowWatchBookmarks": "true", "timeoutSeconds": "3600"}
            parameters["resourceVersion"] = self.revision
            connection.send("GET", f"{WIDGETS}?" + "&".join(f"{k}={quote(v)}" for k, v in parameters.items()))
            status, _ = await connection.head()
            assert status == 200, await connection.reader.read(1000)
            lines = 0
            async for line in _lines(connection):
                if self._take(json.loads(line)):
                    return await connection.close()
                lines += 1
                if self.breaks and lines >= self.breaks:
                    self.resumed += 1
                    break
            await connection.close()

    def _take(self, event: dict[str, Any]) -> bool:
        obj, kind = event["object"], event["type"]
        assert kind != "ERROR", obj
        metadata = obj["metadata"]
        assert int(metadata["resourceVersion"]) >= int(self.revision), "events come in the order of revisions"
        self.revision = metadata["resourceVersion"]
        if kind == "BOOKMARK":
            return False
        self.events += 1
        name = metadata["name"]
        assert (kind == "ADDED") is (name not in self.kept), (kind, name)
        if kind == "DELETED":
            del self.kept[name]
            return bool(name == LAST)
        self.kept[name] = obj
        return False


async def _lines(connection: Connection) -> Any:
    rest = b""
    while True:
        size = await connection.reader.readline()
        if not size.strip() or int(size, 16) == 0:
            return
        rest += (await connection.reader.readexactly(int(size, 16) + 2))[:-2]
        *whole, rest = rest.split(b"\n")
        for line in whole:
            yield line


async def write(target: Target, seed: int, writes: int) -> None:
    """Sends random creates, changes and deletes over several connections. Conflicting writes do not count."""
    await asyncio.gather(*(_write(target, seed * CONNECTIONS + n, writes // CONNECTIONS) for n in range(CONNECTIONS)))


async def _write(target: Target, seed: int, writes: int) -> None:
    chance = random.Random(seed)
    connection = await Connection.open(target)
    for _ in range(writes):
        name = f"w{chance.randrange(NAMES):03}"
        spec: dict[str, Any] = {
            "size": chance.choice([None, *range(6)]),
            "color": chance.choice(["red", "rose red", "blue", "red wheel", None]),
            "parts": chance.choice([None, [], ["x"], ["x", "y"], ["z"]]),
        }
        labels = {"team": chance.choice(["a", "b", None])}
        which = chance.random()
        if which < 0.25:
            await connection.request("DELETE", f"{WIDGETS}/{name}")
        elif which < 0.5:
            await connection.request("POST", WIDGETS, json.dumps(_widget(name, spec, labels)).encode(), JSON)
        else:
            change = {"spec": spec, "metadata": {"labels": labels}}
            await connection.request("PATCH", f"{WIDGETS}/{name}", json.dumps(change).encode(), MERGE_PATCH)
    await connection.close()


def _widget(name: str, spec: dict[str, Any], labels: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Widget",
        "metadata": {"name": name, "labels": {k: v for k, v in labels.items() if v is not None}},
        "spec": {k: v for k, v in spec.items() if v is not None},
    }


async def check(target: Target, writes: int, processes: int) -> list[Watch]:
    """Raises AssertionError if a watch does not hold what it should."""
    connection = await Connection.open(target)
    made = widgets_definition()
    made["metadata"]["annotations"] = {"query.registry/search": "spec.color"}
    await connection.json("POST", DEFINITIONS, made)
    await served(target, WIDGETS)
    watches = [Watch(text, breaks) for text in FILTERS.values() for breaks in (0, 97)]
    async with asyncio.TaskGroup() as group:
        for watch in watches:
            group.create_task(watch.run(target))
        commands = [
            [
                sys.executable,
                "-m",
                "benchmarks.filtered_watch",
                "--writes",
                str(writes // processes),
                "--writer",
                str(n),
            ]
            for n in range(processes)
        ]
        given = json.dumps({"url": target.url, "token": target.token}).encode()
        await asyncio.gather(*(_run(command, given) for command in commands))
        await connection.close()
        connection = await Connection.open(target)  # the server may have closed the other one, which was idle
        # Each watch receives the creation and the deletion of one more object after all others.
        last = _widget(LAST, {"size": 3, "color": "red", "parts": ["x"]}, {"team": "a"})
        await connection.json("POST", WIDGETS, last)
        await connection.json("DELETE", f"{WIDGETS}/{LAST}")
        unsized = _widget(LAST, {"color": "blue"}, {})
        await connection.json("POST", WIDGETS, unsized)
        await connection.json("DELETE", f"{WIDGETS}/{LAST}")
    plain = (await connection.json("GET", WIDGETS))["items"]
    compiled = compile_definition({**made, "metadata": {**made["metadata"], "resourceVersion": "1"}})
    schema = compiled.versions["v1"].schema().structural
    now = datetime.datetime.now(datetime.UTC)
    for watch in watches:
        listed = (await connection.json("GET", f"{WIDGETS}?filter={quote(watch.filter)}"))["items"]
        wanted = compile_filter(watch.filter, schema, SEARCH)
        evaluated = [item for item in plain if wanted.matches(item, now)]
        assert listed == evaluated, watch.filter
        assert sorted(watch.kept) == [item["metadata"]["name"] for item in listed], watch.filter
        assert [watch.kept[item["metadata"]["name"]] for item in listed] == listed, watch.filter
    await connection.close()
    return watches


async def _run(command: list[str], given: bytes) -> None:
    process = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE)
    await process.communicate(given)
    assert process.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.filtered_watch", description=__doc__.partition("\n")[0])
    parser.add_argument("--writes", type=int, default=100_000)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2, help="processes of the server")
    parser.add_argument("--writer", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.writer is not None:
        asyncio.run(write(Target(**json.load(sys.stdin)), given.writer, given.writes))
        return
    began = time.perf_counter()
    with server.folder() as folder, server.running(folder, given.workers, None) as running:
        watches = asyncio.run(check(running.target, given.writes, given.processes))
    print(f"{given.writes} writes by {given.processes} processes in {time.perf_counter() - began:.0f} s")
    for watch in watches:
        print(f"{watch.filter:80} {watch.events:7} events, resumed {watch.resumed} times: equal to its list")


if __name__ == "__main__":
    main()
