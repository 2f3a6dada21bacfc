"""Differences: what comes out, applied to the old, gives the new."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.apply.diff import json_diff, merge_diff
from registry.apply.patches import json_patch
from registry.apply.patches.merge_patch import apply_merge_patch
from registry.schema.values import same

CASES: dict[str, tuple[Any, Any, Any, Any]] = {
    "nothing": ({"a": [1]}, {"a": [1]}, {}, []),
    "a member more": ({}, {"a": 1}, {"a": 1}, [{"op": "add", "path": "/a", "value": 1}]),
    "a member less": ({"a": 1}, {}, {"a": None}, [{"op": "remove", "path": "/a"}]),
    "inner": (
        {"a": {"b": 1, "c": 2}},
        {"a": {"b": 3, "c": 2}},
        {"a": {"b": 3}},
        [{"op": "replace", "path": "/a/b", "value": 3}],
    ),
    "true is not 1": ({"a": 1}, {"a": True}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}]),
    "an element less at the end": ({"a": [1, 2]}, {"a": [1]}, {"a": [1]}, [{"op": "remove", "path": "/a/1"}]),
    "an element more amid": (
        {"a": [1, 3]},
        {"a": [1, 2, 3]},
        {"a": [1, 2, 3]},
        [{"op": "add", "path": "/a/1", "value": 2}],
    ),
    "an element changed": (
        {"a": [{"n": 1}, 3]},
        {"a": [{"n": 2}, 3]},
        {"a": [{"n": 2}, 3]},
        [{"op": "replace", "path": "/a/0/n", "value": 2}],
    ),
    "names are escaped": ({"a/b~": 1}, {"a/b~": 2}, {"a/b~": 2}, [{"op": "replace", "path": "/a~1b~0", "value": 2}]),
    "another type": ({"a": {"b": 1}}, {"a": [1]}, {"a": [1]}, [{"op": "replace", "path": "/a", "value": [1]}]),
}


@pytest.mark.parametrize("old, new, merge, json", CASES.values(), ids=CASES.keys())
def test_differences(old: Any, new: Any, merge: Any, json: Any) -> None:
    assert merge_diff(old, new) == merge
    assert json_diff(old, new) == json


_leaves = st.one_of(st.booleans(), st.integers(-3, 3), st.text("ab/~", max_size=2))
_values = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=4)
    ),
    max_leaves=12,
)
_documents = st.dictionaries(st.sampled_from("abc"), _values, max_size=3)


@settings(max_examples=150, deadline=None)
@given(_documents, _documents)
def test_applying_a_difference_gives_the_new_value(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert same(apply_merge_patch(old, merge_diff(old, new)), new)
    patch = json_patch.decode(json_diff(old, new))
    assert same(json_patch.apply_json_patch(old, patch), new)


def test_deep_values_are_compared_without_recursion() -> None:
    def nested(kind: str, leaf: int, depth: int = 9_000) -> Any:
        value: Any = leaf
        for _ in range(depth):
            value = {"a": value} if kind == "dict" else [value]
        return value

    deep = merge_diff({"x": nested("dict", 1)}, {"x": nested("dict", 2)})
    assert same(deep, {"x": nested("dict", 2)})
    assert len(json_diff(nested("list", 1), nested("list", 2))) == 1
    assert merge_diff({"x": nested("list", 1)}, {"x": nested("list", 1)}) == {}
