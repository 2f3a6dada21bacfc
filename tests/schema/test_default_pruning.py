"""Defaults of embedded resources keep of their metadata what ObjectMeta has."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from registry.schema.defaulting import default, prune_defaults
from registry.schema.model import from_json

RESOURCE = {"apiVersion": "foos/v1", "kind": "Foo", "metadata": {"name": "Bar"}}
UNKNOWN = {**RESOURCE, "metadata": {"name": "Bar", "unknown": "unknown"}}
EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True}
TYPES = {"apiVersion": {"type": "string", "default": "foos/v1"}, "kind": {"type": "string", "default": "Foo"}}
NAMES = {"name": {"type": "string", "default": "Bar"}, "unknown": {"type": "string", "default": "unknown"}}
KEEPING = {"x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize("keeping", [{}, KEEPING], ids=["pruning", "keeping unknown fields"])
@pytest.mark.parametrize(
    "schema, given",
    [
        pytest.param(
            {**EMBEDDED, "properties": {**TYPES, "metadata": {"type": "object", "properties": NAMES}}},
            {"r": {"metadata": {}}},
            id="fields",
        ),
        pytest.param(
            {**EMBEDDED, "properties": {**TYPES, "metadata": {"type": "object", "default": UNKNOWN["metadata"]}}},
            {"r": {}},
            id="metadata",
        ),
        pytest.param({**EMBEDDED, "default": UNKNOWN}, {}, id="object"),
    ],
)
def test_defaults(schema: dict[str, Any], given: dict[str, Any], keeping: dict[str, Any]) -> None:
    pruned = prune_defaults(from_json({"type": "object", "properties": {"r": {**schema, **keeping}}}))
    value = copy.deepcopy(given)
    default(value, pruned)
    assert value == {"r": RESOURCE}


@pytest.mark.parametrize(
    "schema, given, expected",
    [
        pytest.param(
            {"properties": {"s": {"type": "object", "properties": {"r": EMBEDDED}, "default": {"r": UNKNOWN}}}},
            {},
            {"s": {"r": RESOURCE}},
            id="of what is around it",
        ),
        pytest.param(
            {"properties": {"l": {"type": "array", "items": EMBEDDED, "default": [UNKNOWN]}}},
            {},
            {"l": [RESOURCE]},
            id="list",
        ),
        pytest.param(
            {"properties": {"m": {"type": "object", "additionalProperties": {**EMBEDDED, "default": UNKNOWN}}}},
            {"m": {"a": None}},
            {"m": {"a": RESOURCE}},
            id="map",
        ),
    ],
)
def test_defaults_are_pruned_at_every_position(
    schema: dict[str, Any], given: dict[str, Any], expected: dict[str, Any]
) -> None:
    value = copy.deepcopy(given)
    default(value, prune_defaults(from_json({"type": "object", **schema})))
    assert value == expected


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"properties": {"a": {"type": "object", "default": {"b": 1}}}}, id="no embedded resources"),
        pytest.param({"properties": {"r": {**EMBEDDED, "default": RESOURCE}}}, id="nothing to prune"),
    ],
)
def test_a_schema_without_changes_is_returned_as_is(schema: dict[str, Any]) -> None:
    structural = from_json({"type": "object", **schema})
    assert prune_defaults(structural) is structural
