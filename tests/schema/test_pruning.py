"""Pruning, table by table."""

import json
from typing import Any

import pytest

from registry.schema.model import from_json
from registry.schema.pruning import prune

STRING = {"type": "string"}
KEEP = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


CASES = [
    pytest.param(obj(a=STRING), {"a": "x", "b": 1}, {"a": "x"}, ["b"], id="unknown field"),
    pytest.param(obj(a=obj(b=STRING)), {"a": {"b": "x", "c": {"d": 1}}}, {"a": {"b": "x"}}, ["a.c"], id="topmost path"),
    pytest.param({"type": "object"}, {"a": 1, "b": {}}, {}, ["a", "b"], id="an object without properties loses all"),
    pytest.param(
        obj(a=STRING),
        {"apiVersion": "v1", "kind": "K", "metadata": {"x": 1}, "z": 1},
        {"apiVersion": "v1", "kind": "K", "metadata": {"x": 1}},
        ["z"],
        id="the root keeps its three",
    ),
    pytest.param(
        obj(s=obj()),
        {"s": {"kind": "x", "metadata": {}}},
        {"s": {}},
        ["s.kind", "s.metadata"],
        id="below the root they are ordinary",
    ),
    pytest.param(
        obj(l={"type": "array", "items": obj(k=STRING)}),
        {"l": [{"k": "1"}, {"k": "2", "q": 1}]},
        {"l": [{"k": "1"}, {"k": "2"}]},
        ["l[1].q"],
        id="items",
    ),
    pytest.param(
        obj(m={"type": "object", "additionalProperties": obj(k=STRING)}),
        {"m": {"a b": {"k": "1", "q": 1}}},
        {"m": {"a b": {"k": "1"}}},
        ["m.a b.q"],
        id="map values, keys as they are",
    ),
    pytest.param(
        obj(m={"type": "object", "additionalProperties": True}),
        {"m": {"a": 1, "b": {"c": 1}}},
        {"m": {"a": 1, "b": {}}},
        ["m.b.c"],
        id="additionalProperties true empties objects",
    ),
    pytest.param(
        obj(m={"type": "object", "additionalProperties": False}),
        {"m": {"a": 1}},
        {"m": {"a": 1}},
        [],
        id="additionalProperties false leaves it to validation",
    ),
    pytest.param(obj(k=KEEP), {"k": {"a": {"b": [1]}}}, {"k": {"a": {"b": [1]}}}, [], id="preserved"),
    pytest.param(
        obj(k={**KEEP, "properties": {"p": obj(a=STRING)}}),
        {"k": {"q": {"x": 1}, "p": {"a": "1", "x": 1}}},
        {"k": {"q": {"x": 1}, "p": {"a": "1"}}},
        ["k.p.x"],
        id="named fields in a preserved object",
    ),
    pytest.param(
        obj(k={"type": "array", "x-kubernetes-preserve-unknown-fields": True, "items": obj(p=obj(a=STRING))}),
        {"k": [{"q": 1, "p": {"x": 1}}]},
        {"k": [{"q": 1, "p": {}}]},
        ["k[0].p.x"],
        id="a preserving list preserves in its items",
    ),
    pytest.param(
        obj(
            k={
                "type": "array",
                "x-kubernetes-preserve-unknown-fields": True,
                "items": {"type": "array", "items": obj(a=STRING)},
            }
        ),
        {"k": [[{"q": 1}]]},
        {"k": [[{"q": 1}]]},
        [],
        id="and in lists of lists",
    ),
    pytest.param(
        obj(d=obj(a=STRING)),
        {"d": [{"x": 1}, [{"y": 1}]]},
        {"d": [{}, [{}]]},
        ["d[0].x", "d[1][0].y"],
        id="a list for an object",
    ),
    pytest.param(obj(a=STRING), {"a": {"x": 1}}, {"a": {}}, ["a.x"], id="an object for a text"),
    pytest.param(
        obj(a={"x-kubernetes-int-or-string": True}),
        {"a": [{"x": 1}]},
        {"a": [{}]},
        ["a[0].x"],
        id="a list for int-or-string",
    ),
    pytest.param(
        obj(e={"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"s": STRING}}),
        {"e": {"apiVersion": "v1", "kind": "K", "metadata": {"q": 1}, "s": "x", "t": 1}},
        {"e": {"apiVersion": "v1", "kind": "K", "metadata": {"q": 1}, "s": "x"}},
        ["e.t"],
        id="embedded",
    ),
    pytest.param(
        {**KEEP, "properties": {"s": obj()}},
        {"q": {"r": 1}, "s": {"t": 1}},
        {"q": {"r": 1}, "s": {}},
        ["s.t"],
        id="preserving root",
    ),
    pytest.param(
        obj(b=STRING, a=obj()),
        {"z": 1, "b": "", "a": {"y": 1}, "A": 1},
        {"b": "", "a": {}},
        ["A", "a.y", "z"],
        id="paths are sorted",
    ),
]


@pytest.mark.parametrize("schema, value, expected, paths", CASES)
def test_prune(schema: dict[str, Any], value: dict[str, Any], expected: dict[str, Any], paths: list[str]) -> None:
    unknown: list[str] = []
    value = json.loads(json.dumps(value))
    prune(value, from_json(schema), is_root=True, unknown=unknown)
    assert value == expected
    assert unknown == paths
    prune(value, from_json(schema), is_root=True, unknown=unknown)
    assert (value, unknown) == (expected, paths), "pruning twice is pruning once"


def test_lists_without_schema_may_be_deep() -> None:
    value: Any = {"x": 1}
    for _ in range(20_000):
        value = [value]
    unknown: list[str] = []
    prune({"a": value}, from_json(obj(a=STRING)), is_root=True, unknown=unknown)
    for _ in range(20_000):
        value = value[0]
    assert value == {}
    assert sum(map(len, unknown)) < 2 << 20


def test_the_paths_of_a_hostile_object_are_bounded() -> None:
    value = {"n" * 1000 + str(i): 1 for i in range(3000)}
    unknown: list[str] = []
    prune(value, from_json({"type": "object"}), is_root=True, unknown=unknown)
    assert value == {}
    assert 250 < len(unknown) < 300
