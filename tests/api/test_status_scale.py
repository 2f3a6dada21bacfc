"""The subresources status and scale."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.api.client import APPLY, JSON, JSON_PATCH, MERGE, Answer, Client
from tests.api.errors import failure
from tests.api.widgets import GROUP, WIDGETS, define, definition, make
from tests.application import shares_application, shares_tenant
from tests.emulating import emulating

pytestmark = [shares_application, shares_tenant]


A = f"{WIDGETS}/a"


async def test_updates_of_status_change_the_status_only(api: Client) -> None:
    [made] = await make(api, "a", size=1)
    body = {**made, "spec": {"size": 9}, "status": {"phase": "Done"}}
    body["metadata"] = {**made["metadata"], "labels": {"x": "y"}}
    stated = (await api.put(f"{A}/status", body)).ok(200)
    assert stated["status"] == {"phase": "Done"}
    assert stated["spec"] == made["spec"]
    assert "labels" not in stated["metadata"]
    assert (await api.get(f"{A}/status")).ok() == stated


@pytest.mark.parametrize(
    "change, kind, group",
    [
        ({"kind": "Other"}, "Other", GROUP),
        ({"apiVersion": "a.io/v1"}, "Widget", "a.io"),
        ({"apiVersion": "v1", "kind": "Status"}, "Status", ""),
    ],
)
async def test_errors_of_a_status_name_the_stated_kind(
    api: Client, change: dict[str, str], kind: str, group: str
) -> None:
    await make(api, "a")
    details = failure(await api.patch(f"{A}/status", {**change, "status": {"replicas": -1}}), 422, "Invalid")["details"]
    assert (details["kind"], details.get("group", "")) == (kind, group)
    assert (await api.patch(f"{A}/status", {**change, "status": {"replicas": 1}})).ok()["kind"] == "Widget"


async def test_status_is_validated(api: Client) -> None:
    await make(api, "a")
    failure(await api.patch(f"{A}/status", {"status": {"phase": 5}}), 422, "Invalid")


async def test_scale_is_read_and_written(api: Client) -> None:
    await make(api, "a", replicas=3)
    scale = (await api.get(f"{A}/scale")).ok()
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 3})
    scale["spec"]["replicas"] = 5
    assert (await api.put(f"{A}/scale", scale)).ok()["spec"] == {"replicas": 5}
    patch = [{"op": "replace", "path": "/spec/replicas", "value": 7}]
    assert (await api.patch(f"{A}/scale", patch, JSON_PATCH)).ok()["spec"] == {"replicas": 7}
    assert (await api.get(A)).ok()["spec"]["replicas"] == 7


async def test_an_outdated_scale_is_a_conflict(api: Client) -> None:
    await make(api, "a", replicas=3)
    scale = (await api.get(f"{A}/scale")).ok()
    (await api.patch(A, {"spec": {"replicas": 4}})).ok()
    failure(await api.put(f"{A}/scale", scale), 409, "Conflict")


SCALE = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}}
SOME_UID = "11111111-1111-4111-8111-111111111111"


@pytest.mark.parametrize(
    "body, code, reason, message",
    [
        pytest.param({"spec": {"replicas": -1}}, 422, "Invalid", "Widget.", id="below 0"),
        pytest.param({"spec": {"replicas": 1 << 31}}, 400, "BadRequest", "no kind is registered", id="beyond int32"),
        pytest.param({"spec": []}, 400, "BadRequest", "no kind is registered", id="a spec that is a list"),
        pytest.param({"kind": "Widget"}, 400, "BadRequest", "no kind is registered", id="another kind"),
        pytest.param({"metadata": {}}, 400, "BadRequest", "name must be provided", id="no name"),
        pytest.param(
            {"metadata": {"name": "a", "uid": SOME_UID}},
            409,
            "Conflict",
            f"Precondition failed: UID in precondition: {SOME_UID}, UID in object meta: ",
            id="another uid",
        ),
    ],
)
async def test_an_invalid_scale_changes_nothing(
    api: Client, body: dict[str, Any], code: int, reason: str, message: str
) -> None:
    [made] = await make(api, "a", replicas=3)
    assert message in failure(await api.put(f"{A}/scale", {**SCALE, **body}), code, reason)["message"]
    assert (await api.get(A)).ok() == made


async def test_a_scale_may_omit_its_kind(api: Client) -> None:
    await make(api, "a", replicas=3)
    assert (await api.put(f"{A}/scale", {"metadata": {"name": "a"}, "spec": {"replicas": 4}})).ok()["spec"] == {
        "replicas": 4
    }


@pytest.mark.parametrize(
    "patch, message",
    [
        pytest.param(
            {"spec": {"replicas": "x"}}, "into Go struct field ScaleSpec.spec.replicas of type int32", id="text"
        ),
        pytest.param({"spec": []}, "of type v1.ScaleSpec", id="list"),
        pytest.param({"kind": "Widget"}, 'no kind "Widget" is registered', id="kind"),
        pytest.param({"apiVersion": 5}, "into Go struct field .apiVersion of type string", id="version"),
        pytest.param(
            {"apiVersion": "apps/v1beta2"}, "converting (v1beta2.Scale) to (v1.Scale): unknown", id="former version"
        ),
        *(
            pytest.param(
                {"apiVersion": version, "kind": kind, "status": None},
                f"converting ({package}.{kind}) to (v1.Scale): unknown conversion",
                id=f"{version} {kind}",
            )
            for version, kind, package in (
                ("v1", "Status", "v1"),
                ("meta.k8s.io/v1", "APIGroup", "v1"),
                ("apps/v1beta1", "DeleteOptions", "v1"),
                ("autoscaling/v1", "HorizontalPodAutoscaler", "v1"),
                ("extensions/v1beta1", "Deployment", "v1beta1"),
            )
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "DeleteOptions"}, 'no kind "DeleteOptions" is registered', id="options"
        ),
    ],
)
async def test_a_patch_that_leaves_no_scale(api: Client, patch: dict[str, Any], message: str) -> None:
    [made] = await make(api, "a", replicas=3)
    status = failure(await api.patch(f"{A}/scale", patch), 422, "Invalid")
    assert [cause["field"] for cause in status["details"]["causes"]] == ["patch"]
    assert message in status["message"]
    assert (await api.get(A)).ok() == made


async def test_a_patch_must_set_replicas_that_the_object_lacks(api: Client) -> None:
    """As recorded from kube-apiserver 1.36.2."""
    [made] = await make(api, "a")
    empty = 'the spec replicas field ".spec.replicas" cannot be empty'
    for patch in ({"metadata": {"labels": {"a": "b"}}}, {}, {"spec": {"replicas": -(1 << 31)}}):
        assert failure(await api.patch(f"{A}/scale", patch), 400, "BadRequest")["message"] == empty
    lowest = [{"op": "test", "path": "/spec/replicas", "value": -(1 << 31)}]
    assert failure(await api.patch(f"{A}/scale", lowest, JSON_PATCH), 400, "BadRequest")["message"] == empty
    assert (await api.get(A)).ok() == made
    # Names are compared before.
    named = failure(await api.patch(f"{A}/scale", {"metadata": {"name": "b"}}), 400, "BadRequest")["message"]
    assert named == "the name of the object (b) does not match the name on the URL (a)"
    assert (await api.patch(f"{A}/scale", {"spec": {"replicas": None}})).ok()["spec"] == {}
    assert (await api.get(A)).ok()["spec"]["replicas"] == 0
    assert (await api.patch(f"{A}/scale", {})).ok()["spec"] == {}


async def test_a_patch_of_a_scale_sees_who_owns_the_replicas(api: Client) -> None:
    """As recorded from kube-apiserver 1.36.2: owners at each version, without their other fields."""
    [made] = await make(api, "a", replicas=3)
    [entry] = made["metadata"]["managedFields"]
    fields = {"apiVersion": "autoscaling/v1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    patch = [{"op": "test", "path": "/metadata/managedFields", "value": [{**entry, **fields}]}]
    (await api.patch(f"{A}/scale", patch, JSON_PATCH)).ok()
    assert "managedFields" not in (await api.get(f"{A}/scale")).ok()["metadata"]


async def test_scaling_to_nothing_leaves_the_replicas_without_an_owner(api: Client) -> None:
    """As recorded from kube-apiserver 1.36.2: a Scale omits the 0, so the next apply finds no other owner."""
    applied = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Widget",
        "metadata": {"name": "a"},
        "spec": {"size": 1, "replicas": 3},
    }
    (await api.patch(f"{A}?fieldManager=first", applied, APPLY)).ok(201)
    scale = (await api.get(f"{A}/scale")).ok()
    (await api.put(f"{A}/scale?fieldManager=autoscaler", {**scale, "spec": {"replicas": 0}})).ok()
    [entry] = (await api.get(A)).ok()["metadata"]["managedFields"]
    assert entry["fieldsV1"] == {"f:spec": {"f:size": {}}}
    assert (await api.patch(f"{A}?fieldManager=second", applied, APPLY)).ok()["spec"]["replicas"] == 3


async def test_a_spec_that_a_scale_creates_has_its_defaults(api: Client) -> None:
    (await api.post(WIDGETS, {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "a"}})).ok(201)
    (await api.patch(f"{A}/scale", {"spec": {"replicas": 1}})).ok()
    assert (await api.get(A)).ok()["spec"] == {"replicas": 1, "color": "grey"}


@pytest.mark.parametrize("apply", [False, True])
async def test_a_scale_at_a_version_that_is_not_stored_writes_no_default_of_it(api: Client, apply: bool) -> None:
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    plural, kind = ("applied", "Applied") if apply else ("patched", "Patched")
    made = definition(plural, kind, subresources={"scale": paths})
    first = made["spec"]["versions"][0]
    second = {**copy.deepcopy(first), "name": "v2", "storage": False}
    second["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["shape"] = {
        "type": "string",
        "default": "x",
    }
    first["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["shape"] = {"type": "string"}
    made["spec"]["versions"] = [first, second]
    await define(api, made)
    path = f"/apis/{GROUP}/v1/namespaces/default/{plural}"
    (await api.post(path, {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "a"}})).ok(201)
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 1}}
    at_v2 = f"/apis/{GROUP}/v2/namespaces/default/{plural}/a/scale?fieldManager=m"
    (await api.patch(at_v2, scale, APPLY if apply else MERGE)).ok()
    assert (await api.get(f"{path}/a")).ok()["spec"] == {"replicas": 1, "color": "grey"}


@pytest.mark.parametrize("method, content_type", [("PUT", JSON), ("PATCH", MERGE)])
async def test_unknown_and_repeated_fields_of_a_scale(api: Client, method: str, content_type: str) -> None:
    await make(api, "a", replicas=3)
    body = b'{"metadata":{"name":"a"},"spec":{"replicas":5,"replicas":6,"huh":1}}'

    async def send(validation: str) -> Answer:
        path = f"{A}/scale?fieldValidation={validation}"
        return await api.request(method, path, body, content_type=content_type)

    assert (await send("Strict")).code == (400 if method == "PUT" else 422)
    assert (await api.get(A)).ok()["spec"]["replicas"] == 3
    warned = await send("Warn")
    assert warned.ok()["spec"] == {"replicas": 6}
    assert warned.warnings == ['duplicate field "spec.replicas"', 'unknown field "spec.huh"']
    assert (await send("Ignore")).warnings == []


@pytest.mark.parametrize(
    "body, content_type",
    [
        ({"spec": {"replicas": 1, "z": 1}, "q": 1}, MERGE),
        ([{"op": "add", "path": "/spec/z", "value": 1}, {"op": "add", "path": "/q", "value": 1}], JSON_PATCH),
    ],
)
async def test_unknown_fields_of_a_patched_scale_are_in_the_order_of_its_text(
    api: Client, body: Any, content_type: str
) -> None:
    """kube-apiserver decodes the result of a patch from a text with sorted keys."""
    await make(api, "a", replicas=3)
    answer = await api.patch(f"{A}/scale", body, content_type)
    assert answer.warnings == ['unknown field "q"', 'unknown field "spec.z"']


@pytest.mark.parametrize("subresource", ["status", "scale"])
async def test_subresources_that_a_definition_does_not_declare(tenant_api: Client, subresource: str) -> None:
    await define(tenant_api, definition("plain", "Plain"))
    path = f"/apis/{GROUP}/v1/namespaces/default/plain"
    (await tenant_api.post(path, {"apiVersion": f"{GROUP}/v1", "kind": "Plain", "metadata": {"name": "a"}})).ok(201)
    answer = await tenant_api.get(f"{path}/a/{subresource}")
    assert answer.code == 404


@pytest.mark.parametrize("method", ["POST", "DELETE"])
@pytest.mark.parametrize("subresource", ["status", "scale"])
async def test_verbs_that_subresources_do_not_support(api: Client, subresource: str, method: str) -> None:
    await make(api, "a")
    failure(await api.request(method, f"{A}/{subresource}", {}), 405, "MethodNotAllowed")


@pytest.mark.parametrize("subresource", ["status", "scale"])
async def test_subresources_of_missing_objects(api: Client, subresource: str) -> None:
    failure(await api.get(f"{WIDGETS}/none/{subresource}"), 404, "NotFound")


@pytest.mark.parametrize(
    "spec, message",
    [
        pytest.param(["x"], "[x] is of the type []interface {}, expected map[string]interface{}", id="a list"),
        pytest.param("x", "x is of the type string, expected map[string]interface{}", id="a text"),
        pytest.param(
            {"replicas": [1, "a"]}, "[1 a] is of the type []interface {}, expected int64", id="a list at the end"
        ),
    ],
)
async def test_replicas_that_cannot_be_read(api: Client, spec: Any, message: str) -> None:
    """The path of the replicas leads through something else, or to it; values are shown as Go prints them."""
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "odd"}, "spec": spec}
    status = failure(await api.post(WIDGETS, body), 422, "Invalid")
    assert f".spec.replicas: Invalid value: 0: .spec.replicas accessor error: {message}" in status["message"]


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_a_scale_of_another_object(api: Client, method: str) -> None:
    """The namespace is compared before the name, and for a PUT both before the object is looked up."""
    await make(api, "a", replicas=3)
    wrong_name = "the name of the object (b) does not match the name on the URL (NAME)"
    wrong_namespace = "the namespace of the provided object does not match the namespace sent on the request"
    for metadata, message in (
        ({"name": "b"}, wrong_name),
        ({"name": "b", "namespace": "other"}, wrong_namespace),
        ({"name": "b", "namespace": "default"}, wrong_name),
        ({"name": ""}, "the name of the object (NAME based on URL) was undeterminable: name must be provided"),
    ):
        body = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": {"replicas": 1}}
        for name in ("a", "none"):
            content_type = MERGE if method == "PATCH" else JSON
            answer = await api.request(method, f"{WIDGETS}/{name}/scale", body, content_type=content_type)
            if name == "none" and method == "PATCH":
                failure(answer, 404, "NotFound")
            else:
                assert failure(answer, 400, "BadRequest")["message"] == message.replace("NAME", name)


@pytest.mark.parametrize("subresource", ["scale", "status"])
async def test_an_apply_to_a_subresource_of_an_absent_object(api: Client, subresource: str) -> None:
    """As recorded from kube-apiserver 1.36.2. 1.37 converts YAML to JSON first, for the audit log."""
    failure(await api.patch(f"{WIDGETS}/none/{subresource}?fieldManager=m", "[]", APPLY), 404, "NotFound")
    failure(await api.patch(f"{WIDGETS}/none/{subresource}?fieldManager=m", "a: [", APPLY), 400, "BadRequest")
    with emulating("1.36"):
        failure(await api.patch(f"{WIDGETS}/none/{subresource}?fieldManager=m", "a: [", APPLY), 404, "NotFound")
    await make(api, "a", replicas=3)
    failure(await api.patch(f"{A}/{subresource}?fieldManager=m", "[]", APPLY), 400, "BadRequest")


async def test_a_scale_of_values_of_other_types(api: Client) -> None:
    """They can only be from another schema; a write of the status validates those of the status alone."""
    made = definition("meters", "Meter", subresources=SUBRESOURCES)
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    anything = {"x-kubernetes-preserve-unknown-fields": True}
    properties = {"spec": {**loose, "properties": {"replicas": anything}}, "status": anything}
    made["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {"type": "object", "properties": properties}
    plain = {**made["spec"]["versions"][0], "name": "v2", "storage": False, "subresources": {}}
    made["spec"]["versions"].append(plain)
    await define(api, made)
    v1 = WIDGETS.replace("widgets", "meters")
    v2 = v1.replace("/v1/", "/v2/")
    for name, fields, fault in (
        ("a", {"spec": {"replicas": "x"}}, ".spec.replicas accessor error: x is of the type string, expected int64"),
        ("b", {"spec": {"replicas": 1}, "status": "s"}, NO_STATUS),
        ("c", {"spec": {"replicas": 1}, "status": {"replicas": [1]}}, NO_REPLICAS),
    ):
        body = {"apiVersion": f"{GROUP}/v2", "kind": "Meter", "metadata": {"name": name}, **fields}
        (await api.post(v2, body)).ok(201)
        scale = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": name}, "spec": {"replicas": 2}}
        for answer in (
            await api.get(f"{v1}/{name}/scale"),
            await api.put(f"{v1}/{name}/scale", scale),
            await api.patch(f"{v1}/{name}/scale", {"spec": {"replicas": 2}}),
        ):
            assert (answer.code, answer.json["message"], answer.json.get("reason")) == (500, fault, None)
    (await api.patch(f"{v1}/a/status", {"status": {"x": 1}})).ok()
    failure(await api.patch(f"{v1}/a", {"metadata": {"labels": {"x": "y"}}}), 422, "Invalid")
    failure(await api.patch(f"{v1}/c/status", {"status": {"x": 1}}), 422, "Invalid")


SUBRESOURCES = {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}
NO_STATUS = ".status.replicas accessor error: s is of the type string, expected map[string]interface{}"
NO_REPLICAS = ".status.replicas accessor error: [1] is of the type []interface {}, expected int64"


async def test_a_merge_patch_of_a_scale_that_is_no_object(api: Client) -> None:
    await make(api, "a", replicas=1)
    refused = failure(await api.patch(f"{A}/scale?fieldValidation=Ignore", []), 422, "Invalid")
    assert refused["message"].startswith(
        ' "" is invalid: patch: Invalid value: "[]": couldn\'t get version/kind; json parse error: json: cannot unmarshal '
        "array into Go value of type struct"
    )


async def test_a_refused_scale_is_quoted_in_the_order_of_its_struct(api: Client) -> None:
    [made] = await make(api, "a", replicas=1)
    refused = failure(await api.patch(f"{A}/scale", {"kind": "Other"}), 422, "Invalid")["message"]
    metadata = {name: made["metadata"][name] for name in ("name", "namespace", "uid", "resourceVersion")}
    start = json.dumps({"apiVersion": "autoscaling/v1", "kind": "Other", "metadata": metadata}, separators=(",", ":"))
    assert json.dumps(start.removesuffix("}}"))[1:-1] in refused
    assert refused.endswith(
        'no kind "Other" is registered for version "autoscaling/v1" in scheme "k8s.io/client-go/scale/util.go:146"'
    )
