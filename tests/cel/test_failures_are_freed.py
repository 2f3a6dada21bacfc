"""Errors of expressions leave nothing to the garbage collector: their tracebacks hold the object that was evaluated."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cel.evaluation import on_self, outcome_of
from tests.garbage import no_frames_are_left

_NUMBERS = {"type": "array", "items": {"type": "integer"}}
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "numbers": _NUMBERS, "map": {"type": "object", "additionalProperties": {"type": "integer"}}},
}  # fmt: skip
_OBJECT = {"n": 0, "numbers": [0, 0], "map": {"a": 0}}
_DIVISION = "error: division by zero"


@pytest.mark.parametrize(
    "expression",
    [
        "1 / self.n > 0",
        "1 / self.n > 0 || self.n > 0",
        "self.n > 0 || 1 / self.n > 0",
        "1 / self.n > 0 && self.n == 0 && self.n < 1",
        "self.numbers.all(x, 1 / x > 0)",
        "self.numbers.exists(x, 1 / x > 0)",
        "self.numbers.exists_one(x, 1 / x > 0)",
        "self.numbers.filter(x, 1 / x > 0) == []",
        "self.numbers.map(x, 1 / x > 0, x) == []",
        "self.numbers.map(x, 1 / x) == []",
        "self.map.all(k, 1 / self.map[k] > 0)",
        "self.map.all(k, v, 1 / v > 0)",
        "self.numbers.transformList(i, x, 1 / x) == []",
    ],
)
def test_a_failure_is_freed(expression: str) -> None:
    compiled = on_self(expression, _SCHEMA)
    with no_frames_are_left():
        for used in (compiled, compiled.exact()):
            assert outcome_of(used, _OBJECT, _OBJECT) == _DIVISION
