"""Equality, order and keys of values of all types."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from registry.budget import BudgetExceeded
from registry.cel.common.maps import Map
from registry.cel.common.times import Duration, Timestamp
from registry.cel.common.values import (
    MISSING,
    NONE,
    EvalError,
    Optional,
    TypeValue,
    Uint,
    compare,
    equal,
    evaluation_budget,
    type_of,
)

# Values that are equal to each other stand in one row, all others differ.
KINDS: list[list[Any]] = [
    [None],
    [True],
    [False],
    [0, Uint(0), 0.0, -0.0],
    [1, Uint(1), 1.0],
    [2.5],
    [""],
    ["1"],
    ["a"],
    [b""],
    [b"a"],
    [[]],
    [[1], [Uint(1)], [1.0]],
    [[True]],
    [Map.of([("a", 1)]), Map.of([("a", 1.0)])],
    [Map.of([(1, 1)])],
    [Map.of([(True, 1)])],
    [Map()],
    [TypeValue("int")],
    [NONE],
    [Optional(1), Optional(1.0)],
    [Optional(None)],
    [Duration(0)],
    [Duration(1)],
    [Timestamp(0), Timestamp(0, 3600)],
    [Timestamp(1)],
]


def test_equality() -> None:
    for (left_kind, left), (right_kind, right) in itertools.product(
        [(kind, value) for kind, values in enumerate(KINDS) for value in values], repeat=2
    ):
        assert equal(left, right) is (left_kind == right_kind), (left, right)


@pytest.mark.parametrize(
    "smaller, greater",
    [
        (1, 2),
        (1, Uint(2)),
        (Uint(1), 1.5),
        (-1, Uint(0)),
        (1.5, 2),
        ("a", "b"),
        ("a", "ab"),
        ("Z", "a"),
        (b"a", b"b"),
        (False, True),
        (Duration(-1), Duration(1)),
        (Timestamp(0), Timestamp(1)),
        (-float("inf"), -(2**63)),
        (2**63 - 1, float("inf")),
        ("\uffff", "\U00010000"),
    ],
)
def test_order(smaller: Any, greater: Any) -> None:
    assert (compare(smaller, greater), compare(greater, smaller), compare(smaller, smaller)) == (-1, 1, 0)


@pytest.mark.parametrize(
    "left, right",
    [
        (1, "1"),
        ("a", b"a"),
        (True, 1),
        (None, None),
        ([1], [1]),
        (Duration(1), 1),
        (Timestamp(1), Duration(1)),
        (float("nan"), 1.0),
        (1, float("nan")),
        (TypeValue("int"), TypeValue("int")),
    ],
)
def test_values_without_an_order(left: Any, right: Any) -> None:
    with pytest.raises(EvalError, match=r"no such overload|NaN values cannot be ordered"):
        compare(left, right)


def test_numbers_compare_as_doubles() -> None:
    assert equal(2**53 + 1, float(2**53))
    assert not equal(2**53 + 1, 2**53)
    assert not equal(float("nan"), float("nan"))


def test_keys() -> None:
    entries = Map.of([(1, "int"), (True, "bool"), ("1", "string")])
    assert [entries.find(key) for key in (1, Uint(1), 1.0, True, "1")] == ["int", "int", "int", "bool", "string"]
    assert entries.find(2) is MISSING
    assert entries.find([1]) is MISSING


@pytest.mark.parametrize(
    "value, name",
    [
        (None, "null_type"),
        (True, "bool"),
        (1, "int"),
        (Uint(1), "uint"),
        (1.0, "double"),
        ("", "string"),
        (b"", "bytes"),
        ([], "list"),
        (Map(), "map"),
        (TypeValue("int"), "type"),
        (NONE, "optional_type"),
        (Duration(0), "google.protobuf.Duration"),
        (Timestamp(0), "google.protobuf.Timestamp"),
    ],
)
def test_types(value: Any, name: str) -> None:
    assert type_of(value).name == name


@pytest.mark.slow
def test_work_is_bounded() -> None:
    inner: list[Any] = [0, "a"] * 5_000
    with evaluation_budget(), pytest.raises(BudgetExceeded):
        equal([inner] * 10_000, [list(inner)] * 10_000)
    with evaluation_budget():
        assert equal(inner, list(inner))
