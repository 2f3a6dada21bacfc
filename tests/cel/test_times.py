"""Times and durations as Go reads and writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.cel.common.times import (
    MAX_SECONDS,
    MIN_SECONDS,
    SECOND,
    Timestamp,
    parse_date,
    parse_duration,
    parse_format_date_time,
    parse_format_duration,
    parse_rfc3339,
)
from registry.cel.common.values import EvalError
from registry.codec.go_text import go_f
from tests.cel.evaluation import outcome


@pytest.mark.parametrize(
    "text, expected",
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1969-12-31T23:59:59Z", -SECOND),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T0:00:01Z", SECOND),
        ("1970-01-01T00:00:00,5Z", SECOND // 2),
        ("2024-02-29T00:00:00Z", 1709164800 * SECOND),
        ("2023-02-29T00:00:00Z", None),
        ("1970-01-01T24:00:00Z", None),
        ("1970-01-01t00:00:00Z", None),
        ("1970-01-01T00:00:00z", None),
        ("1970-01-01T00:00:00", None),
        ("", None),
        ("1970-1-01T00:00:00Z", None),
        ("1970-01-01 00:00:00Z", None),
        ("1970-01-01T00:00:60Z", None),
        ("1970-01-01T00:00:00+25:00", None),
        ("١970-01-01T00:00:00Z", None),
    ],
)
def test_rfc3339(text: str, expected: int | None) -> None:
    found = parse_rfc3339(text)
    assert (None if found is None else found.nanoseconds) == expected


@given(st.integers(MIN_SECONDS * SECOND, (MAX_SECONDS + 1) * SECOND - 1), st.integers(-14 * 60, 14 * 60))
def test_round_trip(nanoseconds: int, minutes: int) -> None:
    if not MIN_SECONDS + 86400 <= nanoseconds // SECOND <= MAX_SECONDS - 86400:
        minutes = 0
    found = parse_rfc3339(Timestamp(nanoseconds, minutes * 60).text())
    assert found is not None
    assert (found.nanoseconds, found.offset) == (nanoseconds, minutes * 60)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("1s", SECOND),
        ("1h1m1s1ms1us1ns", 3661001001001),
        ("-1.5h", -5400 * SECOND),
        ("+1s", SECOND),
        ("0", 0),
        ("-0", 0),
        (".5s", SECOND // 2),
        ("1.s", SECOND),
        ("1µs", 1000),
        ("9223372036854775807ns", 2**63 - 1),
        ("-9223372036854775808ns", -(2**63)),
        ("9223372036854775808ns", None),
        ("", None),
        ("1", None),
        ("s", None),
        (".s", None),
        ("1d", None),
        ("1 s", None),
        ("1s ", None),
        ("-", None),
    ],
)
def test_durations(text: str, expected: int | None) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        ("1s", SECOND),
        ("2 hours", 7200 * SECOND),
        ("1d", 86400 * SECOND),
        ("1w", 604800 * SECOND),
        ("1h 30m", 5400 * SECOND),
        ("3 minutes", 180 * SECOND),
        ("5 MS", 5_000_000),
        ("soon", None),
        ("5 parsecs", None),
    ],
)
def test_durations_of_fields(text: str, expected: int | None) -> None:
    assert parse_format_duration(text) == expected


@pytest.mark.parametrize(
    "text, expected",
    [("2024-02-29", 1709164800), ("1970-01-01", 0), ("2023-02-29", None), ("2024-2-29", None), ("2024-02-29T", None)],
)
def test_dates(text: str, expected: int | None) -> None:
    found = parse_date(text)
    assert (None if found is None else found.nanoseconds // SECOND) == expected


@pytest.mark.parametrize("text, expected", [("", 0), ("1970-01-01T00:00:05", 5), ("1970-01-01T00:00:05.5Z", 5)])
def test_date_times_of_fields(text: str, expected: int) -> None:
    assert parse_format_date_time(text).nanoseconds // SECOND == expected


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("2024-01-01t00:00:00z", 'as "2006-01-02T15:04:05": cannot parse "t00:00:00z" as "T"'),
        ("2024-01-01T00:00:00z", ': extra text: "z"'),
    ],
)
def test_date_times_accepted_by_the_format(text: str, complaint: str) -> None:
    with pytest.raises(EvalError, match=complaint):
        parse_format_date_time(text)


@pytest.mark.parametrize(
    "value, expected",
    [
        (0.0, "0"),
        (1.0, "1"),
        (0.1, "0.1"),
        (1e21, "1000000000000000000000"),
        (1.5e-7, "0.00000015"),
        (123456.789, "123456.789"),
        (-2.5e25, "-25000000000000000000000000"),
        (1.25e22, "12500000000000000000000"),
    ],
)
def test_doubles_without_exponents(value: float, expected: str) -> None:
    assert go_f(value) == expected


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("google.protobuf.Duration{seconds: 1, nanos: 5} == duration('1.000000005s')", "true"),
        ("google.protobuf.Duration{} == duration('0s')", "true"),
        ("google.protobuf.Duration{seconds: 9223372037} == duration('2562047h47m16.854775807s')", "true"),
        ("google.protobuf.Timestamp{seconds: 1, ?nanos: optional.none()} == timestamp('1970-01-01T00:00:01Z')", "true"),
        ("google.protobuf.Timestamp{seconds: 253402300800}", "error: timestamp overflow"),
        (
            "google.protobuf.Duration{nanos: 3000000000}",
            "error: field type conversion error for google.protobuf.Duration.nanos value type: integer overflow",
        ),
        (
            "google.protobuf.Duration{seconds: dyn(1u)}",
            "error: field type conversion error for google.protobuf.Duration.seconds value type: unsupported type "
            "conversion from 'uint' to int64",
        ),
    ],
)
def test_messages(expression: str, expected: str) -> None:
    assert outcome(expression) == expected
