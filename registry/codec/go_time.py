"""Parsing of RFC 3339 times as Go's time.Parse does it, with its error texts.

metav1.Time is written in UTC with whole seconds: `2024-03-04T05:06:07Z`. Go parses leniently: the hour may have one
digit, any number of decimals may follow the seconds after a period or a comma, and an offset is converted.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from registry.codec.go_text import quote_time

RFC3339 = "2006-01-02T15:04:05Z07:00"

# A day that every year has (01 to 28; 29 and 30; 31) and a time of day, as Go writes them.
ORDINARY_SECONDS = (
    r"\d{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
    r"T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d"
)

_canonical = re.compile(ORDINARY_SECONDS + "Z", re.ASCII).fullmatch
_fraction = re.compile(r"[.,]\d+", re.ASCII)

# For each position: the part of the layout, a pattern for it, the range of its number.
_PARTS = (
    ("2006", re.compile(r"\d{4}", re.ASCII), 0, 9999, ""),
    ("01", re.compile(r"\d{2}", re.ASCII), 1, 12, "month"),
    ("02", re.compile(r"\d{2}", re.ASCII), 0, 99, ""),
    ("15", re.compile(r"\d{1,2}", re.ASCII), 0, 23, "hour"),
    ("04", re.compile(r"\d{2}", re.ASCII), 0, 59, "minute"),
    ("05", re.compile(r"\d{2}", re.ASCII), 0, 59, "second"),
)
_SEPARATORS = ("", "-", "-", "T", ":", ":")
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class TimeError(ValueError):
    """The text is not a time; the message is Go's."""


def canonical_time(text: str) -> str:
    """`text` as metav1.Time writes it: `2024-03-04T05:06:07+02:00` gives `2024-03-04T03:06:07Z`.

    Raises TimeError with `parsing time "noon" as "2006-01-02T15:04:05Z07:00": cannot parse "noon" as "2006"`.
    """
    return text if _canonical(text) else _parse(text)


def _parse(text: str) -> str:
    numbers: list[int] = []
    rest = text
    for separator, (part, pattern, low, high, what) in zip(_SEPARATORS, _PARTS, strict=True):
        if separator and not rest.startswith(separator):
            raise _cannot(text, rest, separator)
        rest = rest[len(separator) :]
        match = pattern.match(rest)
        if not match:
            raise _cannot(text, rest, part)
        number = int(match.group())
        if not low <= number <= high:
            raise _out_of_range(text, what)
        numbers.append(number)
        rest = rest[match.end() :]
    decimals = _fraction.match(rest)
    if decimals:
        rest = rest[decimals.end() :]
    offset, rest = _offset(text, rest)
    if rest:
        raise TimeError(f"parsing time {quote_time(text)}: extra text: {quote_time(rest)}")
    year, month, day = numbers[:3]
    if day < 1 or day > days_in(year, month):
        raise _out_of_range(text, "day")
    return _in_utc(numbers, offset)


def _offset(text: str, rest: str) -> tuple[int, str]:
    """The offset in minutes at the beginning of `rest`, and the text after it."""
    if rest.startswith("Z"):
        return 0, rest[1:]
    if len(rest) < 6 or rest[3] != ":":
        raise _cannot(text, rest, "Z07:00")
    sign, hours, minutes = rest[0], rest[1:3], rest[4:6]
    if sign not in "+-" or not (hours + minutes).isascii() or not (hours + minutes).isdigit():
        raise _cannot(text, rest, "Z07:00")
    if int(hours) > 24:
        raise _out_of_range(text, "time zone offset hour")
    if int(minutes) > 60:
        raise _out_of_range(text, "time zone offset minute")
    total = int(hours) * 60 + int(minutes)
    return (total if sign == "+" else -total), rest[6:]


def days_in(year: int, month: int) -> int:
    """The days of a month of the Gregorian calendar, in any year from 0 on."""
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return _DAYS[month - 1] + leap


def _in_utc(numbers: list[int], offset: int) -> str:
    year, month, day, hour, minute, second = numbers
    if offset == 0:
        return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}Z"
    # Python only supports the years 1 to 9999; 400 years are a whole number of days and weeks, so shift by them.
    shift = 400 if year < 400 else -400 if year > 9000 else 0
    moved = datetime(year + shift, month, day, hour, minute, second, tzinfo=UTC) - timedelta(minutes=offset)
    return f"{moved.year - shift:04d}" + moved.strftime("-%m-%dT%H:%M:%SZ")


def _cannot(text: str, value: str, layout: str) -> TimeError:
    why = f"cannot parse {quote_time(value)} as {quote_time(layout)}"
    return TimeError(f"parsing time {quote_time(text)} as {quote_time(RFC3339)}: {why}")


def _out_of_range(text: str, what: str) -> TimeError:
    return TimeError(f"parsing time {quote_time(text)}: {what} out of range")
