"""Reads the objects of a definition in every way, and compares all that is said of one revision."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any, NamedTuple

from tests.api.changing import ChangingDefinition
from tests.api.client import JSON, PARTIAL, PARTIAL_LIST, TABLE, Client, Watch
from tests.api.widgets import names_of

Json = dict[str, Any]

# The object that each look changes first: with its event a watch has seen all events.
LAST = "z"
TENANT = "tenancy.registry/tenant"
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Place(NamedTuple):
    """A tenant at a server."""

    server: str
    tenant: str
    client: Client


class Key(NamedTuple):
    tenant: str
    version: str
    name: str
    revision: str


class Seen:
    """What was said of each revision while the definition was the same."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, Key], tuple[str, Any]] = {}

    def note(self, source: str, tenant: str, version: str, obj: Json, form: str = "object") -> None:
        """`form` is what `obj` is: the object, "metadata" of it, or the object as it was when it was "gone"."""
        metadata = obj["metadata"]
        key = Key(tenant, version, metadata["name"], metadata["resourceVersion"])
        if form == "object":
            self._compare(f"{source}", key, "metadata", metadata)
        self._compare(source, key, form, metadata if form == "metadata" else obj)

    def note_cell(self, source: str, tenant: str, version: str, row: Json) -> None:
        metadata = row["object"]["metadata"]
        self.note(source, tenant, version, row["object"], "metadata")
        key = Key(tenant, version, metadata["name"], metadata["resourceVersion"])
        self._compare(source, key, "cell", row["cells"][1])

    def check_cells(self, version: str, column: str) -> None:
        for (form, key), (source, cell) in self._seen.items():
            whole = self._seen.get(("object", key))
            if form == "cell" and key.version == version and whole is not None:
                shown = (whole[1].get("spec") or {}).get(column)
                assert cell == shown, f"{source} of {key}: {cell}, {whole[0]}: {shown}"

    def _compare(self, source: str, key: Key, form: str, said: Any) -> None:
        first, other = self._seen.setdefault((form, key), (source, said))
        assert said == other, f"{form} of {key}\n{source}: {said}\n{first}: {other}"


class Observer:
    """Reads at one place, at one version."""

    def __init__(self, place: Place, definition: ChangingDefinition, version: str, seen: Seen) -> None:
        self.place, self.definition, self.version, self.seen = place, definition, version, seen
        self.path = f"/apis/{definition.group}/{version}/namespaces/default/things"
        self._selectable = definition.selectable(version)

    def note(self, how: str, *objects: Json, form: str = "object") -> None:
        for obj in objects:
            self.seen.note(f"{how} at {self.place.server}", self.place.tenant, self.version, obj, form)

    async def ask(self, query: str = "", accept: str = JSON) -> Json:
        found: Json = (await self.place.client.get(self.path + query, accept=accept)).ok()
        return found

    async def look(self, base: str, last: str, value: str) -> None:
        """Compares all that is said now, and of the revisions since `base`; `last` is that of the last write."""
        now = await self._lists(value)
        then = (await self.ask(f"?resourceVersion={base}&resourceVersionMatch=Exact"))["items"]
        self.note("list of the past", *then)
        # At once, so that they share texts.
        async with asyncio.TaskGroup() as together:
            for watching in (
                self._fresh(len(now)),
                self._resumed(base, last, then, now),
                self._resumed(base, last, then, now),
                self._resumed_metadata(base, last),
                self._resumed_table(base, last),
                *[self._resumed_selection(base, last, field, value) for field in self._selectable],
            ):
                together.create_task(watching)

    async def _lists(self, value: str) -> list[Json]:
        answer = await self.ask()
        now: list[Json] = answer["items"]
        self.note("list", *now)
        for name in names_of(answer):
            self.note("get", await self.ask(f"/{name}"))
            self.note("metadata", await self.ask(f"/{name}", PARTIAL), form="metadata")
            self.note("list of a name", *(await self.ask(f"?fieldSelector=metadata.name%3D{name}"))["items"])
        pages = [page async for page in self._pages()]
        assert pages == now
        revision = answer["metadata"]["resourceVersion"]
        assert (await self.ask(f"?resourceVersion={revision}&resourceVersionMatch=Exact"))["items"] == now
        self.note("list of metadata", *(await self.ask(accept=PARTIAL_LIST))["items"], form="metadata")
        self._note_rows("table", (await self.ask(accept=TABLE))["rows"] or ())
        for field in self._selectable:
            for operator in ("%3D", "!%3D"):
                selected = (await self.ask(f"?fieldSelector=spec.{field}{operator}{value}"))["items"]
                assert selected == _selected(now, field, operator, value), f"{field}{operator} at {self.version}"
                self.note("selection", *selected)
        return now

    async def _pages(self) -> AsyncIterator[Json]:
        following = "?limit=1"
        while following:
            page = await self.ask(following)
            for item in page["items"]:
                yield item
            token = page["metadata"].get("continue")
            following = f"?limit=1&continue={token}" if token else ""

    def _note_rows(self, how: str, rows: Iterable[Json]) -> None:
        for row in rows:
            self.seen.note_cell(f"{how} at {self.place.server}", self.place.tenant, self.version, row)

    @contextlib.asynccontextmanager
    async def watch(self, query: str, accept: str = JSON) -> AsyncIterator[Watch]:
        async with self.place.client.watch(f"{self.path}?watch=true{query}", accept=accept) as watch:
            assert watch.code == 200, watch.body()
            yield watch

    async def _fresh(self, count: int) -> None:
        async with self.watch("") as watch:
            self.note("fresh watch", *[event["object"] for event in await watch.events(count)])
        query = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        async with self.watch(query) as watch:
            self.note("initial events", *[event["object"] for event in await watch.events(count)])
            end = await watch.event()
            assert INITIAL_EVENTS_END in end["object"]["metadata"]["annotations"], end

    async def events_until(self, watch: Watch, last: str) -> list[Json]:
        events = [await watch.event()]
        while _revision_of(events[-1]["object"]) != last:
            assert events[-1]["type"] != "ERROR", events[-1]
            events.append(await watch.event())
        return events

    async def _resumed(self, base: str, last: str, then: list[Json], now: list[Json]) -> None:
        async with self.watch(f"&resourceVersion={base}") as watch:
            events = await self.events_until(watch, last)
        self.note_events("resumed watch", events)
        assert _after(then, events) == _after(now, [])

    def note_events(self, how: str, events: Iterable[Json]) -> None:
        for event in events:
            self.note(how, event["object"], form="gone" if event["type"] == "DELETED" else "object")

    async def _resumed_metadata(self, base: str, last: str) -> None:
        async with self.watch(f"&resourceVersion={base}", PARTIAL) as watch:
            events = await self.events_until(watch, last)
        self.note("watch of metadata", *[e["object"] for e in events if e["type"] != "DELETED"], form="metadata")

    async def _resumed_table(self, base: str, last: str) -> None:
        async with self.watch(f"&resourceVersion={base}", TABLE) as watch:
            events = await self.events_until(watch, last)
        for event in events:
            if event["type"] != "DELETED":
                self._note_rows("watch of tables", event["object"]["rows"])

    async def _resumed_selection(self, base: str, last: str, field: str, value: str) -> None:
        selector = f"fieldSelector=spec.{field}%3D{value}"
        then = (await self.ask(f"?{selector}&resourceVersion={base}&resourceVersionMatch=Exact"))["items"]
        now = (await self.ask(f"?{selector}"))["items"]
        self.note("selection of the past", *then)
        every = (await self.ask(f"?resourceVersion={base}&resourceVersionMatch=Exact"))["items"]
        assert then == _selected(every, field, "%3D", value), f"{selector} at {self.version}"
        if LAST not in [obj["metadata"]["name"] for obj in now]:
            return  # pruned, so no event says that the watch has seen all
        async with self.watch(f"&{selector}&resourceVersion={base}") as watch:
            events = await self.events_until(watch, last)
        self.note("watch of a selection", *[e["object"] for e in events if e["type"] != "DELETED"])
        assert _after(then, events) == _after(now, []), f"{selector} at {self.version}"


class WildcardObserver:
    """Reads at `/clusters/*`: objects of all that have bound the definition, or of all tenants."""

    def __init__(self, client: Client, definition: ChangingDefinition, version: str, seen: Seen) -> None:
        self.client, self.version, self.seen = client, version, seen
        self.path = f"/apis/{definition.group}/{version}/namespaces/default/things"
        self._definition = definition

    async def look(self, base: str, last: str, tenants: set[str], value: str) -> None:
        now = (await self.client.get(self.path)).ok()["items"]
        self._note("list across tenants", now)
        assert {obj["metadata"]["annotations"][TENANT] for obj in now} == tenants
        for field in () if self._definition.converts_contents else self._definition.selectable(self.version):
            for operator in ("%3D", "!%3D"):
                selector = f"fieldSelector=spec.{field}{operator}{value}"
                selected = (await self.client.get(f"{self.path}?{selector}")).ok()["items"]
                assert selected == _selected(now, field, operator, value), f"{selector} at {self.version}"
        async with self.client.watch(f"{self.path}?watch=true") as watch:
            self._note("fresh watch across tenants", [event["object"] for event in await watch.events(len(now))])
        async with self.client.watch(f"{self.path}?watch=true&resourceVersion={base}") as watch:
            while True:
                event = await watch.event()
                self._note(
                    "watch across tenants", [event["object"]], "gone" if event["type"] == "DELETED" else "object"
                )
                if _revision_of(event["object"]) == last:
                    break

    def _note(self, how: str, objects: list[Json], form: str = "object") -> None:
        for obj in objects:
            annotations = dict(obj["metadata"]["annotations"])
            tenant = annotations.pop(TENANT)
            metadata = {**obj["metadata"], "annotations": annotations}
            if not annotations:
                del metadata["annotations"]
            self.seen.note(how, tenant, self.version, {**obj, "metadata": metadata}, form)


def _selected(objects: Iterable[Json], field: str, operator: str, value: str) -> list[Json]:
    return [obj for obj in objects if (_field(obj, field) == value) is (operator == "%3D")]


def _field(obj: Json, field: str) -> str:
    return str((obj.get("spec") or {}).get(field, ""))


def _revision_of(shown: Json) -> str:
    """The revision of an object or of a Table of one."""
    row = shown["rows"][0]["object"] if "rows" in shown else shown
    return str(row["metadata"]["resourceVersion"])


def _after(state: Iterable[Json], events: Iterable[Json]) -> dict[str, Json]:
    objects = {obj["metadata"]["name"]: obj for obj in state}
    for event in events:
        name = event["object"]["metadata"]["name"]
        if event["type"] == "DELETED":
            objects.pop(name, None)
        else:
            objects[name] = event["object"]
    return objects
