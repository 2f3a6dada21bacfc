"""Our evaluator against two others, on generated expressions: cel-python's, and the C++ one (cel-expr-python).

They must agree on the value, or that there is none. Where another one is known to differ, an expression is not
compared; the reasons stand beside the conditions.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable
from typing import Any

import celpy
import pytest
from celpy import celtypes
from celpy.evaluation import CELEvalError
from hypothesis import HealthCheck, given, settings

from registry.cel.common.maps import Map
from registry.cel.common.times import Duration, Timestamp
from registry.cel.common.values import EvalError, Uint, Value
from tests.cel.evaluation import program
from tests.cel.expressions import ANY

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)


class Failed:
    """There is no value. Failures are all alike."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"failed: {self.text}"


def ours(expression: str) -> Any:
    compiled = program(expression, {})
    try:
        value = plain(compiled.evaluate())
    except EvalError as error:
        return Failed(str(error))
    assert same(value, plain(compiled.exact().evaluate()))
    return value


def plain(value: Value) -> Any:
    if isinstance(value, Map):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, Uint):
        return int(value)
    if isinstance(value, Timestamp):
        return EPOCH + datetime.timedelta(microseconds=value.nanoseconds // 1000)
    if isinstance(value, Duration):
        return datetime.timedelta(microseconds=value.nanoseconds // 1000)
    return value


def same(left: Any, right: Any) -> bool:
    if isinstance(left, Failed) or isinstance(right, Failed):
        return isinstance(left, Failed) and isinstance(right, Failed)
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return type(left) is type(right) and bool(left == right)


def compare(expression: str, other: Callable[[str], Any], known: Callable[[Any, str], bool]) -> None:
    mine = ours(expression)
    if known(mine, expression):
        return
    theirs = other(expression)
    assert same(mine, theirs), f"{expression}: {mine!r} here, {theirs!r} there"


# --- C++


def cpp() -> Callable[[str], Any]:
    cel = pytest.importorskip("cel_expr_python.cel", reason="cel-expr-python has no wheel for this platform")
    environment = cel.NewEnv()

    def evaluate(expression: str) -> Any:
        result = environment.compile(expression).eval()
        value = result.plain_value()
        if str(result.type()) == "ERROR":
            return Failed(str(value))
        return bytes(value) if isinstance(value, bytearray) else value

    return evaluate


def _unordered(mine: Any, expression: str) -> bool:
    """cel-go fails where NaN is ordered; the C++ library answers false, as IEEE 754 does."""
    return isinstance(mine, Failed) and "NaN" in mine.text


def test_against_cpp() -> None:
    evaluate = cpp()

    @settings(max_examples=400, deadline=None, suppress_health_check=SLOW)
    @given(ANY)
    def check(expression: str) -> None:
        compare(expression, evaluate, _unordered)

    check()


# --- cel-python

# Its `==` and `<` know no mixed numbers; its times lose their fractions; its conversions and matches are Python's own;
# it has its own view of division by 0.0; a sum of strings has no contains().
_NOT_COMPARED = re.compile(
    r"dyn\(|timestamp|duration|int\('|int\(\(|int\(\[|matches|size\(|double|string\(|bytes\(|b'"
    r"|[0-9]\.[0-9].*/|/.*[0-9]\.[0-9]|\)\.contains"
)


def _known(mine: Any, expression: str) -> bool:
    """It takes -1 for the last position of a list, its maps hold errors as values, and `%` never overflows."""
    return isinstance(mine, Failed) and (
        "{" in expression
        or mine.text.startswith("index out of bounds: -")
        or (mine.text == "integer overflow" and "%" in expression)
    )


def cel_python() -> Callable[[str], Any]:
    environment = celpy.Environment()

    def evaluate(expression: str) -> Any:
        try:
            value = environment.program(environment.compile(expression)).evaluate({})
        except CELEvalError as error:
            return Failed(str(error))
        return _python(value)

    return evaluate


def _python(value: Any) -> Any:
    if isinstance(value, celtypes.BoolType):
        return bool(value)
    if isinstance(value, celtypes.IntType | celtypes.UintType):
        return int(value)
    if isinstance(value, celtypes.DoubleType):
        return float(value)
    if isinstance(value, celtypes.StringType):
        return str(value)
    if isinstance(value, list):
        return [_python(item) for item in value]
    if isinstance(value, dict):
        return {_python(key): _python(item) for key, item in value.items()}
    return value


@pytest.mark.slow
def test_against_cel_python() -> None:
    evaluate = cel_python()

    @settings(max_examples=150, deadline=None, suppress_health_check=(*SLOW, HealthCheck.filter_too_much))
    @given(ANY.filter(lambda expression: not _NOT_COMPARED.search(expression)))
    def check(expression: str) -> None:
        compare(expression, evaluate, _known)

    check()
