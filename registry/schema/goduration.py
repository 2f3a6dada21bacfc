"""What is wrong with a text that should be a duration, in the words of Go's time.ParseDuration."""

from __future__ import annotations

import re
from typing import Final

from registry.schema.field import go_quote

_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_LARGEST: Final = 1 << 63
_part: Final = re.compile(r"([0-9]*)(\.?)([0-9]*)([^.0-9]*)", re.ASCII).match


def duration_error(text: str) -> str | None:
    """`5x` gives `time: unknown unit "x" in duration "5x"`; None for a duration."""
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return None
    invalid = f"time: invalid duration {go_quote(text)}"
    if not rest:
        return invalid
    total, place = 0, 0
    while place < len(rest):
        part = _part(rest, place)
        assert part is not None, "the pattern matches nothing, too"
        whole, _, fraction, unit = part.groups()
        if not whole and not fraction:
            return invalid
        if not unit:
            return f"time: missing unit in duration {go_quote(text)}"
        if unit not in _UNITS:
            return f"time: unknown unit {go_quote(unit)} in duration {go_quote(text)}"
        # A number that no 64 bits hold is refused before its digits are read.
        total += int(whole[:20] or "0") * _UNITS[unit] if len(whole.lstrip("0")) <= 19 else _LARGEST + 1
        if total > _LARGEST - (not text.startswith("-")):
            return invalid
        place = part.end()
    return None
