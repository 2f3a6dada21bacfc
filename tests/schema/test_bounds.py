from __future__ import annotations

from typing import Any

import pytest

from registry.schema.structural.bounds import (
    MAX_DEPTH,
    MAX_ENUM_VALUES,
    MAX_LIST_MAP_KEYS_LENGTH,
    MAX_NODES,
    MAX_PATH_LENGTH,
    nodes,
    validate_bounds,
)


def nested(depth: int, word: str) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth - 1):
        schema = {
            word: {"a": schema}
            if word in ("properties", "definitions")
            else [schema]
            if word in ("allOf", "oneOf")
            else schema
        }
    return schema


@pytest.mark.parametrize(
    "word", ["properties", "items", "additionalProperties", "not", "allOf", "oneOf", "definitions"]
)
def test_depth(word: str) -> None:
    assert validate_bounds(nested(MAX_DEPTH, word), "s") == []
    assert [e.message() for e in validate_bounds(nested(MAX_DEPTH + 1, word), "s")] == [
        f"s: Forbidden: must not be nested more than {MAX_DEPTH} levels deep"
    ]


def test_any_depth_is_counted_without_recursion() -> None:
    assert len(validate_bounds(nested(100_000, "items"), "s")) == 1


def test_nodes_are_counted() -> None:
    schema: dict[str, Any] = {"properties": {str(i): {} for i in range(MAX_NODES)}}
    assert [e.message() for e in validate_bounds(schema, "s")] == [
        f"s: Forbidden: must not have more than {MAX_NODES} nodes"
    ]


def test_enum_values_are_counted() -> None:
    errors = validate_bounds({"not": {"enum": list(range(MAX_ENUM_VALUES + 1))}}, "s")
    assert [e.message() for e in errors] == [
        f"s...enum: Too many: {MAX_ENUM_VALUES + 1}: must have at most {MAX_ENUM_VALUES} items"
    ]


def test_all_nodes_are_visited() -> None:
    schema = {
        "properties": {"a": {"title": "1"}},
        "items": [{"title": "2"}],
        "dependencies": {"x": ["y"], "z": {"title": "3"}},
        "additionalItems": True,
        "not": {"anyOf": [{"title": "4"}]},
    }
    assert sorted(node["title"] for node in nodes(schema) if "title" in node) == ["1", "2", "3", "4"]


@pytest.mark.parametrize(
    "schema, error",
    [
        pytest.param(
            {"properties": {"a" * (MAX_PATH_LENGTH + 1): {}}},
            f"s: Forbidden: must not have paths of more than {MAX_PATH_LENGTH} characters",
            id="a long name",
        ),
        pytest.param(
            {"x-kubernetes-list-map-keys": ["a"] * MAX_LIST_MAP_KEYS_LENGTH},
            "s...x-kubernetes-list-map-keys: Forbidden: must not have more than "
            f"{MAX_LIST_MAP_KEYS_LENGTH} characters in all",
            id="many keys",
        ),
        pytest.param(
            {"properties": {"a": {"properties": {"b" * (MAX_PATH_LENGTH - 1): {}}}}}, None, id="just short enough"
        ),
    ],
)
def test_texts(schema: dict[str, Any], error: str | None) -> None:
    assert [e.message() for e in validate_bounds(schema, "s")] == ([error] if error else [])
