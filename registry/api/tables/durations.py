"""Human-readable durations, for the Age column.

Follows apimachinery pkg/util/duration/duration.go.
"""

from __future__ import annotations

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400

# The maximum of Go's time.Duration.
_MAX_SECONDS = ((1 << 63) - 1) // 10**9


def human_duration(seconds: float) -> str:
    """`95s`, `2m5s`, `3h20m`, `5d6h`, `3y12d`; two seconds in the future and more is `<invalid>`."""
    whole = int(max(min(seconds, _MAX_SECONDS), -_MAX_SECONDS))  # towards zero, as Go's int()
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 48 * _HOUR:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two(seconds: int, unit: int, letter: str, smaller: int, small_letter: str) -> str:
    rest = seconds % unit // smaller
    return f"{seconds // unit}{letter}{rest}{small_letter}" if rest else f"{seconds // unit}{letter}"
