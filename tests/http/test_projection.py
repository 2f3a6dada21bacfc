"""Objects reduced to requested fields: `Accept: application/json;keep=...`."""

from __future__ import annotations

from typing import Any

import pytest

from registry.http.projection import keep, parse_keep
from tests.api.client import PARTIAL, Client
from tests.api.errors import failure
from tests.api.widgets import WIDGETS, make

OBJECT: dict[str, Any] = {
    "apiVersion": "g/v1",
    "kind": "W",
    "metadata": {"name": "a", "uid": "u", "labels": {"a.b/c": "d"}, "managedFields": [{"manager": "x"}]},
    "spec": {"size": 3, "parts": [{"name": "p", "cpu": 1}, {"name": "q"}, 7], "empty": None, "flag": False},
}
HEAD = {"apiVersion": "g/v1", "kind": "W", "metadata": {"name": "a", "uid": "u"}}
CASES: dict[str, dict[str, Any]] = {
    "spec.size": {**HEAD, "spec": {"size": 3}},
    "spec.flag+spec.size": {**HEAD, "spec": {"flag": False, "size": 3}},
    "spec.parts.name": {**HEAD, "spec": {"parts": [{"name": "p"}, {"name": "q"}, 7]}},
    "spec.parts[*].cpu": {**HEAD, "spec": {"parts": [{"cpu": 1}, {}, 7]}},
    "spec": {**HEAD, "spec": OBJECT["spec"]},
    "spec+spec.size": {**HEAD, "spec": OBJECT["spec"]},
    "spec.size.below": {**HEAD, "spec": {}},
    "nothing": HEAD,
    "metadata": {**HEAD, "metadata": OBJECT["metadata"]},
    "metadata.labels['a.b/c']": {**HEAD, "metadata": {**HEAD["metadata"], "labels": {"a.b/c": "d"}}},  # type: ignore[dict-item]
}


@pytest.mark.parametrize("text", CASES)
def test_projected_fields(text: str) -> None:
    paths = parse_keep(text)
    assert paths is not None
    assert keep(OBJECT, paths) == CASES[text]


@pytest.mark.parametrize("text", ["", "+", "a b", "[*]", "+".join("a" for _ in range(51))])
def test_invalid_lists_of_paths(text: str) -> None:
    assert parse_keep(text) is None


async def test_objects_lists_and_watches(api: Client) -> None:
    await make(api, "a", size=3, color="red")
    accept = "application/json;keep=spec.size"
    one = (await api.get(f"{WIDGETS}/a", accept=accept)).ok()
    assert one["spec"] == {"size": 3}
    assert sorted(one["metadata"]) == ["name", "namespace", "resourceVersion", "uid"]
    assert (await api.get(WIDGETS, accept=accept)).ok()["items"] == [one]
    async with api.watch(f"{WIDGETS}?watch=1", accept=accept) as watch:
        assert (await watch.event())["object"] == one
    partial = (await api.get(f"{WIDGETS}/a", accept=f"{PARTIAL};keep=metadata.labels")).ok()
    assert (partial["kind"], partial["metadata"]) == ("PartialObjectMetadata", one["metadata"])
    failure(await api.get(f"{WIDGETS}/a", accept="application/json;keep=a b"), 406, "NotAcceptable")
