"""What unquoted scalars mean."""

from __future__ import annotations

import math

import pytest

from registry.codec.yaml_scalar import Scalar, is_timestamp, resolve_plain, resolve_tagged


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("Null", None),
        ("nULL", "nULL"),
        ("y", True),
        ("Yes", True),
        ("on", True),
        ("TRUE", True),
        ("tRue", "tRue"),
        ("n", False),
        ("No", False),
        ("off", False),
        ("False", False),
        ("oN", "oN"),
        ("0", 0),
        ("12", 12),
        ("+12", 12),
        ("-12", -12),
        ("1_000", 1000),
        ("017", 15),
        ("0o17", 15),
        ("0O17", 15),
        ("08", 8.0),
        ("0x1F", 31),
        ("-0x1f", -31),
        ("0b101", 5),
        ("-0b11", -3),
        ("0x", "0x"),
        ("0b2", "0b2"),
        ("9223372036854775807", 9223372036854775807),
        ("9223372036854775808", 2.0**63),
        ("1.5", 1.5),
        (".5", 0.5),
        ("-.5", -0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("1E-2", 0.01),
        ("+1.5e3", 1500.0),
        ("1e400", "1e400"),
        (".", "."),
        ("..", ".."),
        (".5x", ".5x"),
        ("-", "-"),
        ("+", "+"),
        ("1e", "1e"),
        ("1.2.3", "1.2.3"),
        ("190:20:30", "190:20:30"),
        ("2020-01-02", "2020-01-02"),
        ("=", "="),
        ("<<", "<<"),
        ("text", "text"),
        ("1" * 5000, "1" * 5000),
    ],
)
def test_plain(text: str, expected: Scalar) -> None:
    value = resolve_plain(text)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize("text, sign", [(".inf", 1), ("+.Inf", 1), ("-.INF", -1)])
def test_infinities(text: str, sign: int) -> None:
    assert resolve_plain(text) == sign * math.inf


def test_not_a_number() -> None:
    value = resolve_plain(".NaN")
    assert isinstance(value, float)
    assert math.isnan(value)


@pytest.mark.parametrize(
    "tag, text, expected",
    [
        ("str", "1", "1"),
        ("int", "0x10", 16),
        ("float", "1", 1),
        ("float", "1.5", 1.5),
        ("bool", "yes", True),
        ("null", "~", None),
        ("binary", "aGk=", "hi"),
        ("timestamp", "2020-01-02", "2020-01-02"),
        ("set", "1", "1"),
    ],
)
def test_tagged(tag: str, text: str, expected: Scalar) -> None:
    assert resolve_tagged(f"tag:yaml.org,2002:{tag}", text, plain=True) == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        ("2020-01-02", True),
        ("2020-1-2", True),
        ("2020-13-02", False),
        ("2020-02-30", False),
        ("2020-01-02T03:04:05Z", True),
        ("2020-01-02t3:4:5.678+02:00", True),
        ("2020-01-02 03:04:05", True),
        ("2020-01-02 03:04:05Z", False),
        ("2020-01-02T03:04:05", False),
        ("2020-01-02T25:04:05Z", False),
        ("20-01-02", False),
        ("2020", False),
    ],
)
def test_timestamps(text: str, expected: bool) -> None:
    assert is_timestamp(text) is expected


@pytest.mark.parametrize(
    "text, expected",
    [
        ("0xFFFFFFFFFFFFFFFF", 18446744073709551615.0),
        ("0xFFFFFFFFFFFFFFFFF", "0xFFFFFFFFFFFFFFFFF"),
        ("-0xFFFFFFFFFFFFFFFF", "-0xFFFFFFFFFFFFFFFF"),
        ("0o" + "7" * 30, "0o" + "7" * 30),
        ("0b" + "1" * 70, "0b" + "1" * 70),
        ("0" + "7" * 30, 7.777777777777778e29),
        ("1" * 20, 11111111111111111111.0),
        *((sign + "1" * digits, sign + "1" * digits) for sign in ("", "-", "+") for digits in (400, 5000)),
    ],
)
def test_integers_beyond_64_bits(text: str, expected: Scalar) -> None:
    """As go-yaml: of those beyond a uint64 decimal ones are floats, if there is one, and others are texts."""
    assert resolve_plain(text) == expected
    assert type(resolve_plain(text)) is type(expected)
