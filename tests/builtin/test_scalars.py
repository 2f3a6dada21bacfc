"""Times with microseconds, and values that decode themselves."""

from __future__ import annotations

from typing import Any

import pytest

from registry.builtin.structs import BYTES_MAP, MICRO_TIME, QUANTITY, canonical_micro_time
from registry.codec.go_time import TimeError
from registry.codec.structs.base import StructDecodeError
from registry.codec.structs.structs import Field, Struct, decode

LAYOUT = '"2006-01-02T15:04:05.000000Z07:00"'

TIMES = {
    "in UTC": ("2024-03-04T05:06:07.123456Z", "2024-03-04T05:06:07.123456Z"),
    "with a zone": ("2024-03-04T05:06:07.123456+02:00", "2024-03-04T03:06:07.123456Z"),
    "over midnight": ("2024-02-28T23:30:00.000001-01:00", "2024-02-29T00:30:00.000001Z"),
    "a comma": ("2024-03-04T05:06:07,123456Z", "2024-03-04T05:06:07.123456Z"),
    "the end of a month": ("2024-02-29T00:00:00.000000Z", "2024-02-29T00:00:00.000000Z"),
}


@pytest.mark.parametrize("text, canonical", TIMES.values(), ids=TIMES)
def test_times(text: str, canonical: str) -> None:
    assert canonical_micro_time(text) == canonical
    assert canonical_micro_time(canonical) == canonical


NO_TIMES = {
    "a word": ("now", f'as {LAYOUT}: cannot parse "now" as "2006"'),
    "no decimals": ("2024-03-04T05:06:07Z", f'as {LAYOUT}: cannot parse "Z" as ".000000"'),
    "too few": ("2024-03-04T05:06:07.5+02:00", f'as {LAYOUT}: cannot parse ".5+02:00" as ".000000"'),
    "too many": ("2024-03-04T05:06:07.123456789Z", f'as {LAYOUT}: cannot parse "789Z" as "Z07:00"'),
    "an invalid day": ("2023-02-29T05:06:07.000000Z", ": day out of range"),
    "an invalid month": ("2023-13-01T05:06:07Z", ": month out of range"),
}


@pytest.mark.parametrize("text, why", NO_TIMES.values(), ids=NO_TIMES)
def test_invalid_times(text: str, why: str) -> None:
    with pytest.raises(TimeError) as caught:
        canonical_micro_time(text)
    assert str(caught.value).startswith(f'parsing time "{text}"')
    assert str(caught.value).endswith(why)


THING = Struct("Thing", (Field("at", MICRO_TIME), Field("size", QUANTITY), Field("data", BYTES_MAP)))

DECODED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a quantity as a number": ({"size": 3}, {"size": "3"}),
    "a quantity with blanks": ({"size": " 1.5 "}, {"size": "1500m"}),
    "null bytes are none": ({"data": {"a": None, "b": "eA=="}}, {"data": {"a": "", "b": "eA=="}}),
    "null is left out": ({"at": None, "data": None}, {}),
}


@pytest.mark.parametrize("given, decoded", DECODED.values(), ids=DECODED)
def test_decoding(given: dict[str, Any], decoded: dict[str, Any]) -> None:
    assert decode(THING, given).value == decoded


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "an invalid quantity": ({"size": True}, "quantities must match the regular expression"),
    "bytes that are no base64": ({"data": {"a": "!!"}}, "illegal base64 data at input byte 0"),
    "bytes that are no text": (
        {"data": {"a": 1}},
        "json: cannot unmarshal number into Go struct field Thing.data of type []uint8",
    ),
    "bytes in a list": (
        {"data": []},
        "json: cannot unmarshal array into Go struct field Thing.data of type map[string][]uint8",
    ),
    "a time as a number": ({"at": 1}, "json: cannot unmarshal number into Go struct field Thing.at of type string"),
}


@pytest.mark.parametrize("given, why", FAULTS.values(), ids=FAULTS)
def test_faults(given: dict[str, Any], why: str) -> None:
    with pytest.raises(StructDecodeError) as caught:
        decode(THING, given)
    assert str(caught.value).startswith(why)
