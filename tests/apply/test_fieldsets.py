"""Sets of fields: their algebra, their order, their reading."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from registry.apply.fieldsets import FieldSet, difference, has, intersection, union, without
from registry.apply.fieldtexts import paths
from tests.apply.paths import some_paths, tree


@pytest.mark.parametrize(
    "left, right, expected",
    [
        pytest.param({"f:a": {}}, {"f:b": {}}, {"f:a": {}, "f:b": {}}, id="apart"),
        pytest.param({"f:a": {}}, {"f:a": {"f:b": {}}}, {"f:a": {".": {}, "f:b": {}}}, id="a member and its child"),
        pytest.param(
            {"f:a": {"f:b": {}}}, {"f:a": {"f:c": {}}}, {"f:a": {"f:b": {}, "f:c": {}}}, id="below one parent"
        ),
        pytest.param({}, {"f:a": {}}, {"f:a": {}}, id="nothing"),
    ],
)
def test_union(left: FieldSet, right: FieldSet, expected: FieldSet) -> None:
    assert union(left, right) == expected
    assert union(right, left) == expected


@pytest.mark.parametrize(
    "left, right, expected",
    [
        pytest.param({"f:a": {}, "f:b": {}}, {"f:b": {}}, {"f:a": {}}, id="a leaf"),
        pytest.param({"f:a": {".": {}, "f:b": {}}}, {"f:a": {}}, {"f:a": {"f:b": {}}}, id="a parent keeps its child"),
        pytest.param({"f:a": {".": {}, "f:b": {}}}, {"f:a": {"f:b": {}}}, {"f:a": {}}, id="a child keeps its parent"),
        pytest.param({"f:a": {"f:b": {}}}, {"f:a": {"f:b": {}}}, {}, id="an empty parent goes"),
        pytest.param({"f:a": {}}, {"f:a": {"f:b": {}}}, {"f:a": {}}, id="a leaf less what could be below it"),
        pytest.param({"f:a": {"f:b": {}}}, {"f:a": {}}, {"f:a": {"f:b": {}}}, id="a child less its parent"),
    ],
)
def test_difference(left: FieldSet, right: FieldSet, expected: FieldSet) -> None:
    assert difference(left, right) == expected


@pytest.mark.parametrize(
    "left, right, expected",
    [
        pytest.param({"f:a": {}, "f:b": {}}, {"f:b": {}, "f:c": {}}, {"f:b": {}}, id="leaves"),
        pytest.param({"f:a": {".": {}, "f:b": {}}}, {"f:a": {}}, {"f:a": {}}, id="a parent"),
        pytest.param({"f:a": {"f:b": {}}}, {"f:a": {}}, {}, id="a child and a parent"),
        pytest.param(
            {"f:a": {".": {}, "f:b": {}}},
            {"f:a": {".": {}, "f:b": {}, "f:c": {}}},
            {"f:a": {".": {}, "f:b": {}}},
            id="both",
        ),
    ],
)
def test_intersection(left: FieldSet, right: FieldSet, expected: FieldSet) -> None:
    assert intersection(left, right) == expected
    assert intersection(right, left) == expected


@pytest.mark.parametrize(
    "left, right, expected",
    [
        pytest.param({"f:a": {".": {}, "f:b": {}}, "f:c": {}}, {"f:a": {}}, {"f:c": {}}, id="with all below"),
        pytest.param({"f:a": {".": {}, "f:b": {}}}, {"f:a": {"f:b": {}}}, {"f:a": {}}, id="a child"),
        pytest.param({"f:a": {}}, {"f:a": {"f:b": {}}}, {"f:a": {}}, id="not its parent"),
    ],
)
def test_without(left: FieldSet, right: FieldSet, expected: FieldSet) -> None:
    assert without(left, right) == expected


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(some_paths, some_paths)
def test_operations_agree_with_sets_of_paths(
    left: frozenset[tuple[str, ...]], right: frozenset[tuple[str, ...]]
) -> None:
    assert frozenset(paths(tree(left))) == left
    assert frozenset(paths(union(tree(left), tree(right)))) == left | right
    assert frozenset(paths(difference(tree(left), tree(right)))) == left - right
    assert frozenset(paths(intersection(tree(left), tree(right)))) == left & right
    expected = frozenset(path for path in left if not any(path[: len(prefix)] == prefix for prefix in right))
    assert frozenset(paths(without(tree(left), tree(right)))) == expected
    assert all(has(tree(left), path) for path in left)
    assert not any(has(tree(left), path) for path in right - left)
