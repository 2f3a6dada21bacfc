"""Quantities: what parses, to which number, and which of them count as integers."""

from __future__ import annotations

from fractions import Fraction

import pytest

from registry.cel.common.values import EvalError
from registry.cel.ext.quantity import parse_quantity


@pytest.mark.parametrize(
    "text, number, small",
    [
        ("0", 0, True),
        ("1", 1, True),
        ("-1", -1, True),
        ("+1", 1, True),
        ("1.5", Fraction(3, 2), True),
        ("1.", 1, True),
        (".5", Fraction(1, 2), True),
        ("1k", 1000, True),
        ("1Ki", 1024, True),
        ("1.5Gi", 1610612736, False),
        ("100m", Fraction(1, 10), True),
        ("1n", Fraction(1, 10**9), True),
        ("1e3", 1000, True),
        ("1E3", 1000, True),
        ("1E", 10**18, True),
        ("1Ei", 2**60, False),
        ("1e-3", Fraction(1, 1000), True),
        ("0.1n", Fraction(1, 10**9), False),
        ("-0.1n", Fraction(-1, 10**9), False),
        ("9223372036854775807", 2**63 - 1, False),
        ("10Ei", 2**63 - 1, False),
        ("0001", 1, True),
        ("m", 0, True),
        (".", 0, True),
        ("123456789012345678", 123456789012345678, True),
    ],
)
def test_numbers(text: str, number: int | Fraction, small: bool) -> None:
    quantity = parse_quantity(text)
    assert quantity.digits * Fraction(10) ** quantity.scale == number
    assert quantity.small is small


@pytest.mark.parametrize(
    "text, error",
    [
        ("", "quantities must match"),
        ("1 k", "quantities must match"),
        ("nope", "quantities must match"),
        ("1.1.1", "quantities must match"),
        ("1Zi", "quantities must match"),
        ("--1", "unable to parse quantity's suffix"),
        ("1kk", "unable to parse quantity's suffix"),
        ("1ki", "unable to parse quantity's suffix"),
        ("1e", "unable to parse quantity's suffix"),
        ("1e99999", "unable to parse quantity's suffix"),
    ],
)
def test_errors(text: str, error: str) -> None:
    with pytest.raises(EvalError, match=error):
        parse_quantity(text)
