from __future__ import annotations

from typing import Any

import pytest

from registry.codec.json_decode import decode_verbatim_json
from registry.codec.model import MAX_STRICT_ERRORS
from registry.codec.structs.base import MAX_UNKNOWN_CHARACTERS, RepeatedField, StructDecodeError
from registry.codec.structs.meta import TIME
from registry.codec.structs.scalars import BOOL, BYTES, STRING
from registry.codec.structs.structs import STRINGS, Field, GoMap, GoSlice, Pointer, Struct, _survey, decode, encode

Inner = Struct("Inner", (Field("name", STRING, required=True), Field("on", BOOL)))
Outer = Struct(
    "Outer",
    (
        Field("one", Inner, required=True),
        Field("maybe", Pointer(Inner)),
        Field("many", GoSlice(Inner), required=True),
        Field("texts", STRINGS),
        Field("by", GoMap(STRING)),
        Field("data", BYTES),
    ),
)


def test_zero_values_are_written_where_there_is_no_omitempty() -> None:
    assert encode(Outer, {}) == {"one": {"name": ""}, "many": None}


def test_null_is_absent_but_for_elements_which_become_zero() -> None:
    body = {"one": None, "maybe": None, "many": [None, {"name": None}], "texts": [None], "by": {"a": None}}
    assert decode(Outer, body).value == {"many": [{}, {}], "texts": [""], "by": {"a": ""}}


def test_a_pointer_to_an_empty_struct_is_written() -> None:
    assert encode(Outer, {"maybe": {}})["maybe"] == {"name": ""}


@pytest.mark.parametrize(
    "text, at",
    [
        pytest.param("!!", 0, id="first"),
        pytest.param("ab!d", 2, id="in a group"),
        pytest.param("abcde", 4, id="too short at the end"),
        pytest.param("abc=d", 4, id="padding in the middle"),
        pytest.param("a===", 1, id="too much padding"),
    ],
)
def test_bad_base64(text: str, at: int) -> None:
    with pytest.raises(StructDecodeError) as caught:
        decode(Outer, {"data": text})
    assert str(caught.value) == f"illegal base64 data at input byte {at}"


def test_line_breaks_in_base64_are_ignored() -> None:
    assert decode(Outer, {"data": "QU\nJD\r\n"}).value == {"data": "QUJD"}


@pytest.mark.parametrize(
    "value, limit, deeper",
    [
        pytest.param(1, 0, False, id="scalar"),
        pytest.param([], 1, False, id="empty list"),
        pytest.param([[]], 1, True, id="list in a list"),
        pytest.param({"a": [{}]}, 3, False, id="three levels"),
        pytest.param({"a": [{"b": []}]}, 3, True, id="four levels"),
    ],
)
def test_depth(value: Any, limit: int, deeper: bool) -> None:
    assert _survey(value, limit)[0] is deeper


def test_unknown_fields_are_bounded() -> None:
    name = "x" * 10_000
    unknown = decode(Outer, {"one": {f"{name}{i}": 1 for i in range(1000)}}).unknown
    assert MAX_UNKNOWN_CHARACTERS <= sum(map(len, unknown)) < MAX_UNKNOWN_CHARACTERS + 20_000
    assert len(decode(Outer, {"one": {f"x{i}": 1 for i in range(1000)}}).unknown) == MAX_STRICT_ERRORS


REPEATED: dict[str, tuple[str, Any, list[str]]] = {
    "a text: the last": ('{"one": {"name": "a", "name": "b"}}', {"one": {"name": "b"}}, ["=one.name"]),
    "a struct: what both say": (
        '{"one": {"name": "a", "on": true}, "one": {"name": "b"}}',
        {"one": {"name": "b", "on": True}},
        ["=one"],
    ),
    "behind a pointer": (
        '{"maybe": {"name": "a"}, "maybe": {"on": true}}',
        {"maybe": {"name": "a", "on": True}},
        ["=maybe"],
    ),
    "null takes away what is behind a pointer": ('{"maybe": {"name": "a"}, "maybe": null}', {}, ["=maybe"]),
    "null leaves a struct": ('{"one": {"name": "a"}, "one": null}', {"one": {"name": "a"}}, ["=one"]),
    "a list: element by element": (
        '{"many": [{"name": "a"}, {"name": "b"}], "many": [{"on": true}]}',
        {"many": [{"name": "a", "on": True}]},
        ["=many"],
    ),
    "a map: the keys of both": (
        '{"by": {"a": "1", "b": "2"}, "by": {"a": "3"}}',
        {"by": {"a": "3", "b": "2"}},
        ["=by"],
    ),
    "a key of a map": ('{"by": {"a": "1", "a": "2"}}', {"by": {"a": "2"}}, ["=by.a"]),
    "unknown fields in the order of the document": (
        '{"one": {"x": 1, "name": "a"}, "y": 1, "one": {"z": 1}, "y": 2}',
        {"one": {"name": "a"}},
        ["one.x", "y", "=one", "one.z", "y"],
    ),
}


@pytest.mark.parametrize("text, value, faults", REPEATED.values(), ids=REPEATED)
def test_fields_that_are_given_twice(text: str, value: Any, faults: list[str]) -> None:
    found = decode(Outer, decode_verbatim_json(text.encode()))
    assert found.value == value
    assert [f"={path}" if isinstance(path, RepeatedField) else path for path in found.unknown] == faults


TIMES = Struct("Times", (Field("at", TIME), Field("name", STRING), Field("labels", GoMap(STRING))))


@pytest.mark.parametrize(
    "body, text",
    [
        pytest.param({"name": 1, "labels": []}, "number into Go struct field Times.name of type string", id="first"),
        pytest.param(
            {"labels": {"a": 1, "b": True}}, "number into Go struct field Times.labels of type", id="in a map"
        ),
        pytest.param(
            {"name": 1, "at": 2}, "number into Go struct field Times.at of type string", id="a time of a type"
        ),
        pytest.param({"name": 1, "at": "noon"}, 'parsing time "noon" as ', id="a time after another field"),
    ],
)
def test_types_that_decode_themselves_are_refused_before_the_first_wrong_type(body: Any, text: str) -> None:
    with pytest.raises(StructDecodeError) as caught:
        decode(TIMES, body)
    assert text in str(caught.value)


def test_the_zero_time_is_absent() -> None:
    assert decode(TIMES, {"at": "0001-01-01T00:00:00Z", "name": "a"}).value == {"name": "a"}
