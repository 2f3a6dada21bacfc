"""Large messages in protobuf are parsed in pieces, with the same result."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import DecodeError, Message
from hypothesis import example, given
from hypothesis import strategies as st

from registry.codec.model import TooManyValues
from registry.codec.protobuf import pieces
from registry.codec.protobuf.envelope import decode_object, encode_object
from registry.codec.protobuf.messages import message_class
from registry.codec.wire import encode_delimited, tag, varint

NUMBERS = st.integers(1, 44)
FIELDS = st.recursive(
    st.one_of(
        st.builds(encode_delimited, NUMBERS, st.text(max_size=9).map(str.encode)),
        st.builds(lambda number, value: tag(number, 0) + varint(value), NUMBERS, st.integers(0, 1 << 63)),
        st.builds(lambda number, data: tag(number, 1) + data, NUMBERS, st.binary(min_size=8, max_size=8)),
        st.builds(lambda number, data: tag(number, 5) + data, NUMBERS, st.binary(min_size=4, max_size=4)),
        st.binary(max_size=4),
    ),
    lambda inner: st.builds(
        lambda number, parts: encode_delimited(number, b"".join(parts)), NUMBERS, st.lists(inner, max_size=6)
    ),
    max_leaves=30,
)
# An entry of a map `properties` with a key, and the schema `{"type": text}` twice.
ENTRY = encode_delimited(29, encode_delimited(1, b"a") + encode_delimited(2, encode_delimited(5, b"text")) * 2)
# Entries with something else: a key that is no text, a value that is no message, a third field, a group.
OTHER_ENTRIES = [
    encode_delimited(29, encode_delimited(1, b"abcdefgh") + other)
    for other in (tag(1, 1) + bytes(8), tag(2, 0) + varint(1), encode_delimited(3, b"c"), tag(7, 3) + tag(7, 4))
]


@given(FIELDS, st.sampled_from(["apiextensions.k8s.io/v1/JSONSchemaProps", "v1/ConfigMap", "v1/Service"]))
@example(ENTRY * 2, "apiextensions.k8s.io/v1/JSONSchemaProps")
@example(b"".join(OTHER_ENTRIES), "apiextensions.k8s.io/v1/JSONSchemaProps")
@example(ENTRY + OTHER_ENTRIES[0], "apiextensions.k8s.io/v1/JSONSchemaProps")
def test_a_message_in_pieces_is_the_same(data: bytes, key: str) -> None:
    whole, divided = _parsed(key, data, 1 << 20), _parsed(key, data, 8)
    assert divided == whole


def _parsed(key: str, data: bytes, piece_bytes: int) -> Message | None:
    message = message_class(key)()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE_BYTES", piece_bytes)
        try:
            pieces.merge(message, data)
            _read_keys(message)
        except (DecodeError, UnicodeDecodeError):
            return None
    message.DiscardUnknownFields()  # which nobody reads
    return message


def _read_keys(message: Message) -> None:
    """Raises UnicodeDecodeError for the key of a map that is no text: the library reads it only then."""
    for field, content in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            values = [content[key] for key in content]
        else:
            values = list(content) if field.is_repeated else [content]
        for value in values:
            if isinstance(value, Message):
                _read_keys(value)


def test_a_definition_that_is_larger_than_a_piece() -> None:
    wide = {"type": "object", "properties": {f"p{place}": {"type": "string"} for place in range(5000)}}
    schema = {"type": "object", "properties": {"a": wide, "b": {"items": wide}, "c": {"allOf": [wide, {"not": wide}]}}}
    obj: dict[str, Any] = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "spec": {"group": "g", "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]},
    }
    data = encode_object(obj)
    assert len(data) > 6 * pieces.PIECE_BYTES
    decoded = decode_object(data)
    assert decoded["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == schema


def test_groups_are_passed_over_also_in_a_large_message() -> None:
    group = tag(50, 3) + encode_delimited(1, b"x") * 30_000 + tag(51, 3) + tag(51, 4) + tag(50, 4)
    data = encode_delimited(2, encode_delimited(1, b"a")) + group + encode_delimited(3, encode_delimited(1, b"b"))
    message = message_class("v1/ConfigMap")()
    pieces.merge(message, data)
    assert [field.number for field, _ in message.ListFields()] == [2, 3]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        pytest.param(tag(13, 2) + b"\x00", "more than 200000 objects and lists", id="messages"),
        pytest.param(tag(15, 0) + b"\x01", "more than 500000 fields", id="unknown fields"),
    ],
)
def test_too_many_are_refused(raw: bytes, message: str) -> None:
    """A million of them took the library 60 ms, in which nothing else ran."""
    with pytest.raises(TooManyValues, match=message):
        pieces.merge(message_class("v1/ConfigMap")(), encode_delimited(1, raw * 1_000_000))
