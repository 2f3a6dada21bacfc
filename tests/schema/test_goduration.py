"""Texts of Go's time.ParseDuration."""

from __future__ import annotations

import pytest

from registry.schema.goduration import parse_duration


@pytest.mark.parametrize(
    "text, nanoseconds",
    [
        ("0", 0),
        ("-0", 0),
        ("5s", 5_000_000_000),
        ("1h30m", 5_400_000_000_000),
        ("-1.5s", -1_500_000_000),
        (".5s", 500_000_000),
        ("5.s", 5_000_000_000),
        ("1µs", 1_000),
        ("1.9ns", 1),
        ("0.0000000000000000000001s", 0),
        ("2562047h47m16.854775807s", (1 << 63) - 1),
        ("-2562047h47m16.854775808s", -(1 << 63)),
        ("+3ms", 3_000_000),
        ("0000000000000000000000000001s", 1_000_000_000),
    ],
)
def test_durations(text: str, nanoseconds: int) -> None:
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(
    "text, error",
    [
        ("invalid", 'time: invalid duration "invalid"'),
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        (".s", 'time: invalid duration ".s"'),
        ("5", 'time: missing unit in duration "5"'),
        ("5x", 'time: unknown unit "x" in duration "5x"'),
        ("1h5", 'time: missing unit in duration "1h5"'),
        ("1h 5m", 'time: unknown unit "h " in duration "1h 5m"'),
        ("9999999999999999999s", 'time: invalid duration "9999999999999999999s"'),
        ("2562047h47m16.854775808s", 'time: invalid duration "2562047h47m16.854775808s"'),
        ("2562048h", 'time: invalid duration "2562048h"'),
        ("9" * 5000 + "s", 'time: invalid duration "' + "9" * 5000 + 's"'),
        ('"', 'time: invalid duration "\\""'),
    ],
)
def test_invalid_durations(text: str, error: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse_duration(text)
    assert str(raised.value) == error
