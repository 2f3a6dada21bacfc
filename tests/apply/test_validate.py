"""The words for values that do not fit."""

from __future__ import annotations

from typing import Any

import pytest

from registry.apply.validate import MAX_ERRORS, errors_text, go_plain, go_syntax, validate
from tests.apply.schemas import type_of


@pytest.mark.parametrize(
    "spec, text",
    [
        pytest.param({"sizes": 1}, ".spec.sizes: field not declared in schema", id="unknown"),
        pytest.param({"frame": "text"}, ".spec.frame: expected map, got &{text}", id="map"),
        pytest.param({"size": "x"}, ".spec.size: expected numeric (int or float), got string", id="number"),
        pytest.param(
            {"size": {"a": 1}},
            ".spec.size: expected numeric (int or float), got map[string]interface {}",
            id="number, map",
        ),
        pytest.param(
            {"size": [1]}, ".spec.size: expected numeric (int or float), got []interface {}", id="number, list"
        ),
        pytest.param({"size": True}, ".spec.size: expected numeric (int or float), got bool", id="number, boolean"),
        pytest.param({"color": 5}, ".spec.color: expected string, got &value.valueUnstructured{Value:5}", id="text"),
        pytest.param(
            {"color": {"a": [1, None, "x"]}},
            ".spec.color: expected string, got &value.valueUnstructured{Value:"
            'map[string]interface {}{"a":[]interface {}{1, interface {}(nil), "x"}}}',
            id="text, map",
        ),
        pytest.param(
            {"color": 9223372036854775808},
            ".spec.color: expected string, got &value.valueUnstructured{Value:9.223372036854776e+18}",
            id="text, beyond 64 bits",
        ),
        pytest.param(
            {"tags": 9223372036854775807}, ".spec.tags: expected list, got &{9223372036854775807}", id="int64"
        ),
        pytest.param(
            {"tags": -9223372036854775809}, ".spec.tags: expected list, got &{-9.223372036854776e+18}", id="less"
        ),
        pytest.param({"frame": 1234567.5}, ".spec.frame: expected map, got &{1.2345675e+06}", id="map, float"),
        pytest.param(
            {"tags": [9223372036854775808]},
            ".spec.tags[=9.223372036854776e+18]: expected string, got &value.valueUnstructured{Value:9.223372036854776e+18}",
            id="text in a set, beyond 64 bits",
        ),
        pytest.param({"flag": "yes"}, ".spec.flag: expected boolean, got &{yes}", id="boolean"),
        pytest.param({"when": [1]}, ".spec.when: expected any scalar, got &{[1]}", id="text with a format"),
        pytest.param({"tags": {"a": "b"}}, ".spec.tags: expected list, got &{map[a:b]}", id="list"),
        pytest.param({"tags": ["x", "x"]}, '.spec.tags: duplicate entries for key [="x"]', id="duplicate"),
        pytest.param(
            {"tags": [None]},
            ".spec.tags: element 0: associative list without keys has an element that's an explicit null",
            id="null in a set",
        ),
        pytest.param(
            {"ports": [{"port": 1}, {"port": 1, "proto": "tcp"}]},
            '.spec.ports: duplicate entries for key [port=1,proto="tcp"]',
            id="duplicate by default",
        ),
        pytest.param(
            {"rooms": [{"name": "x", "arear": 1}]},
            '.spec.rooms[name="x"].arear: field not declared in schema',
            id="inside an item",
        ),
        pytest.param(
            {"rooms": [{"name": ["x"]}]},
            '.spec.rooms[name=["x"]].name: expected string, got &value.valueUnstructured{Value:[]interface {}{"x"}}',
            id="a document for a key",
        ),
        pytest.param(
            {"steps": ["a", 1]},
            ".spec.steps[1]: expected string, got &value.valueUnstructured{Value:1}",
            id="inside an atomic list",
        ),
        pytest.param({"stamp": {"no": 1}}, ".spec.stamp.no: field not declared in schema", id="inside an atomic map"),
        pytest.param(
            {"size": "x", "color": 1},
            "errors:\n  .spec.size: expected numeric (int or float), got string\n"
            "  .spec.color: expected string, got &value.valueUnstructured{Value:1}",
            id="several",
        ),
    ],
)
def test_texts(spec: Any, text: str) -> None:
    assert errors_text(validate({"spec": spec}, type_of())) == text


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"color": None, "frame": None, "tags": None, "port": None}, id="nulls"),
        pytest.param({"port": "x", "open": {"any": [1, {"thing": None}]}, "free": {"more": 1}}, id="untyped"),
        pytest.param({"size": 1.5, "limits": {"a": "b"}}, id="others"),
    ],
)
def test_valid_objects(spec: Any) -> None:
    assert validate({"spec": spec, "metadata": {"labels": {"a": "b"}, "finalizers": ["x"]}}, type_of()) == []


def test_duplicates_may_be_allowed() -> None:
    assert validate({"spec": {"tags": ["x", "x"]}}, type_of(), duplicates=True) == []


def test_the_number_of_errors_is_bounded() -> None:
    assert len(validate({"spec": {"steps": [1] * 10_000}}, type_of())) == MAX_ERRORS


@pytest.mark.parametrize(
    "value, plain, syntax",
    [
        ("a b", "a b", '"a b"'),
        (None, "<nil>", "interface {}(nil)"),
        (True, "true", "true"),
        (1.5, "1.5", "1.5"),
        (
            {"b": 1, "a": ["x", {}]},
            "map[a:[x map[]] b:1]",
            'map[string]interface {}{"a":[]interface {}{"x", map[string]interface {}{}}, "b":1}',
        ),
    ],
)
def test_values_are_printed_as_in_go(value: Any, plain: str, syntax: str) -> None:
    assert (go_plain(value), go_syntax(value)) == (plain, syntax)


def test_printing_is_bounded() -> None:
    deep: Any = 1
    for _ in range(10_000):
        deep = {"a": deep}
    assert len(go_plain(deep)) < 1000
    assert len(go_syntax([1] * 100_000)) < 10_000
