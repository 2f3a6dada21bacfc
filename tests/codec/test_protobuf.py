"""Protobuf: envelopes and messages, byte for byte."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.codec.model import ProtoError
from registry.codec.protobuf.envelope import (
    MessageError,
    UnknownKind,
    decode_object,
    encode_list,
    encode_list_item,
    encode_object,
    encode_watch_event,
)
from registry.codec.wire import encode_delimited, tag, varint

ENVELOPE = b"k8s\x00" + encode_delimited(1, encode_delimited(1, b"v1") + encode_delimited(2, b"DeleteOptions"))
END = b"\x1a\x00\x22\x00"  # no content encoding and no content type


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
        pytest.param(b"\x0a\x01x\x18\x01", {"orphanDependents": True}, id="so is a field of another wire type"),
    ],
)
def test_delete_options(raw: bytes, expected: dict[str, Any]) -> None:
    data = ENVELOPE + encode_delimited(2, raw)
    assert decode_object(data) == {"apiVersion": "v1", "kind": "DeleteOptions"} | expected


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b'{"kind":"DeleteOptions"}', id="JSON"),
        pytest.param(ENVELOPE + b"\x12\x7f", id="cut length"),
        pytest.param(ENVELOPE + b"\x12", id="cut tag"),
        pytest.param(ENVELOPE + encode_delimited(2, b"\x0b"), id="group"),
        pytest.param(ENVELOPE + encode_delimited(2, b"\x00\x01"), id="field nought"),
        pytest.param(ENVELOPE + b"\xff" * 11, id="endless varint"),
    ],
)
def test_bad_delete_options(data: bytes) -> None:
    with pytest.raises(ProtoError):
        decode_object(data)


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
        b"\x0a\x01a\x1a\x01n\x2a\x01u\x32\x015\x38\x02\x42\x04\x08\x78\x10\x00"
        + encode_delimited(11, b"\x0a\x01k\x12\x01v")
        + encode_delimited(13, owner)
        + encode_delimited(14, b"f/x")
        + encode_delimited(17, manager)
    )
    assert encode_object(obj) == (
        b"k8s\x00"
        + encode_delimited(1, encode_delimited(1, b"meta.k8s.io/v1") + encode_delimited(2, b"PartialObjectMetadata"))
        + encode_delimited(2, encode_delimited(1, metadata))
        + END
    )


def test_list_status_and_watch_event() -> None:
    item = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a"}}
    listed = encode_object(
        {
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": "7", "continue": ""},
            "items": [item, item],
        }
    )
    one = encode_delimited(2, encode_delimited(1, b"\x0a\x01a"))
    assert listed.endswith(encode_delimited(2, encode_delimited(1, b"\x12\x017\x1a\x00") + one + one) + END)
    status = encode_object(
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
        b"\x0a\x00\x12\x07Failure\x1a\x01m\x22\x08NotFound\x2a\x08\x0a\x01a\x22\x03\x1a\x01f\x30\x94\x03" + END
    )
    event = encode_watch_event("ADDED", item)
    assert int.from_bytes(event[:4], "big") == len(event) - 4
    assert event[4:] == b"\x0a\x05ADDED" + encode_delimited(2, encode_delimited(1, encode_object(item)))


@given(st.binary(max_size=60))
def test_arbitrary_bytes_decode_to_options_or_raise(data: bytes) -> None:
    with contextlib.suppress(ProtoError):
        assert "kind" in decode_object(ENVELOPE + data)


META = {"name": "a", "namespace": "n", "creationTimestamp": "2024-01-02T03:04:05Z"}
SCHEMA = {
    "type": "object",
    "default": {"a": [1, None, 2.5]},
    "maximum": 5,
    "multipleOf": 0.1,
    "enum": ["a", None, {"b": 1}],
    "properties": {"b": {"type": "string", "maxLength": 3}, "a": {"items": {"type": "integer"}}},
    "additionalProperties": {"type": "string"},
    "additionalItems": False,
    "dependencies": {"x": ["a", "b"], "y": {"type": "object"}},
    "items": [{"type": "string"}, {}],
    "not": {},
    "externalDocs": {"url": "u"},
    "nullable": True,
    "$ref": "#/r",
    "$schema": "s",
    "x-kubernetes-preserve-unknown-fields": True,
    "x-kubernetes-embedded-resource": False,
    "x-kubernetes-int-or-string": True,
    "x-kubernetes-list-map-keys": ["k"],
    "x-kubernetes-list-type": "map",
    "x-kubernetes-map-type": "atomic",
    "x-kubernetes-validations": [{"rule": "self == 1", "optionalOldSelf": True}],
}
ROUND_TRIPS: dict[str, dict[str, Any]] = {
    "config map": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "data": {"a": "ä"},
        "binaryData": {"b": "/wA="},
        "immutable": False,
    },
    "service": {
        "apiVersion": "v1",
        "kind": "Service",
        "spec": {
            "ports": [{"port": 80, "targetPort": "http"}, {"port": 81, "targetPort": 8081}],
            "selector": {"a": "b"},
        },
        "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1", "ports": [{"port": 1, "protocol": "TCP"}]}]}},
    },
    "quota": {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"pods": "10", "cpu": "100m"}}},
    "event": {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "eventTime": "1969-12-31T23:59:59.000001Z",
        "deprecatedFirstTimestamp": None,
        "series": {"count": 2, "lastObservedTime": "0001-01-01T00:00:00.500000Z"},
    },
    "lease": {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "spec": {"renewTime": "2024-01-02T03:04:05.999999Z"},
    },
    "webhooks": {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "webhooks": [
            {
                "name": "w",
                "clientConfig": {"caBundle": "Y2E=", "service": {"name": "s", "namespace": "n", "port": 443}},
                "rules": [{"operations": ["*"], "apiGroups": [""], "resources": ["*"], "scope": "*"}],
            }
        ],
    },
    "policy": {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "spec": {
            "matchConstraints": {
                "resourceRules": [{"resourceNames": ["x"], "operations": ["CREATE"], "apiVersions": ["v1"]}]
            },
            "validations": [{"expression": "true", "messageExpression": "'m'"}],
            "variables": [{"name": "v", "expression": "1"}],
            "matchConditions": [{"name": "c", "expression": "true"}],
        },
    },
    "definition": {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "spec": {
            "group": "g",
            "names": {"plural": "p", "kind": "K", "shortNames": ["s"]},
            "preserveUnknownFields": False,
            "versions": [
                {
                    "name": "v1",
                    "schema": {"openAPIV3Schema": SCHEMA},
                    "subresources": {"status": {}, "scale": {"specReplicasPath": ".a"}},
                    "additionalPrinterColumns": [{"name": "c", "jsonPath": ".a", "priority": 1}],
                    "selectableFields": [{"jsonPath": ".b"}],
                }
            ],
        },
    },
    "older definition": {
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "kind": "CustomResourceDefinition",
        "spec": {"additionalPrinterColumns": [{"JSONPath": ".a"}], "validation": {"openAPIV3Schema": {"items": {}}}},
    },
    "migration": {
        "apiVersion": "storagemigration.k8s.io/v1beta1",
        "kind": "StorageVersionMigration",
        "spec": {"resource": {"group": "g", "resource": "r"}},
        "status": {"conditions": [{"type": "Running", "status": "True", "observedGeneration": 1}]},
    },
    "review": {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"extra": {"k": ["a", "b"]}, "resourceAttributes": {"labelSelector": {"requirements": [{"key": "k"}]}}},
    },
    "resources": {
        "apiVersion": "v1",
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [
            {"name": "a", "singularName": "", "namespaced": True, "verbs": ["get"], "storageVersionHash": "h"}
        ],
    },
    "API service": {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "spec": {"service": {"name": "n", "port": 443}, "groupPriorityMinimum": 100, "caBundle": "YQ=="},
    },
    "1.37's migration": {"apiVersion": "storagemigration.k8s.io/v1", "kind": "StorageVersionMigration", "spec": {}},
}


@pytest.mark.parametrize("obj", ROUND_TRIPS.values(), ids=ROUND_TRIPS.keys())
def test_round_trip(obj: dict[str, Any]) -> None:
    whole = {**obj, "metadata": META} if not obj["kind"].startswith("API") else obj
    expected = {name: value for name, value in whole.items() if value is not None}
    assert decode_object(encode_object(whole)) == expected


def test_a_list_is_encoded_in_chunks() -> None:
    head = {"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "7"}}
    items = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} for name in "ab"]
    pieces = [encode_list_item(head, item) for item in items]
    beginning, ending = encode_list(head, sum(map(len, pieces)))
    assert beginning + b"".join(pieces) + ending == encode_object({**head, "items": items})


@pytest.mark.parametrize(
    "version, fields",
    [pytest.param("v1", (1, 2), id="v1"), pytest.param("v1beta1", (2, 1), id="v1beta1 has other numbers")],
)
def test_partial_list(version: str, fields: tuple[int, int]) -> None:
    head = {"apiVersion": f"meta.k8s.io/{version}", "kind": "PartialObjectMetadataList", "metadata": {"continue": "c"}}
    item = {"apiVersion": f"meta.k8s.io/{version}", "kind": "PartialObjectMetadata", "metadata": {"name": "a"}}
    piece = encode_list_item(head, item)
    assert piece == encode_delimited(fields[1], encode_delimited(1, b"\x0a\x01a"))
    beginning, _ = encode_list(head, len(piece))
    assert beginning.endswith(encode_delimited(fields[0], b"\x1a\x01c"))


def in_envelope(version: bytes, kind: bytes, raw: bytes) -> bytes:
    types = encode_delimited(1, version) + encode_delimited(2, kind)
    return b"k8s\x00" + encode_delimited(1, types) + encode_delimited(2, raw)


@pytest.mark.parametrize(
    "raw, expected",
    [
        pytest.param(b"", {}, id="empty"),
        pytest.param(b"\x0a\x02\x42\x00", {"metadata": {"creationTimestamp": None}}, id="an empty time is none"),
        pytest.param(
            b"\x0a\x04\x42\x02\x08\x00", {"metadata": {"creationTimestamp": "1970-01-01T00:00:00Z"}}, id="1970"
        ),
        pytest.param(b"\x0a\x03\x0a\x01\xff", {"metadata": {"name": "\ufffd"}}, id="not UTF-8"),
        pytest.param(b"\x12\x00", {"data": {"": ""}}, id="an empty entry"),
    ],
)
def test_messages_of_clients_are_decoded(raw: bytes, expected: dict[str, Any]) -> None:
    assert decode_object(in_envelope(b"v1", b"ConfigMap", raw)) == {"apiVersion": "v1", "kind": "ConfigMap"} | expected


def test_a_body_may_omit_its_kind() -> None:
    assert decode_object(in_envelope(b"", b"", b"\x12\x06\x0a\x01a\x12\x01b"), "v1", "ConfigMap") == {
        "data": {"a": "b"}
    }


SCHEMA_PATH = (2, 7, 4, 1)


def nested(depth: int) -> bytes:
    """A definition with a schema of `not` in `not`."""
    raw = b""
    for _ in range(depth):
        raw = encode_delimited(28, raw)
    for number in reversed(SCHEMA_PATH):
        raw = encode_delimited(number, raw)
    return in_envelope(b"apiextensions.k8s.io/v1", b"CustomResourceDefinition", raw)


@pytest.mark.parametrize(
    "data, error, message",
    [
        pytest.param(b"", ProtoError, "empty data", id="no data"),
        pytest.param(b"k8s\x00", ProtoError, "empty body", id="nothing but the prefix"),
        pytest.param(
            in_envelope(b"v1", b"Pod", b""), UnknownKind, 'no kind "Pod" is registered for version "v1"', id="kind"
        ),
        pytest.param(in_envelope(b"v1", b"Secret", b"\x0b"), MessageError, "proto: cannot parse", id="cut message"),
        pytest.param(
            in_envelope(b"v1", b"ConfigMap", b"\x12\x03\x0a\x01\xff"),
            MessageError,
            "proto: a key is not UTF-8",
            id="key",
        ),
        pytest.param(nested(1000), MessageError, "proto: nested too deeply", id="deep"),
        pytest.param(
            in_envelope(b"v1", b"ConfigMap", b"\x0a\x0c\x42\x0a\x08" + varint(1 << 62)[:8] + b"\x01"),
            MessageError,
            "proto: time out of range",
            id="an invalid year",
        ),
        pytest.param(
            in_envelope(b"v1", b"ConfigMap", encode_delimited(1, encode_delimited(17, b"\x3a\x03\x0a\x01{"))),
            MessageError,
            "unexpected end of JSON input",
            id="invalid JSON",
        ),
    ],
)
def test_refused(data: bytes, error: type[ProtoError], message: str) -> None:
    with pytest.raises(error) as caught:
        decode_object(data)
    assert str(caught.value).startswith(message)


def test_a_deep_schema_can_be_read_and_written() -> None:
    obj = decode_object(nested(40))
    assert decode_object(encode_object(obj)) == obj


@given(st.binary(max_size=80))
def test_arbitrary_bytes_decode_to_a_definition_or_raise(data: bytes) -> None:
    with contextlib.suppress(ProtoError):
        obj = decode_object(in_envelope(b"apiextensions.k8s.io/v1", b"CustomResourceDefinition", data))
        assert obj["kind"] == "CustomResourceDefinition"
