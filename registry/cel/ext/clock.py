"""timestamp(), duration() and their members.

Follows cel-go common/types/{timestamp,duration}.go and common/stdlib.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable

from registry.cel.common.times import (
    MAX_SECONDS,
    MIN_SECONDS,
    SECOND,
    Duration,
    Timestamp,
    parse_duration,
    parse_rfc3339,
)
from registry.cel.common.values import DURATION, TIMESTAMP, EvalError, Value, no_such_overload
from registry.cel.ext.conversions import conversion_error
from registry.cel.ext.table import function, member, mismatch


@function("timestamp", 1)
def to_timestamp(value: Value) -> Timestamp:
    """Converts RFC 3339 text, or seconds since 1970."""
    if type(value) is str:
        moment = parse_rfc3339(value)
        if moment is None:
            raise conversion_error(value, TIMESTAMP)
        _check(moment.nanoseconds // SECOND)
        return moment
    if type(value) is int:
        _check(value)
        return Timestamp(value * SECOND)
    if type(value) is Timestamp:
        return value
    raise mismatch("timestamp", value)


def _check(seconds: int) -> None:
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise EvalError("timestamp overflow")


@function("duration", 1)
def to_duration(value: Value) -> Duration:
    """Converts text such as `1h30m`. duration(int) is declared, but fails when it is evaluated, as in cel-go."""
    if type(value) is str:
        nanoseconds = parse_duration(value)
        if nanoseconds is None:
            raise conversion_error(value, DURATION)
        return Duration(nanoseconds)
    if type(value) is int:
        raise conversion_error(value, DURATION)
    if type(value) is Duration:
        return value
    raise mismatch("duration", value)


def _parts(name: str, of_calendar: Callable[[datetime.datetime], int], unit: int = 0) -> None:
    """Registers a member that returns a part of a timestamp's calendar or, with a unit, a duration's length in it."""

    def read(value: Value, zone: Value = "") -> int:
        if type(value) is Timestamp:
            if type(zone) is not str:
                raise no_such_overload()
            return of_calendar(value.calendar(zone))
        if unit and type(value) is Duration:
            count = abs(value.nanoseconds) // unit
            return count if value.nanoseconds >= 0 else -count
        raise mismatch(name, value)

    member(name, 1, 2)(read)


_parts("getFullYear", lambda when: when.year)
_parts("getMonth", lambda when: when.month - 1)
_parts("getDayOfYear", lambda when: when.timetuple().tm_yday - 1)
_parts("getDayOfMonth", lambda when: when.day - 1)
_parts("getDate", lambda when: when.day)
_parts("getDayOfWeek", lambda when: when.isoweekday() % 7)
_parts("getHours", lambda when: when.hour, 3600 * SECOND)
_parts("getMinutes", lambda when: when.minute, 60 * SECOND)
_parts("getSeconds", lambda when: when.second, SECOND)


def _milliseconds(value: Value, zone: Value = "") -> int:
    if type(value) is Timestamp:
        if type(zone) is not str:
            raise no_such_overload()
        value.calendar(zone)  # an unknown zone is an error anyway
        return value.nanoseconds % SECOND // 1_000_000
    if type(value) is Duration:
        count = abs(value.nanoseconds) // 1_000_000
        return count if value.nanoseconds >= 0 else -count
    raise mismatch("getMilliseconds", value)


member("getMilliseconds", 1, 2)(_milliseconds)
