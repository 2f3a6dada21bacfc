"""Parses durations as Go's time.ParseDuration does, with its error texts, and formats them as Go."""

from __future__ import annotations

import re
from typing import Final

from registry.codec.go_text import quote_time

_SECOND: Final = 1_000_000_000
UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": _SECOND,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_LARGEST: Final = 1 << 63
_part: Final = re.compile(r"([0-9]*)(\.?)([0-9]*)([^.0-9]*)", re.ASCII).match


def parse_duration(text: str) -> int:
    """Returns nanoseconds: 1,500,000,000 for `1.5s`. Raises ValueError with Go's text, for `5x` as for `s`."""
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    is_negative = text.startswith("-")
    invalid = f"time: invalid duration {quote_time(text)}"
    if not rest:
        raise ValueError(invalid)
    total, place = 0, 0
    while place < len(rest):
        part = _part(rest, place)
        assert part is not None, "the pattern matches nothing, too"
        whole, _, fraction, unit = part.groups()
        if not whole and not fraction:
            raise ValueError(invalid)
        if not unit:
            raise ValueError(f"time: missing unit in duration {quote_time(text)}")
        if unit not in UNITS:
            raise ValueError(f"time: unknown unit {quote_time(unit)} in duration {quote_time(text)}")
        # A number that does not fit into 64 bits is rejected before its digits are parsed.
        whole = whole.lstrip("0")
        total += int(whole or "0") * UNITS[unit] if len(whole) <= 19 else _LARGEST + 1
        digits = fraction[:18]
        total += int(digits or "0") * UNITS[unit] // 10 ** len(digits)
        if total > _LARGEST - (not is_negative):
            raise ValueError(invalid)
        place = part.end()
    return -total if is_negative else total


def duration_text(nanoseconds: int) -> str:
    """Formats a duration as Go does (time.Duration.String): 1h30m0s, 1.5s, 2ms, 0s."""
    sign, left = ("-" if nanoseconds < 0 else ""), abs(nanoseconds)
    if left < _SECOND:
        for unit, size in (("ms", 1_000_000), ("µs", 1000), ("ns", 1)):
            if left >= size:
                return f"{sign}{_decimal(left, size)}{unit}"
        return "0s"
    minutes, rest = divmod(left, 60 * _SECOND)
    hours, minutes_left = divmod(minutes, 60)
    text = f"{_decimal(rest, _SECOND)}s"
    if minutes:
        text = f"{minutes_left}m{text}"
    return f"{sign}{hours}h{text}" if hours else f"{sign}{text}"


def _decimal(value: int, size: int) -> str:
    whole, rest = divmod(value, size)
    return f"{whole}.{rest:0{len(str(size)) - 1}}".rstrip("0") if rest else str(whole)
