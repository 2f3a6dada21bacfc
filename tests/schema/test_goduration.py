"""Texts of Go's time.ParseDuration."""

from __future__ import annotations

import pytest

from registry.schema.goduration import duration_error


@pytest.mark.parametrize(
    "text", ["0", "-0", "5s", "1h30m", "-1.5s", ".5s", "5.s", "1µs", "2562047h47m16.854775807s", "+3ms"]
)
def test_durations(text: str) -> None:
    assert duration_error(text) is None


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
        ("2562048h", 'time: invalid duration "2562048h"'),
        ("9" * 5000 + "s", 'time: invalid duration "' + "9" * 5000 + 's"'),
        ('"', 'time: invalid duration "\\""'),
    ],
)
def test_what_is_none(text: str, error: str) -> None:
    assert duration_error(text) == error
