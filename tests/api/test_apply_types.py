"""What applies of wrong types answer: the type of the kind refuses what it declares, and metadata is read field by field."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import APPLY, Client
from tests.api.errors import failure
from tests.api.widgets import DEFINITIONS, WIDGETS, define, definition, make, widget
from tests.application import shares_application, shares_tenant

pytestmark = [shares_application, shares_tenant]

APPLIED = "?fieldManager=me&force=true"
TYPED = "failed to create typed patch object"


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        (True, ": expected list, got &{true}"),
        (["x"], "[0]: expected map, got &{x}"),
        ([{"manager": 7}], "[0].manager: expected string, got &value.valueUnstructured{Value:7}"),
        ([{"time": []}], "[0].time: expected any scalar, got &{[]}"),
    ],
    ids=["a boolean", "a text in the list", "a number as manager", "a list as time"],
)
async def test_managed_fields_that_cannot_be_read_are_refused_by_their_type(
    api: Client, entries: Any, why: str
) -> None:
    [made] = await make(api, "a")
    body = {"apiVersion": made["apiVersion"], "kind": made["kind"], "metadata": {"managedFields": entries}}
    refused = failure(await api.patch(f"{WIDGETS}/a{APPLIED}", body, APPLY), 500, "")
    assert refused["message"].endswith(f"{TYPED} (/; test.example.com/v1, Kind=Widget): .metadata.managedFields{why}")


@pytest.mark.parametrize("entries", [[None], [{"time": "x"}], [{"time": 7}], None], ids=str)
async def test_managed_fields_that_only_the_type_accepts_are_ignored(api: Client, entries: Any) -> None:
    [made] = await make(api, "a")
    body = {"apiVersion": made["apiVersion"], "kind": made["kind"], "metadata": {"managedFields": entries}}
    assert (await api.patch(f"{WIDGETS}/a{APPLIED}", body, APPLY)).ok() == made


@pytest.mark.parametrize("entries", [[], [{}], [{"manager": "me", "time": "2026-01-01T00:00:00Z"}]], ids=str)
async def test_managed_fields_may_not_be_applied(api: Client, entries: Any) -> None:
    [made] = await make(api, "a")
    body = {"apiVersion": made["apiVersion"], "kind": made["kind"], "metadata": {"managedFields": entries}}
    refused = failure(await api.patch(f"{WIDGETS}/a{APPLIED}", body, APPLY), 400, "BadRequest")
    assert refused["message"] == "metadata.managedFields must be nil"


@pytest.mark.parametrize(
    ("field", "value"),
    [("creationTimestamp", 7), ("creationTimestamp", "x"), ("deletionTimestamp", True), ("generation", 1.5)],
)
async def test_metadata_of_the_server_with_another_type_is_ignored(api: Client, field: str, value: Any) -> None:
    [made] = await make(api, "a")
    body = {"apiVersion": made["apiVersion"], "kind": made["kind"], "metadata": {field: value}}
    applied = (await api.patch(f"{WIDGETS}/a{APPLIED}", body, APPLY)).ok()["metadata"]
    changed = {name for name in {*applied, *made["metadata"]} if applied.get(name) != made["metadata"].get(name)}
    assert changed <= {"managedFields", "resourceVersion"}
    body["metadata"]["name"] = "b"
    created = (await api.patch(f"{WIDGETS}/b{APPLIED}", body, APPLY)).ok(201)["metadata"]
    assert "deletionTimestamp" not in created
    assert created["generation"] == 1


async def test_an_applied_null_as_status_is_not_stored(api: Client) -> None:
    [made] = await make(api, "a")
    body = {"apiVersion": made["apiVersion"], "kind": made["kind"], "status": None}
    assert "status" not in (await api.patch(f"{WIDGETS}/a/status{APPLIED}", body, APPLY)).ok()
    assert "status" not in (await api.get(f"{WIDGETS}/a")).ok()


async def test_applied_nulls_in_embedded_metadata_are_decoded(api: Client) -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"pod": embedded}}}}
    await define(api, definition("holders", "Holder", schema=schema))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": None, "labels": {"a": None}}}
    holder = {"apiVersion": "test.example.com/v1", "kind": "Holder", "metadata": {"name": "a"}, "spec": {"pod": pod}}
    path = "/apis/test.example.com/v1/namespaces/default/holders/a"
    applied = (await api.patch(path + APPLIED, holder, APPLY)).ok(201)
    assert applied["spec"]["pod"] == {**pod, "metadata": {"labels": {"a": ""}}}


@pytest.mark.parametrize(
    "where",
    [
        (),
        ("schema",),
        ("schema", "openAPIV3Schema"),
        ("schema", "openAPIV3Schema", "properties", "spec"),
        ("subresources",),
    ],
    ids=".".join,
)
async def test_a_definition_with_an_unknown_field_is_not_applied(api: Client, where: tuple[str, ...]) -> None:
    applied = definition("things", "Thing")
    version = applied["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"]["properties"] = {"spec": {"type": "object"}}
    place = version
    for name in where:
        place = place.setdefault(name, {})
    place["colour"] = "red"
    name = applied["metadata"]["name"]
    refused = failure(await api.patch(f"{DEFINITIONS}/{name}{APPLIED}", applied, APPLY), 500, "")
    path = ".".join(["spec.versions[0]", *where, "colour"])
    who = f"(/{name}; apiextensions.k8s.io/v1, Kind=CustomResourceDefinition)"
    assert refused["message"] == f"{TYPED} {who}: .{path}: field not declared in schema"


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ({"type": 7}, ".type: expected string, got &value.valueUnstructured{Value:7}"),
        ({"maximum": "5"}, ".maximum: expected numeric (int or float), got string"),
        ({"nullable": "no"}, ".nullable: expected boolean, got &{no}"),
        ({"required": "a"}, ".required: expected list, got &{a}"),
        (
            {"x-kubernetes-validations": [{"rule": "true"}, {"rule": "true"}]},
            '.x-kubernetes-validations: duplicate entries for key [rule="true"]',
        ),
        (
            {"x-kubernetes-validations": [{"message": "a"}, {}]},
            '.x-kubernetes-validations: duplicate entries for key [rule=""]',
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
async def test_a_definition_with_a_wrong_type_in_its_schema_is_not_applied(
    api: Client, part: dict[str, Any], why: str
) -> None:
    applied = definition("things", "Thing")
    applied["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] = {"spec": {"type": "object", **part}}
    answer = await api.patch(f"{DEFINITIONS}/{applied['metadata']['name']}{APPLIED}", applied, APPLY)
    message = failure(answer, 500, "")["message"]
    assert message.endswith(f".spec.versions[0].schema.openAPIV3Schema.properties.spec{why}")


async def test_a_rule_without_its_expression_is_refused_by_validation(api: Client) -> None:
    applied = definition("things", "Thing")
    applied["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = [{}]
    answer = await api.patch(f"{DEFINITIONS}/{applied['metadata']['name']}{APPLIED}", applied, APPLY)
    assert "rule is not specified" in failure(answer, 422, "Invalid")["message"]


async def test_a_struct_without_fields_takes_any_member(api: Client) -> None:
    applied = definition("things", "Thing")
    applied["spec"]["versions"][0]["subresources"] = {"status": {"a": {"b": [1]}}}
    made = (await api.patch(f"{DEFINITIONS}/{applied['metadata']['name']}{APPLIED}", applied, APPLY)).ok(201)
    assert made["spec"]["versions"][0]["subresources"] == {"status": {}}


async def test_any_value_may_be_applied_where_a_schema_takes_any(api: Client) -> None:
    applied = definition("values", "Value")
    spec = {
        "type": "object",
        "default": {"a": [1]},
        "properties": {
            "a": {"type": "array", "items": {"type": "integer"}},
            "b": {"type": "object", "additionalProperties": {"type": "string", "enum": ["x", "y"]}},
            "c": {"type": "object", "additionalProperties": True},
        },
    }
    applied["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] = {"spec": spec}
    (await api.patch(f"{DEFINITIONS}/{applied['metadata']['name']}{APPLIED}", applied, APPLY)).ok(201)


async def test_an_odd_version_hides_the_kind(api: Client) -> None:
    body = {**widget("a"), "apiVersion": "a/b/c"}
    refused = failure(await api.patch(f"{WIDGETS}/a{APPLIED}", body, APPLY), 400, "BadRequest")
    assert refused["message"] == "invalid object type: /, Kind="
