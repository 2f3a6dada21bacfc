"""Protobuf: envelopes and messages, byte for byte."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.codec.model import ProtoError
from registry.codec.proto import decode_delete_options, encode_proto, encode_watch_event
from registry.codec.wire import encode_delimited, fields, tag, varint

ENVELOPE = b"k8s\x00" + encode_delimited(1, encode_delimited(1, b"v1") + encode_delimited(2, b"DeleteOptions"))


@pytest.mark.parametrize(
    "raw, expected",
    [
        pytest.param(b"", {}, id="nothing set"),
        pytest.param(b"\x08\x1e", {"gracePeriodSeconds": 30}, id="grace period"),
        pytest.param(tag(1, 0) + varint(-1), {"gracePeriodSeconds": -1}, id="negative"),
        pytest.param(
            b"\x12\x06\x0a\x01u\x12\x017", {"preconditions": {"uid": "u", "resourceVersion": "7"}}, id="preconditions"
        ),
        pytest.param(b"\x18\x01", {"orphanDependents": True}, id="orphan"),
        pytest.param(b"\x22\x0aForeground", {"propagationPolicy": "Foreground"}, id="policy"),
        pytest.param(b"\x2a\x03All\x2a\x01x", {"dryRun": ["All", "x"]}, id="dry run"),
        pytest.param(
            b"\x98\x06\x05\x75\x00\x00\x00\x00\x79" + b"\0" * 8 + b"\x18\x00",
            {"orphanDependents": False},
            id="unknown fields are passed over",
        ),
    ],
)
def test_delete_options(raw: bytes, expected: dict[str, Any]) -> None:
    data = ENVELOPE + encode_delimited(2, raw)
    assert decode_delete_options(data) == {"apiVersion": "v1", "kind": "DeleteOptions"} | expected


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b'{"kind":"DeleteOptions"}', id="JSON"),
        pytest.param(ENVELOPE + b"\x12\x7f", id="cut length"),
        pytest.param(ENVELOPE + b"\x12", id="cut tag"),
        pytest.param(ENVELOPE + b"\x10\x01", id="number for bytes"),
        pytest.param(ENVELOPE + encode_delimited(2, b"\x0a\x01x"), id="bytes for a number"),
        pytest.param(ENVELOPE + encode_delimited(2, b"\x0b"), id="group"),
        pytest.param(ENVELOPE + encode_delimited(2, b"\x00\x01"), id="field nought"),
        pytest.param(ENVELOPE + b"\xff" * 11, id="endless varint"),
    ],
)
def test_bad_delete_options(data: bytes) -> None:
    with pytest.raises(ProtoError):
        decode_delete_options(data)


def test_partial_object_metadata() -> None:
    obj = {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {
            "name": "a",
            "namespace": "n",
            "uid": "u",
            "resourceVersion": "5",
            "generation": 2,
            "creationTimestamp": "1970-01-01T00:02:00Z",
            "labels": {"k": "v"},
            "finalizers": ["f/x"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "p", "controller": True}],
            "managedFields": [{"manager": "m", "operation": "Update", "fieldsV1": {"f:a": {}}}],
        },
    }
    owner = b"\x0a\x01K\x1a\x01o\x22\x01p\x2a\x02v1\x30\x01"
    manager = b"\x0a\x01m\x12\x06Update" + encode_delimited(7, encode_delimited(1, b'{"f:a":{}}'))
    metadata = (
        b"\x0a\x01a\x1a\x01n\x2a\x01u\x32\x015\x38\x02\x42\x02\x08\x78"
        + encode_delimited(11, b"\x0a\x01k\x12\x01v")
        + encode_delimited(13, owner)
        + encode_delimited(14, b"f/x")
        + encode_delimited(17, manager)
    )
    assert encode_proto(obj) == (
        b"k8s\x00"
        + encode_delimited(1, encode_delimited(1, b"meta.k8s.io/v1") + encode_delimited(2, b"PartialObjectMetadata"))
        + encode_delimited(2, encode_delimited(1, metadata))
    )


def test_list_status_and_watch_event() -> None:
    item = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a"}}
    listed = encode_proto(
        {
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": "7", "continue": ""},
            "items": [item, item],
        }
    )
    one = encode_delimited(2, encode_delimited(1, b"\x0a\x01a"))
    assert listed.endswith(encode_delimited(2, encode_delimited(1, b"\x12\x017\x1a\x00") + one + one))
    status = encode_proto(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "m",
            "reason": "NotFound",
            "details": {"name": "a", "causes": [{"field": "f"}]},
            "code": 404,
        }
    )
    assert status.endswith(
        b"\x0a\x00\x12\x07Failure\x1a\x01m\x22\x08NotFound\x2a\x08\x0a\x01a\x22\x03\x1a\x01f\x30\x94\x03"
    )
    event = encode_watch_event("ADDED", item)
    assert int.from_bytes(event[:4], "big") == len(event) - 4
    assert event[4:] == b"\x0a\x05ADDED" + encode_delimited(2, encode_delimited(1, encode_proto(item)))


@given(st.integers(0, (1 << 64) - 1), st.integers(1, (1 << 29) - 1), st.binary(max_size=300))
def test_wire_round_trip(number: int, field: int, data: bytes) -> None:
    message = tag(field, 0) + varint(number) + encode_delimited(field, data)
    assert list(fields(message)) == [(field, number), (field, data)]


@given(st.binary(max_size=60))
def test_any_bytes_give_options_or_an_error(data: bytes) -> None:
    with contextlib.suppress(ProtoError):
        assert "kind" in decode_delete_options(ENVELOPE + data)
