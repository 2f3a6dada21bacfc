"""Create: what the server adds, what it refuses, and the error messages."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest

from tests.api.client import Client
from tests.api.errors import failure
from tests.api.widgets import ALL_WIDGETS, GROUP, NAMESPACES, WIDGETS, define, definition, widget
from tests.application import shares_application, shares_tenant

pytestmark = [shares_application, shares_tenant]


async def test_the_server_fills_in_the_metadata(api: Client) -> None:
    made = (await api.post(WIDGETS, widget("a", size=1))).ok(201)
    metadata = made["metadata"]
    assert metadata["name"] == "a"
    assert metadata["namespace"] == "default"
    assert metadata["generation"] == 1
    assert int(metadata["resourceVersion"]) > 0
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert made["spec"] == {"size": 1, "color": "grey"}
    assert (await api.get(f"{WIDGETS}/a")).ok() == made


async def test_fields_that_clients_may_not_set_are_replaced(api: Client) -> None:
    given = {
        "uid": "mine",
        "generation": 7,
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "selfLink": "/x",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 5,
    }
    metadata = (await api.post(WIDGETS, widget("a", metadata=given))).ok(201)["metadata"]
    assert metadata["uid"] != "mine"
    assert metadata["generation"] == 1
    assert metadata["creationTimestamp"] > "2020"
    assert "deletionTimestamp" not in metadata
    assert "deletionGracePeriodSeconds" not in metadata


async def test_create_drops_the_status_of_kinds_with_the_subresource(api: Client) -> None:
    made = (await api.post(WIDGETS, {**widget("a"), "status": {"phase": "Done"}})).ok(201)
    assert "status" not in made


async def test_unknown_fields_are_pruned(api: Client) -> None:
    made = (await api.post(WIDGETS, {**widget("a", size=1, bogus=2, free={"any": [1]}), "more": {}})).ok(201)
    assert made["spec"] == {"size": 1, "color": "grey", "free": {"any": [1]}}
    assert "more" not in made


async def test_managed_fields_name_the_client(api: Client) -> None:
    made = (await api.post(WIDGETS, widget("a", size=1), headers={"user-agent": "tool/1.2 (x)"})).ok(201)
    [entry] = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"], entry["apiVersion"]) == ("tool", "Update", f"{GROUP}/v1")
    assert entry["fieldsV1"]["f:spec"]["f:size"] == {}


REFUSED: dict[str, tuple[dict[str, Any], int, str, str]] = {
    "a value beyond its bounds": (
        widget("a", size=-1),
        422,
        "Invalid",
        'Widget.test.example.com "a" is invalid: spec.size: Invalid value: -1: spec.size in body should be greater '
        "than or equal to 0",
    ),
    "another type": (
        widget("a", size="big"),
        422,
        "Invalid",
        'Widget.test.example.com "a" is invalid: spec.size: Invalid value: "string": spec.size in body must be of '
        'type integer: "string"',
    ),
    "no name": (
        widget(),
        422,
        "Invalid",
        'Widget.test.example.com "" is invalid: metadata.name: Required value: name or generateName is required',
    ),
    "another namespace": (
        widget("a", metadata={"namespace": "other"}),
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
    "another kind": (
        {**widget("a"), "kind": "Gadget"},
        422,
        "Invalid",
        'Gadget.test.example.com "a" is invalid: kind: Invalid value: "Gadget": must be Widget',
    ),
    "another version": (
        {**widget("a"), "apiVersion": f"{GROUP}/v2"},
        400,
        "BadRequest",
        f"the API version in the data ({GROUP}/v2) does not match the expected API version ({GROUP}/v1)",
    ),
}


@pytest.mark.parametrize("body, code, reason, message", REFUSED.values(), ids=REFUSED)
async def test_invalid_objects_are_refused(
    api: Client, body: dict[str, Any], code: int, reason: str, message: str
) -> None:
    status = failure(await api.post(WIDGETS, body), code, reason)
    assert message in status["message"]
    assert (await api.get(WIDGETS)).ok()["items"] == []


async def test_an_object_of_another_kind_is_checked_by_rules(api: Client) -> None:
    """Its metadata and values are not, as in kube-apiserver, so a rule may find a value of a wrong type."""
    rules = [{"rule": "self.size < 5", "message": "too large"}]
    spec = {"type": "object", "properties": {"size": {"type": "integer"}}, "x-kubernetes-validations": rules}
    tags = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
    pod = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": spec, "tags": tags, "pod": pod}}
    await define(api, definition("crates", "Crate", schema=schema))
    path = f"/apis/{GROUP}/v1/namespaces/default/crates"
    crate = {"apiVersion": f"{GROUP}/v1", "kind": "Crate", "metadata": {"name": "a"}, "spec": {"size": 1}}
    made = (await api.post(path, crate)).ok(201)
    for size, fields in (
        (9, ["kind", "tags[1]", "spec"]),
        (1, ["kind", "tags[1]"]),
        ("x", ["kind", "tags[1]", "spec"]),
    ):
        wrong = {**crate, "kind": "Box", "spec": {"size": size}, "tags": ["a", "a"]}
        found = [failure(await api.post(path, wrong), 422, "Invalid")]
        found.append(failure(await api.put(f"{path}/a", {**wrong, "metadata": made["metadata"]}), 422, "Invalid"))
        assert [[cause["field"] for cause in status["details"]["causes"]] for status in found] == [fields, fields]
    assert "invalid data, expected int, got string evaluating rule: too large" in found[0]["message"]
    status = failure(await api.post(path, {**crate, "kind": "Box", "spec": "x"}), 422, "Invalid")
    assert "invalid data, expected a map for the provided schema with type=object evaluating rule" in status["message"]
    status = failure(await api.post(path, {**crate, "kind": "Box", "pod": {"apiVersion": "v1"}}), 422, "Invalid")
    causes = status["details"]["causes"]
    assert [cause["field"] for cause in causes] == ["kind", "pod.kind", "<nil>"]
    assert "some validation rules were not checked" in causes[2]["message"]


async def test_all_errors_are_reported_at_once(api: Client) -> None:
    body = widget("A!", labels={"bad key": "x"}, size=-1, parts=["a", "b", "c", "d"])
    status = failure(await api.post(WIDGETS, body), 422, "Invalid")
    assert {c["field"] for c in status["details"]["causes"]} == {
        "metadata.name",
        "metadata.labels",
        "spec.size",
        "spec.parts",
    }
    assert (status["details"]["name"], status["details"]["kind"], status["details"]["group"]) == ("A!", "Widget", GROUP)


async def test_a_name_can_be_used_once(api: Client) -> None:
    (await api.post(WIDGETS, widget("a"))).ok(201)
    status = failure(await api.post(WIDGETS, widget("a", size=5)), 409, "AlreadyExists")
    assert status["message"] == 'widgets.test.example.com "a" already exists'
    assert status["details"] == {"name": "a", "group": GROUP, "kind": "widgets"}


async def test_a_resource_version_may_not_be_given(api: Client) -> None:
    answer = await api.post(WIDGETS, widget("a", metadata={"resourceVersion": "5"}))
    failure(answer, 500, "")
    assert answer.json["message"] == "resourceVersion should not be set on objects to be created"


async def test_the_namespace_must_exist(api: Client) -> None:
    answer = await api.post(f"/apis/{GROUP}/v1/namespaces/nowhere/widgets", widget("a"))
    assert failure(answer, 404, "NotFound")["message"] == 'namespaces "nowhere" not found'
    for name, problem in (("a%25b", "may not contain '%'"), ("%2E%2E", "may not be '..'")):
        answer = await api.post(f"/api/v1/namespaces/{name}/configmaps", {"metadata": {"name": "a"}})
        message = failure(answer, 500, "InternalError")["message"]
        assert message.endswith(f": [{problem}]")


async def test_namespaced_objects_cannot_be_created_without_a_namespace(api: Client) -> None:
    answer = await api.post(ALL_WIDGETS, widget("a"))
    assert (answer.code, answer.text) == (404, "404 page not found\n")


async def test_head_returns_the_headers_of_a_get(api: Client) -> None:
    (await api.post(WIDGETS, widget("a"))).ok(201)
    answer = await api.request("HEAD", f"{WIDGETS}/a")
    assert (answer.code, answer.body) == (200, b"")
    assert int(answer.header("content-length")) == len((await api.get(f"{WIDGETS}/a")).body)


async def test_a_string_that_is_too_expensive_for_its_pattern_is_refused(api: Client) -> None:
    pattern = "[ab]*a[ab]{900}c"
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"text": {"type": "string", "pattern": pattern}}}},
    }
    await define(api, definition("slowlies", "Slowly", schema=schema))
    slowlies = f"/apis/{GROUP}/v1/namespaces/default/slowlies"
    text = "".join(random.Random(1).choices("ab", k=1_000_000))
    answer = await api.post(
        slowlies, {"apiVersion": f"{GROUP}/v1", "kind": "Slowly", "metadata": {"name": "a"}, "spec": {"text": text}}
    )
    assert failure(answer, 422, "Invalid")["message"].endswith(
        f"spec.text: Invalid value: spec.text in body is too expensive to match against '{pattern}'"
    )


async def test_each_character_of_a_field_manager_that_cannot_be_printed_is_reported(api: Client) -> None:
    status = failure(await api.post(f"{WIDGETS}?fieldManager=%C3%A9%0A%09", widget("a")), 422, "Invalid")
    assert [(cause["field"], cause["message"].rpartition(": ")[2]) for cause in status["details"]["causes"]] == [
        ("fieldManager", "invalid character U+000A (at position 2)"),
        ("fieldManager", "invalid character U+0009 (at position 3)"),
    ]


async def test_a_kind_that_counts_no_generations_keeps_that_of_the_client(api: Client) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    made = (await api.post(path, {"metadata": {"name": "generation", "generation": 4}})).ok(201)
    assert made["metadata"]["generation"] == 4
    changed = (await api.put(f"{path}/generation", {"metadata": {"name": "generation", "generation": 5}})).ok()
    assert changed["metadata"]["generation"] == 4
    failure(await api.post(path, {"metadata": {"name": "negative", "generation": -1}}), 422, "Invalid")


# What of a body is named when its kind is missing or another one: the body, fieldValidation, and the message.
OTHER_KINDS: dict[str, tuple[dict[str, Any], str, str]] = {
    "the kind of the body": (
        {"apiVersion": f"{GROUP}/v1", "kind": "Gadget", "metadata": 5},
        "Warn",
        'Gadget in version "v1" cannot be handled as a Widget: json: cannot unmarshal number into Go value of type '
        "v1.ObjectMeta",
    ),
    "no version": (
        {"kind": "Widget", "metadata": {"name": 5}},
        "Warn",
        'Widget in version "" cannot be handled as a Widget: json: cannot unmarshal number into Go struct field '
        "ObjectMeta.name of type string",
    ),
    "a null version": (
        {"apiVersion": None, "kind": "Widget"},
        "Warn",
        'Widget in version "" cannot be handled as a Widget: .apiVersion accessor error: <nil> is of the type <nil>, '
        "expected string",
    ),
    "no kind": (
        {"apiVersion": f"{GROUP}/v1"},
        "Ignore",
        f"""Widget in version "v1" cannot be handled as a Widget: Object 'Kind' is missing in '{{"apiVersion":"{GROUP}/v1"}}'""",
    ),
    "a version of three parts before a missing kind": (
        {"apiVersion": "x/y/z"},
        "Warn",
        """the object provided is unrecognized (must be of type Widget): unexpected GroupVersion string: x/y/z """
        """({"apiVersion":"x/y/z"})""",
    ),
    "unknown metadata of another kind, strict": (
        {"apiVersion": f"{GROUP}/v1", "kind": "Gadget", "metadata": {"more": 1}, "more": 1},
        "Strict",
        'Gadget in version "v1" cannot be handled as a Gadget: strict decoding error: unknown field "metadata.more"',
    ),
}


@pytest.mark.parametrize("body, validation, message", OTHER_KINDS.values(), ids=OTHER_KINDS)
async def test_bodies_of_other_kinds(shared_api: Client, body: dict[str, Any], validation: str, message: str) -> None:
    data = json.dumps(body, separators=(",", ":")).encode()
    answer = await shared_api.post(f"{WIDGETS}?fieldValidation={validation}", data)
    assert failure(answer, 400, "BadRequest")["message"] == message


async def test_a_status_for_a_built_in_kind(shared_api: Client) -> None:
    answer = await shared_api.post(f"{NAMESPACES}/default/configmaps", {"apiVersion": "v1", "kind": "Status"})
    assert failure(answer, 400, "BadRequest")["message"] == (
        'Status in version "v1" cannot be handled as a ConfigMap: converting (v1.Status) to (core.ConfigMap): unknown '
        "conversion"
    )


async def test_owners_that_a_client_states_are_kept_but_for_the_fields_that_it_writes(api: Client) -> None:
    """Those of fields that the create does not write, such as a status, of an object that is restored."""
    owned: dict[str, Any] = {"f:kind": {}, "f:spec": {"f:size": {}}, "f:status": {"f:ready": {}}}
    entry = {
        "manager": "other",
        "operation": "Update",
        "apiVersion": f"{GROUP}/v1",
        "time": "2001-02-03T04:05:06Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": owned,
    }
    body = widget("a", metadata={"managedFields": [entry]})
    body["spec"] = {"size": 1}
    made = (await api.post(WIDGETS, body)).ok(201)
    kept, mine = made["metadata"]["managedFields"]
    assert kept == {**entry, "fieldsV1": {"f:kind": {}, "f:status": {"f:ready": {}}}}
    assert (mine["operation"], mine["fieldsV1"]) == ("Update", {"f:spec": {".": {}, "f:color": {}, "f:size": {}}})
