"""Field selectors of a definition's selectable fields: they select what the objects are now, whatever the definition was
when they were written."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
import pytest_asyncio

from registry.api.list_options import ListOptions
from registry.api.request import Backend, ResourceRequest
from registry.api.strategies.base import Context
from registry.api.verbs.selection import select
from registry.authentication.user import SERVER
from registry.controllers.controller_client import ControllerClient
from registry.store.bounds import CHUNK_ROWS
from registry.store.encryption import master_keys
from registry.store.types import TenantName
from tests.api.client import PARTIAL_LIST, TABLE, Client, eventually
from tests.api.widgets import DEFINITIONS, define, names_of
from tests.application import has_own_application, serving, shares_application
from tests.tenancy.tenants import make

Json = dict[str, Any]

pytestmark = shares_application

DOMAIN = "fields"
GROUP = "fields.example.com"
DEFINITION = f"{DEFINITIONS}/things.{GROUP}"
TENANT = "tenancy.registry/tenant"
_numbers = itertools.count()

TEXT: Json = {"type": "string"}
PRESERVING: Json = {"x-kubernetes-preserve-unknown-fields": True}


def version(name: str, field: Json | None, *, selectable: bool = True, storage: bool = True, **spec: Any) -> Json:
    """A version of which `field` is the schema of spec.a; None leaves it out."""
    # With a field of its own, since all versions together may not have equal schemas.
    properties = {"other": TEXT, name: TEXT} | ({} if field is None else {"a": field})
    of_spec = {"type": "object", "properties": properties, **spec}
    made: Json = {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": of_spec}}},
    }
    return made | ({"selectableFields": [{"jsonPath": ".spec.a"}]} if selectable else {})


class Case(NamedTuple):
    """The versions one after the other, and the specs that are written while each is in force, at the version `at`."""

    versions: Sequence[Sequence[Json]]
    specs: Sequence[Sequence[Json | None]]
    at: Sequence[str] = ("v1", "v1", "v1")
    read_at: str = "v1"


def one(*fields: Json | None, **given: Any) -> list[list[Json]]:
    return [[version("v1", field, **given)] for field in fields]


def two(first: Json | None, second: Json | None, **given: Any) -> list[Json]:
    """v1 is stored; v2 alone declares the field as selectable."""
    return [version("v1", first, selectable=False, **given), version("v2", second, storage=False)]


def default(value: Any, **given: Any) -> Json:
    return {**TEXT, "default": value, **given}


CASES = {
    "default added": Case(one(TEXT, default("y")), [[{}, {"a": "x"}, {"a": "y"}], [{}, {"a": "x"}]]),
    "default changed": Case(one(TEXT, default("x"), default("y")), [[{}, {"a": "y"}], [{}, {"a": "y"}], [{}]]),
    "default removed": Case(one(TEXT, default("y"), TEXT), [[{}], [{}], [{}, {"a": "y"}]]),
    "default of the object around it": Case(
        [*one(TEXT), *one(default("y"), default={})], [[{"a": "x"}, None], [{"a": "x"}, None]]
    ),
    "selectable later": Case(
        [*one(TEXT, selectable=False), *one(TEXT)], [[{}, {"a": "x"}, {"a": "y"}], [{}, {"a": "y"}]]
    ),
    "unselectable for a while": Case(
        [*one(TEXT), *one(TEXT, selectable=False), *one(TEXT)], [[{"a": "y"}], [{"a": "y"}, {}], [{"a": "y"}]]
    ),
    "undeclared for a while": Case(
        [*one(TEXT), *one(None, selectable=False), *one(TEXT)], [[{"a": "y"}], [{"a": "y"}, {}], [{"a": "y"}]]
    ),
    "declared later": Case([*one(None, selectable=False, **PRESERVING), *one(TEXT)], [[{}, {"a": "y"}], [{"a": "y"}]]),
    "type changed": Case(
        one(TEXT, {"type": "integer", "default": 7}), [[{}, {"a": "7"}, {"a": "x"}], [{"a": 7}, {"a": 8}, {}]]
    ),
    "null no longer allowed": Case(
        one({**TEXT, "nullable": True}, default("y")), [[{"a": None}, {}, {"a": "x"}], [{}, {"a": "x"}]]
    ),
    "pruned by the stored version": Case(
        [two(TEXT, TEXT), two(None, TEXT)], [[{}, {"a": "y"}, {"a": "x"}], [{}, {"a": "y"}]], ("v1", "v1"), "v2"
    ),
    "written at a version with more": Case(
        [two(None, default("y"))], [[{}, {"a": "y"}, {"a": "x"}]], ("v2",), "v2"
    ),
    "written at a version with less": Case(
        [two(default("y"), TEXT)], [[{}, {"a": "y"}, {"a": "x"}]], ("v2",), "v2"
    ),
    "stored at another version": Case(
        [two(default("y"), TEXT), [version("v1", default("y"), selectable=False, storage=False), version("v2", TEXT)]],
        [[{}, {"a": "y"}], [{}, {"a": "y"}]],
        ("v1", "v1"),
        "v2",
    ),
}  # fmt: skip


class Things:
    """A definition in a tenant, and its objects."""

    def __init__(self, api: Client, wildcard: Client) -> None:
        self.api, self.wildcard = api, wildcard
        # The revision of the last write.
        self.last = ""

    def path(self, at: str) -> str:
        return f"/apis/{GROUP}/{at}/namespaces/default/things"

    async def define(self, versions: Sequence[Json]) -> None:
        names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
        spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": list(versions)}
        made = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"things.{GROUP}"},
            "spec": spec,
        }
        if (await self.api.get(DEFINITION)).code == 404:
            await define(self.api, made)
            return
        (await self.api.patch(DEFINITION, {"spec": {"versions": list(versions)}})).ok()

    async def write(self, at: str, spec: Json | None) -> str:
        obj: Json = {"apiVersion": f"{GROUP}/{at}", "kind": "Thing", "metadata": {"name": f"t{next(_numbers):04}"}}
        if spec is not None:
            obj["spec"] = spec
        metadata = (await self.api.post(self.path(at), obj)).ok(201)["metadata"]
        self.last = str(metadata["resourceVersion"])
        return str(metadata["name"])

    async def select(self, at: str, **query: str) -> Json:
        found: Json = (await self.api.get(f"{self.path(at)}?{_query(query)}")).ok()
        return found

    async def check(self, at: str, *, since: str = "") -> None:
        """Compares the selections of some values now, and what a watch from the revision `since` on makes of that then."""
        whole = await self.select(at)
        for value, operator in itertools.product(("", "y", "7"), ("%3D", "!%3D")):
            selector = f"spec.a{operator}{value}"
            wanted = [obj for obj in whole["items"] if (_value(obj) == value) is (operator == "%3D")]
            await self._check(at, selector, wanted, whole["metadata"]["resourceVersion"])
            if since:
                await self._check_watch(at, selector, wanted, since)

    async def _check(self, at: str, selector: str, wanted: list[Json], revision: str) -> None:
        names = [obj["metadata"]["name"] for obj in wanted]
        assert (await self.select(at, fieldSelector=selector))["items"] == wanted, selector
        pages, token = [], ""
        while True:
            page = await self.select(at, fieldSelector=selector, limit="2", **{"continue": token} if token else {})
            assert len(page["items"]) <= 2
            pages += page["items"]
            token = page["metadata"].get("continue", "")
            if not token:
                break
        assert pages == wanted, selector
        then = {"resourceVersion": revision, "resourceVersionMatch": "Exact"}
        assert (await self.select(at, fieldSelector=selector, **then))["items"] == wanted, selector
        ordered = await self.select(at, fieldSelector=selector, orderBy="metadata.name desc")
        assert names_of(ordered) == names[::-1], selector
        path = f"{self.path(at)}?fieldSelector={selector}"
        metadata = (await self.api.get(path, accept=PARTIAL_LIST)).ok()["items"] or ()
        assert [obj["metadata"]["name"] for obj in metadata] == names, selector
        rows = (await self.api.get(path, accept=TABLE)).ok()["rows"] or ()
        assert [row["object"]["metadata"]["name"] for row in rows] == names, selector
        assert names_of((await self.api.delete(f"{path}&dryRun=All")).ok()) == names, selector
        assert names_of((await self.wildcard.get(path)).ok()) == names, selector
        for client in (self.api, self.wildcard):
            query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
            async with client.watch(f"{path}&{query}") as watch:
                events = await watch.events(len(names) + 1)
            assert [event["type"] for event in events] == ["ADDED"] * len(names) + ["BOOKMARK"], selector
            assert [event["object"]["metadata"]["name"] for event in events[:-1]] == names, selector

    async def _check_watch(self, at: str, selector: str, wanted: list[Json], first: str) -> None:
        then = {"resourceVersion": first, "resourceVersionMatch": "Exact"}
        state = {_name(obj): obj for obj in (await self.select(at, fieldSelector=selector, **then))["items"]}
        # A state and a watch of all tell what the selection must have done.
        every = {_name(obj): obj for obj in (await self.select(at, **then))["items"]}
        equal = "!" not in selector
        value = selector.rpartition("%3D")[2]
        assert list(state) == [name for name, obj in every.items() if (_value(obj) == value) is equal], selector
        for client in (self.api, self.wildcard):
            seen = dict(state)
            async with client.watch(f"{self.path(at)}?watch=true&resourceVersion={first}") as watch_of_all:
                path = f"{self.path(at)}?watch=true&fieldSelector={selector}&resourceVersion={first}"
                async with client.watch(path) as watch:
                    for expected in await _expected(watch_of_all, dict(every), value, equal, self.last):
                        event = await watch.event()
                        obj = event["object"]
                        got = (event["type"], _name(obj), obj["metadata"]["resourceVersion"], _value(obj))
                        assert got == expected, selector
                        if event["type"] == "DELETED":
                            del seen[_name(obj)]
                        else:
                            seen[_name(obj)] = obj
            assert sorted(seen) == [_name(obj) for obj in wanted], selector


async def _expected(
    watch: Any, state: dict[str, Json], value: str, equal: bool, last: str
) -> list[tuple[str, str, str, str]]:
    """The events of a selection, out of those of all objects."""
    expected: list[tuple[str, str, str, str]] = []
    while True:
        event = await watch.event()
        obj = event["object"]
        name, revision = _name(obj), obj["metadata"]["resourceVersion"]
        old, new = state.get(name), None if event["type"] == "DELETED" else obj
        before = old is not None and (_value(old) == value) is equal
        after = new is not None and (_value(new) == value) is equal
        if after:
            expected.append(("MODIFIED" if before else "ADDED", name, revision, _value(obj)))
        elif before:
            assert old is not None
            expected.append(("DELETED", name, revision, _value(old)))
        state[name] = obj
        if new is None:
            del state[name]
        if revision == last:
            return expected


@pytest_asyncio.fixture(loop_scope="module")
async def things(module_application: Client) -> Things:
    name = f"things-{next(_numbers)}"
    api = await make(module_application.of_tenant("system"), name, domain=f"{DOMAIN}-{name}")
    return Things(api, api.of_tenant(f"*.{DOMAIN}-{name}"))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_selectors_agree_with_objects(things: Things, case: Case) -> None:
    names: list[str] = []
    for versions, specs, at in zip(case.versions, case.specs, case.at, strict=False):
        await things.define(versions)
        names += [await things.write(at, spec) for spec in specs]
    await things.check(case.read_at)
    since = (await things.select(case.read_at))["metadata"]["resourceVersion"]
    # The states before these writes and after them are of different schemas.
    for number, name in enumerate(names):
        path = f"{things.path(case.at[0])}/{name}"
        if number % 3 == 2:
            (await things.api.delete(path)).ok()
        else:
            answer = await things.api.patch(path, {"spec": {"other": "z"}})
            assert answer.code == 200 or case is CASES["type changed"], answer.text
    await things.write(case.at[0], {"other": "z"})
    await things.write(case.at[0], {"a": 7 if case is CASES["type changed"] else "y"})
    await things.check(case.read_at, since=since)


async def test_pages_across_a_change(things: Things) -> None:
    """A continue token stays at its revision, and selects what the objects of then are now."""
    await things.define(one(TEXT)[0])
    for number in range(6):
        await things.write("v1", {"a": "y"} if number % 3 == 0 else {})
    page = await things.select("v1", fieldSelector="spec.a%3Dy", limit="1")
    names, token = names_of(page), page["metadata"]["continue"]
    await things.define(one(default("y"))[0])
    await things.write("v1", {})
    while token:
        page = await things.select("v1", fieldSelector="spec.a%3Dy", limit="1", **{"continue": token})
        names += names_of(page)
        token = page["metadata"].get("continue", "")
    whole = names_of(await things.select("v1"))
    assert names == whole[:-1]


async def test_a_list_goes_on_by_texts_when_labels_are_rebuilt(things: Things, api_database: str) -> None:
    await things.define(one(TEXT)[0])
    values = ["y" if number % 3 else "" for number in range(2 * CHUNK_ROWS + 3)]
    await asyncio.gather(*[things.write("v1", {"a": value} if value else {}) for value in values])
    await eventually(lambda: _is_complete(things, api_database, values))
    backend: Backend = things.api._app.state.backend  # type: ignore[attr-defined]
    client = ControllerClient(backend, await backend.store.tenant(TenantName(things.api.prefix.rpartition("/")[2])))
    served = (await client.catalog()).served(GROUP, "v1", "things")
    assert served is not None
    context = Context(client.tenant, SERVER)
    request = ResourceRequest(backend, context, await client.catalog(), served, "default", "", "", {})
    whole = names_of(await things.select("v1", fieldSelector="spec.a!%3Dy"))
    selection = select(request, ListOptions(field_selector="spec.a!=y"))
    async with aclosing(selection.pages()) as pages, aclosing(selection.keys()) as parts:
        rows = list((await anext(pages)).rows)
        keys = list((await anext(parts))[1])
        await things.define(one(default("y"))[0])
        await eventually(lambda: _is_complete(things, api_database, ["y"] * len(values)))
        async for page in pages:
            rows += page.rows
        async for _, more in parts:
            keys += more
    assert [row.key for row in rows] == keys == [f"default/{name}" for name in whole]


async def test_labels_are_rebuilt(things: Things, api_database: str) -> None:
    await things.define(one(TEXT)[0])
    names = [await things.write("v1", spec) for spec in ({}, {"a": "x"}, {"a": "y"})]
    await things.define(one(default("y"))[0])
    # Until the labels are complete, each selection has them rebuilt.
    await eventually(lambda: _is_complete(things, api_database, ["y", "x", "y"]))
    assert names_of(await things.select("v1", fieldSelector="spec.a%3Dy")) == [names[0], names[2]]
    # From here on SQL selects by them, which shows if they are wrong.
    with psycopg.connect(api_database) as connection:
        connection.execute(
            "UPDATE objects SET labels = (SELECT labels FROM objects WHERE key = %s) WHERE key = %s",
            (f"default/{names[1]}", f"default/{names[0]}"),
        )
    assert names_of(await things.select("v1", fieldSelector="spec.a%3Dy")) == [names[2]]
    assert names_of(await things.select("v1", fieldSelector="spec.a!%3Dy", limit="5")) == names[:2]


async def _is_complete(things: Things, database: str, values: Sequence[str]) -> bool:
    """Whether the labels are those of the definition, and these; has them rebuilt otherwise."""
    await things.select("v1", fieldSelector="spec.a%3Dy", limit="1")
    with psycopg.connect(database) as connection:
        labels = connection.execute(
            "SELECT o.labels FROM objects o JOIN tenants t ON t.id = o.tenant_id WHERE t.name = %s AND o.resource = %s"
            " AND (SELECT bool_and(r.revision IS NOT NULL) FROM ready_indexes r WHERE r.tenant_id = t.id"
            " AND r.resource = o.resource) ORDER BY o.key",
            (things.api.prefix.removeprefix("/clusters/"), f"things.{GROUP}"),
        ).fetchall()
    return [row[0][0].rpartition("=")[2] if row[0] else "" for row in labels] == values


@has_own_application
async def test_labels_of_encrypted_objects_are_rebuilt(api_database: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(master_keys.generate("one"))
    settings = {"encryption_key_file": keys, "encrypt_resources": (f"things.{GROUP}",)}
    async with serving(api_database, tmp_path / "data", **settings) as application:
        api = await make(application.of_tenant("system"), "sealed", domain="sealed")
        things = Things(api, api.of_tenant("*.sealed"))
        await things.define(one(TEXT)[0])
        for spec in ({}, {"a": "x"}, {"a": "y"}):
            await things.write("v1", spec)
        await things.check("v1")
        await things.define(one(default("y"))[0])
        await things.check("v1")
        await eventually(lambda: _is_complete(things, api_database, ["y", "x", "y"]))
        await things.check("v1")


def _query(given: Json) -> str:
    return "&".join(f"{key}={value}" for key, value in given.items())


def _name(obj: Json) -> str:
    return str(obj["metadata"]["name"])


def _value(obj: Json) -> str:
    value = (obj.get("spec") or {}).get("a")
    return "" if value is None else str(value)
