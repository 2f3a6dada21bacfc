from __future__ import annotations

import json
from typing import Any

import pytest

from registry.codec.model import Repeated
from registry.codec.structs.structs import MAX_JSON_DEPTH
from registry.definitions.decode import StructDecodeError, canonical, decode_definition, without_empty_fields
from tests.definitions.crds import crd, version

SCHEMA = "JSONSchemaProps.spec.versions.schema.openAPIV3Schema"


@pytest.mark.parametrize(
    "body, text",
    [
        pytest.param(
            {"metadata": "x"},
            "string into Go struct field CustomResourceDefinition.metadata of type v1.ObjectMeta",
            id="metadata",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": 1}}},
            "number into Go struct field ObjectMeta.metadata.labels of type string",
            id="label",
        ),
        pytest.param(
            {"metadata": {"ownerReferences": [{"controller": "x"}]}},
            "string into Go struct field OwnerReference.metadata.ownerReferences.controller of type bool",
            id="owner",
        ),
        pytest.param(
            {"spec": []},
            "array into Go struct field CustomResourceDefinition.spec of type v1.CustomResourceDefinitionSpec",
            id="spec",
        ),
        pytest.param(
            {"spec": {"scope": 1}},
            "number into Go struct field CustomResourceDefinitionSpec.spec.scope of type v1.ResourceScope",
            id="named type",
        ),
        pytest.param(
            {"spec": {"versions": [{"served": "true"}]}},
            "string into Go struct field CustomResourceDefinitionVersion.spec.versions.served of type bool",
            id="field in a list",
        ),
        pytest.param(
            {"spec": {"versions": [{"additionalPrinterColumns": [{"priority": 1.5}]}]}},
            "number 1.5 into Go struct field CustomResourceColumnDefinition.spec.versions."
            "additionalPrinterColumns.priority of type int32",
            id="fraction",
        ),
        pytest.param(
            crd({"properties": {"a": {"maxLength": 2**63}}}),
            f"number 9223372036854775808 into Go struct field {SCHEMA}.properties.maxLength of type int64",
            id="too large",
        ),
        pytest.param(
            crd({"properties": []}),
            f"array into Go struct field {SCHEMA}.properties of type map[string]v1.JSONSchemaProps",
            id="map",
        ),
        pytest.param(
            crd({"properties": {"a": {"maxLength": 2.0**63}}}),
            f"number 9223372036854775808 into Go struct field {SCHEMA}.properties.maxLength of type int64",
            id="too large, as a float",
        ),
        pytest.param(
            crd({"items": {"minLength": "x"}}),
            f"string into Go struct field {SCHEMA}.items.minLength of type int64",
            id="below items",
        ),
        pytest.param(
            crd({"items": {"x-kubernetes-validations": [{"rule": 1}]}}),
            f"number into Go struct field {SCHEMA}.items.x-kubernetes-validations.rule of type string",
            id="a struct below items",
        ),
        pytest.param(
            crd({"x-kubernetes-validations": [{"rule": 1}]}),
            "number into Go struct field ValidationRule.spec.versions.schema.openAPIV3Schema."
            "x-kubernetes-validations.rule of type string",
            id="rule",
        ),
        pytest.param(
            crd({"properties": {"a": {"definitions": "x"}}}),
            "string into Go struct field JSONSchemaProps.spec.versions.schema.openAPIV3Schema.properties.definitions of type "
            "v1.JSONSchemaDefinitions",
            id="a named map",
        ),
        pytest.param(
            {"spec": {"versions": True}},
            "bool into Go struct field CustomResourceDefinitionSpec.spec.versions "
            "of "
            "type []v1.CustomResourceDefinitionVersion",
            id="bool",
        ),
        pytest.param([], "array into Go value of type v1.CustomResourceDefinition", id="whole"),
    ],
)
def test_wrong_type(body: object, text: str) -> None:
    with pytest.raises(StructDecodeError) as caught:
        decode_definition(body)
    assert str(caught.value) == f"json: cannot unmarshal {text}"


@pytest.mark.parametrize(
    "body, text",
    [
        pytest.param(
            crd({"additionalProperties": "x"}), "boolean or JSON schema expected", id="neither schema nor bool"
        ),
        pytest.param(
            crd(conversion={"webhook": {"clientConfig": {"caBundle": "ab!d"}}}),
            "illegal base64 data at input byte 2",
            id="not base64",
        ),
        pytest.param(
            crd(metadata={"creationTimestamp": "noon"}),
            'parsing time "noon" as "2006-01-02T15:04:05Z07:00": cannot parse "noon" as "2006"',
            id="no time",
        ),
    ],
)
def test_refused_by_a_decoder_of_its_own(body: object, text: str) -> None:
    with pytest.raises(StructDecodeError) as caught:
        decode_definition(body)
    assert str(caught.value) == text


def test_the_first_error_in_the_document_is_reported() -> None:
    with pytest.raises(StructDecodeError, match=r"of type v1\.ResourceScope"):
        decode_definition({"spec": {"scope": 1, "group": 2}})


def test_unknown_fields_in_document_order_with_nothing_below_items() -> None:
    body = {
        "x": 1,
        "metadata": {"foo": 1},
        "spec": {
            "versions": [
                {
                    "schema": {
                        "openAPIV3Schema": {
                            "const": 1,
                            "properties": {
                                "a.b": {"huh": 1, "items": {"hidden": 1}, "additionalProperties": {"hidden": 1}}
                            },
                            "not": {"shown": 1},
                        }
                    },
                    "SERVED": True,
                }
            ],
            "Scope": "x",
        },
    }
    schema = "spec.versions[0].schema.openAPIV3Schema"
    assert decode_definition(body).unknown == [
        "x",
        "metadata.foo",
        f"{schema}.const",
        f"{schema}.properties.a.b.huh",
        f"{schema}.not.shown",
        "spec.versions[0].SERVED",
        "spec.Scope",
    ]


@pytest.mark.parametrize("body", [pytest.param(None, id="null"), pytest.param({}, id="empty")])
def test_null_is_an_empty_definition(body: object) -> None:
    assert canonical(decode_definition(body).value) == {
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {},
        "spec": {"group": "", "names": {"plural": "", "kind": ""}, "scope": "", "versions": None},
        "status": {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": None},
    }


@pytest.mark.parametrize(
    "given, stored",
    [
        pytest.param({"type": "", "title": "", "nullable": False}, {}, id="zero values"),
        pytest.param({"enum": [], "required": [], "allOf": [], "properties": {}}, {}, id="empty lists and maps"),
        pytest.param({"default": None, "example": None, "enum": [None]}, {"enum": [None]}, id="nulls"),
        pytest.param({"default": False, "example": ""}, {"default": False, "example": ""}, id="a default of false"),
        pytest.param({"maxLength": 0, "minimum": 0}, {"minimum": 0, "maxLength": 0}, id="pointers to zero"),
        pytest.param(
            {"x-kubernetes-preserve-unknown-fields": False},
            {"x-kubernetes-preserve-unknown-fields": False},
            id="pointer to false",
        ),
        pytest.param(
            {"minimum": 1.0, "multipleOf": 0.5, "default": {"a": [2.0]}},
            {"default": {"a": [2]}, "minimum": 1, "multipleOf": 0.5},
            id="whole numbers",
        ),
        pytest.param({"minimum": 2.0**63}, {"minimum": 9223372036854776000}, id="digits as Go writes them"),
        pytest.param({"properties": {"b": {}, "a": None}}, {"properties": {"a": {}, "b": {}}}, id="properties sorted"),
        pytest.param(
            {"additionalProperties": False, "items": []}, {"additionalProperties": False}, id="schema or other"
        ),
        pytest.param(
            {"additionalProperties": {"type": "string"}}, {"additionalProperties": {"type": "string"}}, id="schema"
        ),
        pytest.param(
            {"x-kubernetes-validations": [None, {"rule": "a", "reason": ""}]},
            {"x-kubernetes-validations": [{"rule": ""}, {"rule": "a", "reason": ""}]},
            id="rules",
        ),
    ],
)
def test_canonical_schema(given: dict[str, Any], stored: dict[str, Any]) -> None:
    found = canonical(decode_definition(crd(given)).value)
    schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert repr(schema) == repr(stored)  # 1 is not 1.0, and the order is that of the struct
    assert canonical(decode_definition(found).value) == found


@pytest.mark.parametrize(
    "given, stored",
    [
        pytest.param({"strategy": "None", "webhook": {}}, {"strategy": "None"}, id="empty webhook goes"),
        pytest.param(
            {"strategy": "None", "webhook": {"conversionReviewVersions": []}},
            {"strategy": "None", "webhook": {"conversionReviewVersions": []}},
            id="empty list stays",
        ),
        pytest.param(
            {"strategy": "Webhook", "webhook": {"clientConfig": {"caBundle": ""}}},
            {"strategy": "Webhook", "webhook": {"clientConfig": {}, "conversionReviewVersions": None}},
            id="empty bundle goes",
        ),
    ],
)
def test_canonical_conversion(given: dict[str, Any], stored: dict[str, Any]) -> None:
    assert canonical(decode_definition(crd(conversion=given)).value)["spec"]["conversion"] == stored


def test_times_are_in_utc_and_whole_seconds() -> None:
    body = crd()
    body["status"] = {"conditions": [{"type": "X", "lastTransitionTime": "2024-01-01T02:00:00.5+02:00"}, {}]}
    conditions = canonical(decode_definition(body).value)["status"]["conditions"]
    assert conditions == [
        {"type": "X", "status": "", "lastTransitionTime": "2024-01-01T00:00:00Z"},
        {"type": "", "status": "", "lastTransitionTime": None},
    ]


def test_the_body_is_not_changed() -> None:
    body = crd({"default": {"a": 1.0}}, versions=[version(schema={"properties": {"b": {}, "a": {}}})])
    before = repr(body)
    definition = decode_definition(body).value
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["a"]["type"] = "string"
    assert repr(body) == before


@pytest.mark.parametrize("word", ["items", "not", "properties", "default"])
def test_depth_is_bounded(word: str) -> None:
    schema: dict[str, Any] = {}
    for _ in range(10_000):
        schema = {word: {"a": schema} if word == "properties" else schema}
    with pytest.raises(StructDecodeError, match="exceeded max depth"):
        decode_definition(crd(schema))


@pytest.mark.parametrize("word", ["items", "not"])
def test_the_maximum_depth_is_decoded_and_encoded(word: str) -> None:
    schema: dict[str, Any] = {}
    for _ in range(MAX_JSON_DEPTH - 6):
        schema = {word: schema}
    definition = decode_definition(crd(schema)).value
    assert canonical(definition)["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == schema


@pytest.mark.parametrize(
    "field",
    [
        pytest.param({"description": ""}, id="text"),
        pytest.param({"nullable": False}, id="boolean"),
        pytest.param({"x-kubernetes-preserve-unknown-fields": False}, id="pointer to a boolean"),
        pytest.param({"minimum": 0, "maxLength": 0, "multipleOf": -0.0}, id="numbers"),
        pytest.param({"required": []}, id="list"),
        pytest.param({"properties": {}, "definitions": {}}, id="maps"),
        pytest.param({"items": []}, id="items"),
        pytest.param({"items": [{"title": ""}, {}]}, id="items in a list"),
        pytest.param({"not": {}, "externalDocs": {"url": ""}}, id="structs"),
        pytest.param({"x-kubernetes-validations": [{"message": "a"}, {"rule": "self", "reason": ""}]}, id="rules"),
        pytest.param({"default": "", "example": {}, "enum": ["", None, [], False]}, id="any JSON"),
        pytest.param({"default": False, "nullable": False}, id="default and field"),
        pytest.param({"default": {"default": False}, "nullable": False}, id="default within a default"),
        pytest.param({"enum": [{"default": ""}], "title": ""}, id="default within a value"),
        pytest.param({"description": '":"",":false'}, id="text that looks like it"),
        pytest.param({"default": 2**64, "title": ""}, id="not JSON of orjson's"),
        pytest.param({"properties": {"default": {}}, "dependencies": {"default": []}}, id="fields named default"),
        pytest.param({"additionalProperties": False, "dependencies": {"a": [], "b": {"title": ""}}}, id="unions"),
    ],
)
def test_without_empty_fields(field: dict[str, Any]) -> None:
    for schema in (field, {"properties": {"spec": field, "status": {"type": "object"}}}, {"items": field}):
        body = crd(versions=[version("v1", schema), version("v2", {"type": "object"}), version("v3") | {"schema": {}}])
        decoded = decode_definition(body).value
        assert without_empty_fields(decoded) == canonical(decoded)


def test_repeated_fields_within_items_are_dropped_silently() -> None:
    """kube-apiserver decodes items by a decoder of their own, which keeps the last member."""
    repeated = Repeated([("title", "a"), ("maxLength", None), ("title", "b")])
    for items in (repeated, {"not": repeated}, {"items": [repeated]}, {"additionalProperties": {"items": repeated}}):
        last = json.loads(json.dumps(items))
        decoded = decode_definition(crd({"type": "array", "items": items}))
        assert decoded == decode_definition(crd({"type": "array", "items": last}))
        assert decoded.unknown == []
    assert decode_definition(crd({"not": repeated})).unknown == ["spec.versions[0].schema.openAPIV3Schema.not.title"]
