"""Nulls that are dropped, and defaults; in the order in which a write applies them."""

import json
from typing import Any

import pytest

from registry.schema.defaulting import compile_defaulter, default, drop_nulls
from registry.schema.model import from_json

STRING = {"type": "string"}


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


CASES = [
    pytest.param(obj(a=STRING), {"a": None}, {}, id="null where none may be"),
    pytest.param(obj(a={**STRING, "nullable": True}), {"a": None}, {"a": None}, id="nullable null stays"),
    pytest.param(obj(a={**STRING, "default": "d"}), {"a": None}, {"a": "d"}, id="null gets the default"),
    pytest.param(
        obj(a={**STRING, "default": "d", "nullable": True}),
        {"a": None},
        {"a": None},
        id="nullable null gets no default",
    ),
    pytest.param(obj(a={**STRING, "default": "d", "nullable": True}), {}, {"a": "d"}, id="missing nullable gets it"),
    pytest.param(obj(a={**STRING, "default": "d"}), {"a": ""}, {"a": ""}, id="empty text stays"),
    pytest.param(obj(a={"type": "boolean", "default": True}), {"a": False}, {"a": False}, id="false stays"),
    pytest.param(obj(p=obj(a={**STRING, "default": "d"})), {}, {}, id="no parent, no default"),
    pytest.param(obj(p={**obj(a={**STRING, "default": "d"}), "default": {}}), {}, {"p": {"a": "d"}}, id="chain"),
    pytest.param(
        obj(p={**obj(a={**STRING, "default": "d"}, b=STRING), "default": {"b": "x"}}),
        {},
        {"p": {"a": "d", "b": "x"}},
        id="a default object is filled",
    ),
    pytest.param(
        obj(p={**obj(a={**STRING, "default": "d"}), "default": {"a": "x"}}),
        {"p": {}},
        {"p": {"a": "d"}},
        id="own object replaces the default one",
    ),
    pytest.param(
        obj(l={"type": "array", "items": STRING}), {"l": ["a", None]}, {"l": ["a", None]}, id="null in a list stays"
    ),
    pytest.param(
        obj(l={"type": "array", "items": {**STRING, "default": "d"}}),
        {"l": ["a", None]},
        {"l": ["a", "d"]},
        id="item default replaces nulls",
    ),
    pytest.param(
        obj(l={"type": "array", "items": obj(a={**STRING, "default": "d"})}),
        {"l": [{}, {"a": "x"}]},
        {"l": [{"a": "d"}, {"a": "x"}]},
        id="defaults in items",
    ),
    pytest.param(
        obj(m={"type": "object", "additionalProperties": STRING}),
        {"m": {"a": None, "b": "x"}},
        {"m": {"b": "x"}},
        id="null in a map",
    ),
    pytest.param(
        obj(m={"type": "object", "additionalProperties": {**STRING, "default": "d"}}),
        {"m": {"a": None}},
        {"m": {"a": "d"}},
        id="null in a map with default",
    ),
    pytest.param(
        obj(m={"type": "object", "additionalProperties": obj(a={"type": "integer", "default": 0})}),
        {"m": {"k": {}}},
        {"m": {"k": {"a": 0}}},
        id="defaults in map values",
    ),
    pytest.param(
        obj(k={"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        {"k": {"a": None}},
        {"k": {"a": None}},
        id="unspecified null stays",
    ),
    pytest.param(
        obj(l={"type": "array", "items": {"type": "array", "items": obj(a=STRING)}}),
        {"l": [[{"a": None}]]},
        {"l": [[{}]]},
        id="null in lists of lists",
    ),
]


@pytest.mark.parametrize("schema, value, expected", CASES)
def test_nulls_then_defaults(schema: dict[str, Any], value: dict[str, Any], expected: dict[str, Any]) -> None:
    structural = from_json(schema)
    value = json.loads(json.dumps(value))
    for _ in range(2):
        drop_nulls(value, structural, only_valid=False)
        default(value, structural)
        assert value == expected


@pytest.mark.parametrize("held", [{}, [], {"a": 1}, ["a"], {"a": {"b": []}}, [{"a": 1}]], ids=json.dumps)
def test_objects_do_not_share_defaults(held: Any) -> None:
    kind = "object" if isinstance(held, dict) else "array"
    defaulter = compile_defaulter(from_json(obj(a={"type": kind, "default": held})))
    assert defaulter is not None
    one: dict[str, Any] = {}
    other: dict[str, Any] = {}
    defaulter(one)
    defaulter(other)
    before = json.dumps(other)
    for inner in (one["a"], *(one["a"].values() if kind == "object" else one["a"])):
        if isinstance(inner, dict):
            inner["new"] = 1
        elif isinstance(inner, list):
            inner.append("new")
    assert json.dumps(other) == before
    assert one != other


def test_a_schema_without_defaults_needs_no_defaulter() -> None:
    assert compile_defaulter(from_json(obj(a=obj(b={"type": "array", "items": STRING})))) is None
