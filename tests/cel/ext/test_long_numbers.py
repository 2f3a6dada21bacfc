"""Texts of thousands of digits, which Python's int() refuses and float() cannot hold: a value or CEL's error."""

from __future__ import annotations

import pytest

from tests.cel.evaluation import outcome

NINES = "9" * 5000
ZEROS = "0" * 5000


@pytest.mark.parametrize(
    "expression, expected",
    [
        pytest.param(f"int('{NINES}')", "error: type conversion error from 'string' to 'int'", id="int"),
        pytest.param(f"int('-{ZEROS}7')", "-7", id="int behind zeros"),
        pytest.param(f"uint('{ZEROS}7')", "7u", id="uint behind zeros"),
        pytest.param(f"int('{ZEROS}')", "0", id="zeros"),
        pytest.param(f"quantity('{NINES[:400]}.5').asApproximateFloat() > 1e300", "true", id="float of a quantity"),
        pytest.param(f"quantity('-{NINES[:400]}.5').asApproximateFloat() < -1e300", "true", id="float below"),
        pytest.param(f"isQuantity('{NINES}')", "false", id="quantity"),
        pytest.param(f"isSemver('{NINES}.0.0')", "false", id="version"),
        pytest.param(f"isIP('{NINES}.0.0.0')", "false", id="address"),
        pytest.param(f"isCIDR('::/{NINES}')", "false", id="prefix"),
        pytest.param(
            f"duration('{NINES}h')",
            "error: type conversion error from 'string' to 'google.protobuf.Duration'",
            id="duration",
        ),
    ],
)
def test_long_numbers(expression: str, expected: str) -> None:
    assert outcome(expression) == expected
