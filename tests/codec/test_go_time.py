"""Times as Go reads them."""

import calendar
import itertools

import pytest

from registry.codec.go_time import TimeError, canonical_time


@pytest.mark.parametrize(
    "text, expected",
    [
        ("2024-01-02T03:04:05Z", "2024-01-02T03:04:05Z"),
        ("2024-01-02T03:04:05.999999999Z", "2024-01-02T03:04:05Z"),
        ("2024-01-02T03:04:05,5Z", "2024-01-02T03:04:05Z"),
        ("2024-01-02T3:04:05Z", "2024-01-02T03:04:05Z"),
        ("2024-03-01T00:30:00+01:00", "2024-02-29T23:30:00Z"),
        ("2024-12-31T23:30:00-01:00", "2025-01-01T00:30:00Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z"),
        ("0001-01-01T00:00:00+01:00", "0000-12-31T23:00:00Z"),
        ("9999-12-31T23:59:59-00:00", "9999-12-31T23:59:59Z"),
    ],
)
def test_valid_times(text: str, expected: str) -> None:
    assert canonical_time(text) == expected


@pytest.mark.parametrize(
    "text, reason",
    [
        ("noon", ' as "2006-01-02T15:04:05Z07:00": cannot parse "noon" as "2006"'),
        ("2024/01/02", ' as "2006-01-02T15:04:05Z07:00": cannot parse "/01/02" as "-"'),
        ("2024-1-02T03:04:05Z", ' as "2006-01-02T15:04:05Z07:00": cannot parse "1-02T03:04:05Z" as "01"'),
        ("2024-01-02", ' as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T"'),
        ("2024-01-02T03:04:05", ' as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00"'),
        ("2024-01-02T03:04:05x", ' as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "Z07:00"'),
        ("2024-01-02T03:04:05Zx", ': extra text: "x"'),
        ("2024-13-02T03:04:05Z", ": month out of range"),
        ("2023-02-29T03:04:05Z", ": day out of range"),
        ("2024-01-02T24:04:05Z", ": hour out of range"),
        ("2024-01-02T03:60:05Z", ": minute out of range"),
        ("2024-01-02T03:04:60Z", ": second out of range"),
        ("2024-01-02T03:04:05+25:00", ": time zone offset hour out of range"),
    ],
)
def test_invalid_times(text: str, reason: str) -> None:
    with pytest.raises(TimeError) as caught:
        canonical_time(text)
    assert str(caught.value) == f'parsing time "{text}"{reason}'


def test_days_that_every_year_has_are_recognized_without_parsing() -> None:
    for month, day in itertools.product(range(1, 13), range(1, 32)):
        text = f"2023-{month:02}-{day:02}T03:04:05Z"
        if day <= calendar.monthrange(2023, month)[1]:
            # What is parsed is written again, as another text.
            assert canonical_time(text) is text
        else:
            with pytest.raises(TimeError, match="day out of range"):
                canonical_time(text)


def test_errors_quote_unusual_characters_by_their_bytes() -> None:
    with pytest.raises(TimeError) as caught:
        canonical_time('é\t"')
    quoted = r'"\xc3\xa9\x09\""'
    assert str(caught.value) == (
        f'parsing time {quoted} as "2006-01-02T15:04:05Z07:00": cannot parse {quoted} as "2006"'
    )
