"""Timestamps and durations with nanoseconds, parsed and formatted as in Go.

A Timestamp is an instant and the UTC offset it was written with, which only shows in its text. A Duration is a signed
64-bit number of nanoseconds. Calendars are datetime's, whose years are those that CEL allows, 1 to 9999.

Follows Go's package time, cel-go common/types/{timestamp,duration}.go and kube-openapi pkg/validation/strfmt.
"""

from __future__ import annotations

import datetime
import re
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from registry.cel.common.values import DURATION, INT_MAX, INT_MIN, TIMESTAMP, EvalError, Opaque, Value, register_ordered
from registry.codec.go_text import go_f, quote_time
from registry.codec.go_time import days_in
from registry.codec.text_cache import cache_short
from registry.schema import goduration

SECOND: Final = 1_000_000_000
MIN_SECONDS: Final = -62135596800  # 0001-01-01T00:00:00Z
MAX_SECONDS: Final = 253402300799  # 9999-12-31T23:59:59Z
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_UTC: Final = datetime.UTC


class Duration(Opaque):
    """A duration in nanoseconds, within int64."""

    __slots__ = ("nanoseconds",)

    type = DURATION

    def __init__(self, nanoseconds: int) -> None:
        self.nanoseconds = nanoseconds

    def __lt__(self, other: Duration) -> bool:
        return self.nanoseconds < other.nanoseconds

    def __gt__(self, other: Duration) -> bool:
        return self.nanoseconds > other.nanoseconds

    def equals(self, other: Value) -> bool:
        return type(other) is Duration and self.nanoseconds == other.nanoseconds

    def text(self) -> str:
        return f"{seconds_text(self.nanoseconds)}s"

    def __repr__(self) -> str:
        return self.text()


class Timestamp(Opaque):
    """An instant in nanoseconds since 1970, and the UTC offset in seconds of its text."""

    __slots__ = ("nanoseconds", "offset")

    type = TIMESTAMP

    def __init__(self, nanoseconds: int, offset: int = 0) -> None:
        self.nanoseconds = nanoseconds
        self.offset = offset

    def __lt__(self, other: Timestamp) -> bool:
        return self.nanoseconds < other.nanoseconds

    def __gt__(self, other: Timestamp) -> bool:
        return self.nanoseconds > other.nanoseconds

    def equals(self, other: Value) -> bool:
        return type(other) is Timestamp and self.nanoseconds == other.nanoseconds

    def text(self) -> str:
        return self._text(self.offset)

    def utc_text(self) -> str:
        return self._text(0)

    def _text(self, offset: int) -> str:
        seconds, fraction = divmod(self.nanoseconds, SECOND)
        when = _calendar(seconds + offset)
        text = f"{when.year:04}-{when.month:02}-{when.day:02}T{when.hour:02}:{when.minute:02}:{when.second:02}"
        if fraction:
            text += f".{fraction:09}".rstrip("0")
        if not offset:
            return text + "Z"
        minutes = abs(offset) // 60
        return f"{text}{'-' if offset < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"

    def calendar(self, zone: str) -> datetime.datetime:
        """Date and time in `zone` (default UTC). Raises EvalError for an unknown zone."""
        seconds = self.nanoseconds // SECOND
        return _calendar(seconds + (_zone_offset(zone, seconds) if zone else 0))

    def __repr__(self) -> str:
        return self.text()


register_ordered(Duration)
register_ordered(Timestamp)


def duration(nanoseconds: int) -> Duration:
    """A computed Duration. Raises EvalError beyond int64."""
    if not INT_MIN <= nanoseconds <= INT_MAX:
        raise EvalError("integer overflow")
    return Duration(nanoseconds)


def timestamp(nanoseconds: int, offset: int = 0) -> Timestamp:
    """A computed Timestamp. Raises EvalError outside the years 1 to 9999."""
    if not MIN_SECONDS <= nanoseconds // SECOND <= MAX_SECONDS:
        raise EvalError("timestamp overflow")
    return Timestamp(nanoseconds, offset)


def _calendar(seconds: int) -> datetime.datetime:
    try:
        return _EPOCH + datetime.timedelta(seconds=seconds)
    except OverflowError:
        raise EvalError("timestamp overflow") from None


def seconds_text(nanoseconds: int) -> str:
    """5405.25 for 5405250000000: the shortest decimal form of the double, without an exponent."""
    whole, rest = divmod(abs(nanoseconds), SECOND)
    return go_f((whole + rest / 1e9) * (-1 if nanoseconds < 0 else 1))


# --- zones


def _zone_offset(zone: str, seconds: int) -> int:
    """The UTC offset, in seconds east, of `zone` at an instant; `zone` is a name, or an offset such as `-08:00`."""
    if ":" in zone:
        return _fixed_offset(zone)
    try:
        when = datetime.datetime(1970, 1, 1, tzinfo=_UTC) + datetime.timedelta(seconds=seconds)
        offset = when.astimezone(_zone(zone)).utcoffset()
    except OverflowError:  # within a day of the years 1 and 9999
        offset = datetime.timedelta(0)
    return int(offset.total_seconds()) if offset else 0


@lru_cache(maxsize=128)
def _zone(name: str) -> datetime.tzinfo:
    if name in ("UTC", "Local"):
        return _UTC
    if ".." in name or name[0] in "/\\" or "\\" in name:
        raise EvalError("time: invalid location name")
    if len(name) > 100:  # no zone has such a name
        raise EvalError(f"unknown time zone {name}")
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise EvalError(f"unknown time zone {name}") from None


def _fixed_offset(zone: str) -> int:
    hours_text, _, minutes_text = zone.partition(":")
    hours, minutes = _atoi(hours_text), _atoi(minutes_text)
    if not 0 <= minutes <= 59:
        raise EvalError(f"timezone offset minutes out of range [0, 59]: {zone}")
    total = hours * 60 - minutes if zone.startswith("-") else hours * 60 + minutes
    return total * 60


def _atoi(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,9}", text, re.ASCII):
        raise EvalError(f'strconv.Atoi: parsing "{text}": invalid syntax')
    return int(text)


# --- parsing

_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d{1,2}):(\d\d):(\d\d)([.,]\d+)?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)


@cache_short(200, 2048)
def parse_rfc3339(text: str) -> Timestamp | None:
    """Parses a timestamp as Go's time.RFC3339; None if invalid. The caller must reject years outside 1 to 9999."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(match[i]) for i in range(1, 7))
    if hour > 23 or minute > 59 or second > 59 or not 1 <= month <= 12 or not 1 <= day <= days_in(year, month):
        return None
    offset = 0
    if match[8]:
        hours, minutes = int(match[9]), int(match[10])
        if hours > 24 or minutes > 60:
            return None
        offset = (hours * 60 + minutes) * (-60 if match[8] == "-" else 60)
    fraction = int(match[7][1:10].ljust(9, "0")) if match[7] else 0
    days = _days(year, month, day)
    return Timestamp((days * 86400 + hour * 3600 + minute * 60 + second - offset) * SECOND + fraction, offset)


@cache_short(200, 2048)
def parse_date(text: str) -> Timestamp | None:
    """`2024-02-29` as the start of that day in UTC; None if invalid."""
    match = re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", text, re.ASCII)
    if match is None:
        return None
    year, month, day = (int(part) for part in match.groups())
    if not 1 <= month <= 12 or not 1 <= day <= days_in(year, month):
        return None
    return Timestamp(_days(year, month, day) * 86400 * SECOND)


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01. The year 0, which datetime does not support, is 400 years before the year 400."""
    if year == 0:
        return datetime.date(400, month, day).toordinal() - 146097 - 719163
    return datetime.date(year, month, day).toordinal() - 719163


def parse_duration(text: str) -> int | None:
    """Nanoseconds of a text such as `1h30m` or `-1.5s`, parsed as by Go's time.ParseDuration; None if invalid."""
    if len(text) > 4096:  # Go would add up any number of parts; no duration needs that many
        return None
    try:
        return goduration.parse_duration(text)
    except ValueError:
        return None


# As in schema/formats/formats.py: a long run of digits without a unit must not be retried from each digit.
_LOOSE: Final = re.compile(r"(?<![0-9])([0-9]++)\s*+([A-Za-zµ]+)")
_LOOSE_UNITS: Final[tuple[tuple[int, tuple[str, ...]], ...]] = (
    (1, ("ns", "nano")),
    (1_000, ("us", "µs", "micro")),
    (1_000_000, ("ms", "milli")),
    (SECOND, ("s", "sec")),
    (60 * SECOND, ("m", "min")),
    (3600 * SECOND, ("h", "hr", "hour")),
    (24 * 3600 * SECOND, ("d", "day")),
    (7 * 24 * 3600 * SECOND, ("w", "wk", "week")),
)


@cache_short(200, 2048)
def parse_format_duration(text: str) -> int | None:
    """Nanoseconds of a field of format duration, which allows `2 hours`, `1d` and `1w` in addition to Go's syntax."""
    strict = parse_duration(text)
    if strict is not None:
        return strict
    total, is_valid = 0, False
    for match in _LOOSE.finditer(text):
        digits = match[1].lstrip("0")
        if len(digits) > 19 or int(digits or 0) > INT_MAX:
            return None
        unit = match[2].lower()
        for factor, names in _LOOSE_UNITS:
            for name in names:
                if unit == name or (name is names[-1] and unit.startswith(name)):
                    total, is_valid = total + int(digits or 0) * factor, True
    return (total + (1 << 63)) % (1 << 64) - (1 << 63) if is_valid else None


_LOCAL_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d)T(\d{1,2}):(\d\d):(\d\d)([.,]\d+)?", re.ASCII)


def parse_format_date_time(text: str) -> Timestamp:
    """Parses a field of format date-time, with or without an offset; an empty text is 1970. Raises EvalError."""
    if not text:
        return Timestamp(0)
    read = parse_rfc3339(text) or (parse_rfc3339(text + "Z") if _LOCAL_TIME.fullmatch(text) else None)
    if read is not None:
        return read
    raise EvalError(f"Invalid date-time formatted string {text}: parsing time {quote_time(text)}{_complaint(text)}")


def _complaint(text: str) -> str:
    layout = "2006-01-02T15:04:05"
    match = _LOCAL_TIME.match(text)
    if match is not None:
        return f": extra text: {quote_time(text[match.end() :])}"
    start = 0
    for part in re.findall(r"\d+|\D", layout):
        actual = text[start : start + len(part)]
        if not (actual == part if not part.isdigit() else actual.isdecimal() and len(actual) == len(part)):
            return f" as {quote_time(layout)}: cannot parse {quote_time(text[start:])} as {quote_time(part)}"
        start += len(part)
    return ": out of range"
