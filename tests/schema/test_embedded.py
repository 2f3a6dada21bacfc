"""Objects inside of objects."""

import json
from typing import Any

import pytest

from registry.codec.structs.base import StructDecodeError
from registry.schema.embedded import EmbeddedResources
from registry.schema.model import from_json

EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
RESOURCES = EmbeddedResources(
    from_json(
        {
            "type": "object",
            "properties": {
                "t": EMBEDDED,
                "l": {"type": "array", "items": EMBEDDED},
                "m": {"type": "object", "additionalProperties": EMBEDDED},
                "o": {"type": "object", "properties": {"a": {"type": "string"}}},
                "d": {**EMBEDDED, "properties": {"inner": EMBEDDED}},
            },
        }
    )
)


@pytest.mark.parametrize(
    "obj, expected, unknown",
    [
        pytest.param(
            {"t": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "a", "labels": {}}}},
            {"t": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "a"}}},
            [],
            id="empty labels go",
        ),
        pytest.param(
            {"t": {"metadata": {"colour": "red"}}}, {"t": {"metadata": {}}}, ["t.metadata.colour"], id="unknown"
        ),
        pytest.param({"t": {"metadata": None}}, {"t": {"metadata": {}}}, [], id="null metadata"),
        pytest.param(
            {"m": {"k": {"metadata": {"x": 1}}}, "l": [{}, {"metadata": {"x": 1}}]},
            {"m": {"k": {"metadata": {}}}, "l": [{}, {"metadata": {}}]},
            ["l[1].metadata.x", "m[k].metadata.x"],
            id="in lists and maps",
        ),
        pytest.param(
            {"d": {"inner": {"metadata": {"x": 1}}}},
            {"d": {"inner": {"metadata": {}}}},
            ["d.inner.metadata.x"],
            id="in an embedded one",
        ),
        pytest.param(
            {"t": "text", "o": {"metadata": {"x": 1}}},
            {"t": "text", "o": {"metadata": {"x": 1}}},
            [],
            id="nothing to do",
        ),
    ],
)
def test_coerce(obj: dict[str, Any], expected: dict[str, Any], unknown: list[str]) -> None:
    obj = json.loads(json.dumps(obj))
    paths: list[str] = []
    RESOURCES.coerce(obj, paths)
    assert (obj, paths) == (expected, unknown)


@pytest.mark.parametrize(
    "obj, text",
    [
        ({"t": {"kind": 3}}, "t.kind: Invalid value: 3: must be a string"),
        ({"t": {"apiVersion": None}}, "t.apiVersion: Invalid value: null: must be a string"),
        ({"m": {"one": {"kind": []}}}, "m[one].kind: Invalid value: []: must be a string"),
        (
            {"l": [{"metadata": "x"}]},
            'l[0].metadata: Invalid value: "x": json: cannot unmarshal string into Go value of type v1.ObjectMeta',
        ),
        (
            {"t": {"metadata": {"labels": ["a"]}}},
            't.metadata: Invalid value: {"labels":["a"]}: json: cannot unmarshal array into Go struct field '
            "ObjectMeta.labels of type map[string]string",
        ),
    ],
)
def test_metadata_that_cannot_be_decoded_is_an_error(obj: dict[str, Any], text: str) -> None:
    with pytest.raises(StructDecodeError) as caught:
        RESOURCES.coerce(obj, None)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    "obj, errors",
    [
        ({}, []),
        ({"t": {"apiVersion": "v1", "kind": "Pod"}}, []),
        ({"t": {}}, ["t.apiVersion: Required value", "t.kind: Required value"]),
        ({"l": [{"kind": "Pod"}]}, ["l[0].apiVersion: Required value"]),
        ({"m": {"a b": {"apiVersion": "v1"}}}, ["m[a b].kind: Required value"]),
        (
            {"t": {"apiVersion": "", "kind": ""}},
            ['t.apiVersion: Invalid value: "": must not be empty', 't.kind: Invalid value: "": must not be empty'],
        ),
        (
            {"t": {"apiVersion": "a/b/c", "kind": "K"}},
            ['t.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c'],
        ),
        (
            {"t": {"apiVersion": "v1", "kind": "K" * 64}},
            [
                f't.kind: Invalid value: "{"K" * 64}": may have mixed case, but should otherwise match: '
                "must be no more than 63 characters"
            ],
        ),
        (
            {"t": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a/b", "namespace": "x"}}},
            ["t.metadata.name: Invalid value: \"a/b\": may not contain '/'"],
        ),
        ({"t": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "Any_Name"}}}, []),
        (
            {"t": {"apiVersion": 1, "kind": "Pod", "metadata": 1}},
            [
                "t.apiVersion: Invalid value: 1: must be a string",
                "t.metadata: Invalid value: 1: json: cannot unmarshal number into Go value of type v1.ObjectMeta",
            ],
        ),
    ],
)
def test_validate(obj: dict[str, Any], errors: list[str]) -> None:
    assert [error.message() for error in RESOURCES.validate(obj)] == errors
