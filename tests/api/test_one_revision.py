"""Whatever has happened to a definition: get, list and watch say the same of one revision of an object, in every form.

Texts of events are shared by watchers, and conversions by requests. Each step asks in every way, so that whatever is kept
under too short a key is there when the next one asks.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.client import TABLE, Client
from tests.api.widgets import DEFINITIONS, define
from tests.application import shares_application

pytestmark = shares_application

GROUP = "same.example.com"
NAME = f"things.{GROUP}"
VERSIONS = ("v1", "v2", "v3")
# A member that is called otherwise in v2.
RULES = """
conversions:
- {from: v1, to: v2, loss: Drop, rules: [{rename: {path: spec.one, to: two}}], back: [{rename: {path: spec.two, to: one}}]}
- {from: v2, to: v3, loss: Drop, rules: [], back: []}
"""


def collection(version: str) -> str:
    return f"/apis/{GROUP}/{version}/namespaces/default/things"


def thing_definition(rules: str) -> dict[str, Any]:
    versions = [
        {
            "name": version,
            "served": True,
            "storage": version == "v1",
            "schema": {
                "openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": own}}}
            },
            "additionalPrinterColumns": [{"name": "C", "type": "string", "jsonPath": ".spec.a"}],
        }
        for version in VERSIONS
        for own in [{("one" if version == "v1" else "two"): {"type": "string"}}]
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME, "annotations": {"conversion.registry/rules": rules} if rules else {}},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": versions,
        },
    }


class Definition:
    """Changes of a definition at random."""

    def __init__(self, api: Client, rng: random.Random) -> None:
        self.api = api
        self.rng = rng
        self.spec = thing_definition("")["spec"]

    async def change(self) -> None:
        version = self.rng.choice(self.spec["versions"])
        properties = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        match self.rng.randrange(4):
            case 0 | 1:
                name = self.rng.choice("abc")
                if name in properties and self.rng.random() < 0.3:
                    del properties[name]
                else:
                    properties[name] = {"type": "string", "default": f"{self.rng.randrange(100)}"}
            case 2:
                for other in self.spec["versions"]:
                    other["storage"] = other is version
            case 3:
                path = f".spec.{self.rng.choice('abc')}"
                version["additionalPrinterColumns"] = [{"name": "C", "type": "string", "jsonPath": path}]
        (await self.api.patch(f"{DEFINITIONS}/{NAME}", {"spec": {"versions": self.spec["versions"]}})).ok()


async def last_event(api: Client, version: str, since: int, revision: str, accept: str = "") -> Any:
    """The object of the event of a revision, in a watch that has begun before it."""
    async with api.watch(f"{collection(version)}?watch=true&resourceVersion={since}", accept=accept) as watch:
        while True:
            shown = (await watch.event())["object"]
            if shown["metadata"]["resourceVersion"] == revision:
                return shown


async def forms(api: Client, version: str, before: int) -> Iterator[tuple[str, Any]]:
    """All that can be read of the object `a` at a version."""
    path = collection(version)
    got = (await api.get(f"{path}/a")).ok()
    revision = got["metadata"]["resourceVersion"]
    [listed] = (await api.get(path)).ok()["items"]
    async with api.watch(f"{path}?watch=true") as watch:
        fresh = (await watch.event())["object"]
    resumed = await last_event(api, version, before, revision)
    selected = (await api.get(f"{path}?fieldSelector=metadata.name%3Da")).ok()["items"][0]
    found = [("get", got), ("list", listed), ("fresh", fresh), ("resumed", resumed), ("selected", selected)]
    [row] = (await api.get(path, accept=TABLE)).ok()["rows"]
    # The first event has the columns, and is never shared; the second is.
    table = await last_event(api, version, before, revision, TABLE)
    return iter(
        [
            *found,
            ("cells", (row["cells"][1:2], got["spec"])),
            ("shared cells", (table["rows"][0]["cells"][1:2], got["spec"])),
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize("rules", [pytest.param("", id="by name"), pytest.param(RULES, id="by rules")])
@pytest.mark.parametrize("seed", range(3))
async def test_all_answers_report_the_same_revision(api: Client, seed: int, rules: str) -> None:
    rng = random.Random(seed)
    await define(api, thing_definition(rules))
    definition = Definition(api, rng)
    thing = {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"one": "1"}}
    (await api.post(collection("v1"), thing)).ok()
    for step in range(8):
        before = int((await api.get(collection("v1"))).ok()["metadata"]["resourceVersion"])
        at = rng.choice(VERSIONS)
        for mark in ("first", "second"):
            (await api.patch(f"{collection(at)}/a", {"metadata": {"labels": {"step": f"{step}-{mark}"}}})).ok()
        for _ in range(rng.randrange(3)):
            await compare(api, before)
            await definition.change()
        await compare(api, before)


async def compare(api: Client, before: int) -> None:
    for version in VERSIONS:
        found = dict(await forms(api, version, before))
        cells = found.pop("cells"), found.pop("shared cells")
        assert cells[0] == cells[1], version
        for name, obj in found.items():
            assert obj == found["get"], f"{name} at {version}"
