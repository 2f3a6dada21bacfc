"""Ways as lines of a function: what they do with names and places that a definition may have."""

from __future__ import annotations

from typing import Any

import pytest

from registry.conversion.declarative.codegen import MAX_LOOPS, Lines, Write
from registry.conversion.declarative.lossless_steps import map_values, move, rename, write_within
from registry.conversion.declarative.paths import STAR, Path

Json = Any


def run(step: Write, obj: Json) -> bool:
    lines = Lines("obj")
    step(lines, "obj", 0)
    lines.add(0, "return True")
    found: bool = lines.function()(obj)
    return found


NAMES = [
    "a",
    "class",
    "obj",
    "value_0",
    "variable_1",
    "None",
    "",
    "a b",
    '"',
    "'",
    "\\",
    "\n",
    "\n    return 1 #",
    "é",
    "\ud800",
    "{}",
    "{a}",
    "%s",
    "x" * 300,
]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_never_part_of_the_generated_code(name: str) -> None:
    obj = {"s": {name: {name: 1, "n": "old"}}}
    assert run(move(("s", name, name), ("s", f"{name}2")), obj)
    assert obj == {"s": {name: {"n": "old"}, f"{name}2": 1}}
    assert run(write_within(("s", name), rename("n", f"{name}3")), obj)
    assert run(map_values(("s", name, f"{name}3"), [("old", name)], [(name, "old")]), obj)
    assert obj == {"s": {name: {f"{name}3": name}, f"{name}2": 1}}


@pytest.mark.parametrize(
    ("path", "obj", "wanted"),
    [
        (("l", STAR), {"l": [{"a": 1}, 2, None, {"b": 3}]}, {"l": [{"c": 1}, 2, None, {"b": 3}]}),
        (("l", STAR), {"l": {"x": {"a": 1}, "y": [1]}}, {"l": {"x": {"c": 1}, "y": [1]}}),
        (("l", STAR, STAR), {"l": [[{"a": 1}], 4, [[{"a": 2}]]]}, {"l": [[{"c": 1}], 4, [[{"a": 2}]]]}),
        (("l", STAR, "m", STAR), {"l": [{"m": [{"a": 1}]}, {"m": 5}, {}]}, {"l": [{"m": [{"c": 1}]}, {"m": 5}, {}]}),
        (("l",), {"l": "text"}, {"l": "text"}),
        (("l", "m"), {"l": None}, {"l": None}),
        ((), {"a": 0}, {"c": 0}),
    ],
)
def test_values_that_are_not_objects_are_skipped(path: Path, obj: Json, wanted: Json) -> None:
    assert run(write_within(path, rename("a", "c")), obj)
    assert obj == wanted


@pytest.mark.parametrize(
    ("obj", "wanted"),
    [
        ({"a": {"x": 1}}, {"b": {"c": {"y": 1}}}),
        ({"a": {"x": 1}, "b": {"d": 2}}, {"b": {"c": {"y": 1}, "d": 2}}),
        ({"a": {"x": None, "z": 1}}, {"a": {"z": 1}, "b": {"c": {"y": None}}}),
        ({"a": {"z": 1}}, {"a": {"z": 1}}),
        ({"a": 7, "b": 8}, {"a": 7, "b": 8}),
        ({"a": {"x": 1}, "b": {}}, None),  # what was empty would not come back
        ({"a": {"x": 1}, "b": None}, None),
        ({"a": {"x": 1}, "b": {"c": 5}}, None),
        ({"a": {"x": 1}, "b": {"c": {"y": 2}}}, None),
        ({"a": {}, "b": {"c": {"y": 2}}}, None),  # it would be taken for what has been moved
    ],
)
def test_a_move_creates_parents_and_removes_emptied_ones(obj: Json, wanted: Json) -> None:
    assert run(move(("a", "x"), ("b", "c", "y")), obj) is (wanted is not None)
    assert wanted is None or obj == wanted


def test_the_maximum_number_of_nested_loops_compiles() -> None:
    obj: Json = {"a": 1}
    for _ in range(MAX_LOOPS):
        obj = [obj]
    obj = {"l": obj}
    assert run(write_within(("l", *[STAR] * MAX_LOOPS), rename("a", "b")), obj)
    assert '"b"' in repr(obj).replace("'", '"')
