"""Decoding of ObjectMeta: types, unknown fields, what empty fields become."""

from typing import Any

import pytest

from registry.codec.structs.base import StructDecodeError
from registry.schema.objectmeta.decoding import decode_object_meta

OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
ENTRY = {
    "manager": "m",
    "operation": "Update",
    "apiVersion": "v1",
    "time": "2024-01-02T03:04:05Z",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:spec": {}},
}


def test_valid_metadata_is_returned_unchanged() -> None:
    meta = {
        "name": "a",
        "namespace": "n",
        "uid": "u",
        "resourceVersion": "1",
        "generation": 2,
        "labels": {"a": ""},
        "annotations": {"b": "c"},
        "creationTimestamp": "2024-01-02T03:04:05Z",
        "finalizers": ["x/y"],
        "deletionGracePeriodSeconds": 0,
        "ownerReferences": [{**OWNER, "controller": False}],
        "managedFields": [ENTRY],
    }
    assert decode_object_meta(meta, unknown=None) is meta


def test_fields_are_decoded_to_any_depth() -> None:
    fields: Any = {}
    for _ in range(5000):
        fields = {"f:a": fields}
    entry = decode_object_meta({"managedFields": [{"fieldsV1": fields}], "name": ""}, unknown=None)["managedFields"][0]
    assert entry["fieldsV1"] is fields


@pytest.mark.parametrize(
    "meta, expected, unknown",
    [
        pytest.param(None, {}, [], id="null"),
        pytest.param({"name": None, "labels": None, "generation": None, "creationTimestamp": None}, {}, [], id="nulls"),
        pytest.param(
            {"name": "", "labels": {}, "finalizers": [], "ownerReferences": [], "generation": 0},
            {},
            [],
            id="empty fields",
        ),
        pytest.param({"labels": {"a": None, "b": "x"}}, {"labels": {"a": "", "b": "x"}}, [], id="null label"),
        pytest.param({"finalizers": [None]}, {"finalizers": [""]}, [], id="null finalizer"),
        pytest.param({"z": 1, "Name": "a", "name": "b"}, {"name": "b"}, ["metadata.Name", "metadata.z"], id="unknown"),
        pytest.param(
            {"ownerReferences": [{**OWNER, "controller": None, "namespace": "x"}, None, {"kind": "K"}]},
            {
                "ownerReferences": [
                    OWNER,
                    {"apiVersion": "", "kind": "", "name": "", "uid": ""},
                    {"apiVersion": "", "kind": "K", "name": "", "uid": ""},
                ]
            },
            ["metadata.ownerReferences[0].namespace"],
            id="owners",
        ),
        pytest.param(
            {"managedFields": [{**ENTRY, "subresource": "", "x": 1}, {}]},
            {"managedFields": [ENTRY, {}]},
            ["metadata.managedFields[0].x"],
            id="managed fields",
        ),
        pytest.param(
            {"creationTimestamp": "2024-01-02T03:04:05.9+02:00"},
            {"creationTimestamp": "2024-01-02T01:04:05Z"},
            [],
            id="times become UTC",
        ),
        pytest.param({"creationTimestamp": "0001-01-01T00:00:00Z"}, {}, [], id="the zero time"),
        pytest.param(
            {"generation": 3.0, "deletionGracePeriodSeconds": 0.0},
            {"generation": 3, "deletionGracePeriodSeconds": 0},
            [],
            id="integral floats",
        ),
    ],
)
def test_decode(meta: Any, expected: dict[str, Any], unknown: list[str]) -> None:
    paths: list[str] = []
    decoded = decode_object_meta(meta, unknown=paths)
    assert (decoded, paths) == (expected, unknown)
    assert decode_object_meta(decoded, unknown=paths) == expected


FIELD = "json: cannot unmarshal {} into Go struct field {} of type {}"


@pytest.mark.parametrize(
    "meta, text",
    [
        ([], "json: cannot unmarshal array into Go value of type v1.ObjectMeta"),
        (True, "json: cannot unmarshal bool into Go value of type v1.ObjectMeta"),
        ({"name": 5}, FIELD.format("number", "ObjectMeta.name", "string")),
        ({"uid": 5}, FIELD.format("number", "ObjectMeta.uid", "types.UID")),
        ({"generation": "1"}, FIELD.format("string", "ObjectMeta.generation", "int64")),
        ({"generation": 1.5}, FIELD.format("number 1.5", "ObjectMeta.generation", "int64")),
        ({"generation": 1e21}, FIELD.format("number 1e+21", "ObjectMeta.generation", "int64")),
        ({"labels": {"a": True}}, FIELD.format("bool", "ObjectMeta.labels", "string")),
        ({"labels": []}, FIELD.format("array", "ObjectMeta.labels", "map[string]string")),
        ({"finalizers": "x"}, FIELD.format("string", "ObjectMeta.finalizers", "[]string")),
        ({"finalizers": [1]}, FIELD.format("number", "ObjectMeta.finalizers", "string")),
        ({"ownerReferences": {}}, FIELD.format("object", "ObjectMeta.ownerReferences", "[]v1.OwnerReference")),
        ({"ownerReferences": ["x"]}, FIELD.format("string", "ObjectMeta.ownerReferences", "v1.OwnerReference")),
        (
            {"ownerReferences": [{"controller": "x"}]},
            FIELD.format("string", "OwnerReference.ownerReferences.controller", "bool"),
        ),
        (
            {"managedFields": [{"manager": 1}]},
            FIELD.format("number", "ManagedFieldsEntry.managedFields.manager", "string"),
        ),
        ({"creationTimestamp": 5}, FIELD.format("number", "ObjectMeta.creationTimestamp", "string")),
        (
            {"creationTimestamp": "noon"},
            'parsing time "noon" as "2006-01-02T15:04:05Z07:00": cannot parse "noon" as "2006"',
        ),
        ({"annotations": 1, "name": 2}, FIELD.format("number", "ObjectMeta.annotations", "map[string]string")),
        (
            {"annotations": 1, "creationTimestamp": ""},
            'parsing time "" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006"',
        ),
    ],
)
def test_wrong_types(meta: Any, text: str) -> None:
    with pytest.raises(StructDecodeError) as caught:
        decode_object_meta(meta, unknown=None)
    assert str(caught.value) == text


def test_unknown_fields_are_listed_up_to_a_hundred() -> None:
    unknown: list[str] = []
    assert decode_object_meta({f"x{n}": 1 for n in range(500)}, unknown=unknown) == {}
    assert len(unknown) == 100
