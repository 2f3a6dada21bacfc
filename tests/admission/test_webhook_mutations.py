"""Mutating webhooks: patches that are applied, refused, or partly undone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admission.policies import CONFIG_MAPS, EVERY_RESOURCE, enforce, rule, widget
from tests.admission.webhooks import Hook, Response, configure, patch
from tests.api.client import MERGE, Answer, Client
from tests.api.errors import failure
from tests.api.widgets import GROUP, WIDGETS

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    "path, value, left",
    [
        ("/metadata/labels/a", 5, {}),
        ("/metadata/labels", "x", {}),
        ("/metadata/annotations", {"a": {}}, {"labels": {"b": "c"}}),
        ("/metadata/finalizers", [5], {"labels": {"b": "c"}}),
        ("/metadata/ownerReferences", "x", {"labels": {"b": "c"}}),
        ("/metadata/generateName", 5, {"labels": {"b": "c"}}),
    ],
)
async def test_a_webhook_that_patches_metadata_with_another_type(
    api: Client, hook: Hook, path: str, value: Any, left: dict[str, Any]
) -> None:
    hook.answer = lambda _, request: patch({"op": "add", "path": path, "value": value})
    await configure(api, hook, "a", kind="Mutating")
    made = widget("a", size=1)
    made["metadata"]["labels"] = {"b": "c"}
    metadata = (await api.post(WIDGETS, made)).ok(201)["metadata"]
    written = ("labels", "annotations", "finalizers", "ownerReferences", "generateName")
    assert {name: metadata[name] for name in written if name in metadata} == left
    assert (await api.get(f"{WIDGETS}/a")).ok()["metadata"] == metadata


@pytest.mark.parametrize(
    "revision, code, message",
    [("7", 500, "resourceVersion should not be set on objects to be created"), ("x", 201, ""), ("0", 201, "")],
)
async def test_a_webhook_that_sets_the_revision_of_a_new_object(
    api: Client, hook: Hook, revision: str, code: int, message: str
) -> None:
    hook.answer = lambda _, request: patch({"op": "add", "path": "/metadata/resourceVersion", "value": revision})
    await configure(api, hook, "a", kind="Mutating")
    answer = await api.post(WIDGETS, widget("a"))
    assert (answer.code, answer.json.get("message", "")) == (code, message)


async def test_a_webhook_that_sets_the_revision_of_an_update(api: Client, hook: Hook) -> None:
    made = (await api.post(WIDGETS, widget("a", size=1))).ok(201)
    revision = ""
    hook.answer = lambda _, request: patch({"op": "add", "path": "/metadata/resourceVersion", "value": revision})
    await configure(api, hook, "a", kind="Mutating")
    assert (await api.put(f"{WIDGETS}/a", widget("a", size=2))).code == 422
    assert len(hook.asked) == 1, "the webhook is asked before the resource version is missed"
    revision = "7"
    assert failure(await api.put(f"{WIDGETS}/a", made), 409, "Conflict")
    revision = "x"
    answer = await api.put(f"{WIDGETS}/a", made)
    assert (answer.code, answer.json["message"]) == (500, 'strconv.ParseUint: parsing "x": invalid syntax')
    revision = made["metadata"]["resourceVersion"]
    assert (await api.put(f"{WIDGETS}/a", widget("a", size=2))).ok()["spec"]["size"] == 2


async def test_a_null_that_a_webhook_sets_is_refused_by_its_schema(api: Client, hook: Hook) -> None:
    hook.answer = lambda _, request: patch({"op": "add", "path": "/spec", "value": None})
    await configure(api, hook, "a", kind="Mutating")
    status = failure(await api.post(WIDGETS, widget("a", size=1)), 422, "Invalid")
    assert status["details"]["causes"][0] == {
        "reason": "FieldValueTypeInvalid",
        "message": 'Invalid value: "null": spec in body must be of type object: "null"',
        "field": "spec",
    }


async def test_webhooks_that_mutate_a_scale_see_who_owns_the_replicas(api: Client, hook: Hook) -> None:
    made = (await api.post(WIDGETS, widget("a", replicas=1))).ok(201)
    [entry] = made["metadata"]["managedFields"]
    hook.answer = lambda _, request: {"allowed": True}
    for kind in ("Mutating", "Validating"):
        await configure(api, hook, kind.lower(), kind=kind, rules=[rule("UPDATE", resources="widgets/scale")])
    (await api.patch(f"{WIDGETS}/a/scale", {"spec": {"replicas": 2}})).ok()
    mutating, validating = (request for _, request in hook.asked)
    fields = {"apiVersion": "autoscaling/v1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    assert mutating["oldObject"]["metadata"]["managedFields"] == [{**entry, **fields}]
    [owner] = mutating["object"]["metadata"]["managedFields"]
    assert owner["fieldsV1"] == fields["fieldsV1"]
    assert owner["time"] >= entry["time"]
    assert "managedFields" not in validating["object"]["metadata"]
    assert "managedFields" not in validating["oldObject"]["metadata"]

    hook.asked.clear()  # nothing changes hands: what is stored of an update has no time
    (await api.patch(f"{WIDGETS}/a/scale", {"metadata": {"annotations": {"a": "b"}}})).ok()
    (mutating,) = (request for _, request in hook.asked if "managedFields" in request["object"]["metadata"])
    [owner] = mutating["object"]["metadata"]["managedFields"]
    assert "time" not in owner


async def test_a_patch_that_does_not_fit(api: Client, hook: Hook) -> None:
    hook.answer = lambda path, request: patch({"op": "test", "path": "/spec/size", "value": 9})
    await configure(api, hook, "a", kind="Mutating", failurePolicy="Ignore")
    answer = await api.post(WIDGETS, widget("a", size=1))
    assert answer.json["message"] == "Internal error occurred: testing value /spec/size failed: test failed"


@pytest.mark.parametrize(
    "path, operations, why",
    [
        pytest.param(
            WIDGETS,
            [{"op": "replace", "path": "/apiVersion", "value": "x/v9"}],
            'x/v9, Kind=Widget is unstructured and is not suitable for converting to "',
            id="a custom object of another version",
        ),
        pytest.param(
            WIDGETS,
            [{"op": "replace", "path": "", "value": {"a": 1}}],
            "Internal error occurred: Object 'Kind' is missing in '{\"a\":1}'",
            id="no custom object",
        ),
        pytest.param(
            CONFIG_MAPS,
            [{"op": "replace", "path": "/kind", "value": "Secret"}],
            "Internal error occurred: converting (v1.Secret) to (core.ConfigMap): unknown conversion",
            id="another kind",
        ),
        pytest.param(
            CONFIG_MAPS,
            [{"op": "replace", "path": "/apiVersion", "value": "v2"}],
            'Internal error occurred: no kind "ConfigMap" is registered for version "v2" in scheme ',
            id="a version that is not there",
        ),
        pytest.param(
            CONFIG_MAPS,
            [{"op": "replace", "path": "", "value": []}],
            "Internal error occurred: couldn't get version/kind; json parse error: json: cannot unmarshal array",
            id="a list",
        ),
    ],
)
async def test_a_patch_to_another_kind(
    api: Client, hook: Hook, path: str, operations: list[dict[str, Any]], why: str
) -> None:
    hook.answer = lambda path, request: patch(*operations)
    rules = [rule(), rule(resources="configmaps", group="")]
    await configure(api, hook, "a", kind="Mutating", rules=rules)
    body = widget("b") if path == WIDGETS else {"metadata": {"name": "b"}}
    answer = await api.post(path, body)
    assert (answer.code, answer.json["message"][: len(why)]) == (500, why)
    assert (await api.get(f"{path}/b")).code == 404


WRITTEN_KINDS = pytest.mark.parametrize(
    "path", [pytest.param(WIDGETS, id="custom"), pytest.param(CONFIG_MAPS, id="built-in")]
)


async def answers_to_writes(api: Client, hook: Hook, path: str, operation: Response) -> list[Answer]:
    """The answers to a dry create, update and patch with a webhook that patches the object."""
    old, new = (
        widget(name) if path == WIDGETS else {"metadata": {"name": name}, "data": {"a": ""}} for name in ("old", "new")
    )
    made = (await api.post(path, old)).ok(201)
    try:
        hook.answer = lambda path, request: patch(operation)
        await configure(api, hook, "change", kind="Mutating", rules=[EVERY_RESOURCE])
        return [
            await api.post(f"{path}?dryRun=All", new),
            await api.put(f"{path}/old?dryRun=All", {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}}),
            await api.patch(f"{path}/old?dryRun=All", {"metadata": {"labels": {"a": "b"}}}, MERGE),
        ]
    finally:
        hook.answer = lambda path, request: {"allowed": True}
        (await api.delete(f"{path}/old")).ok()


@WRITTEN_KINDS
async def test_owners_that_a_webhook_repeats_are_kept_once(api: Client, hook: Hook, path: str) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "71ac64c5-1ffb-4f79-a8bc-066d0c639222"}
    operation = {"op": "add", "path": "/metadata/ownerReferences", "value": [owner] * 2}
    for answer in await answers_to_writes(api, hook, path, operation):
        assert answer.ok(answer.code)["metadata"]["ownerReferences"] == [owner]
        assert answer.warnings == [
            ".metadata.ownerReferences contains duplicate entries after mutating admission happens; API server dedups "
            "owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; "
            f"duplicate UID(s) observed: {owner['uid']}"
        ]


@WRITTEN_KINDS
@pytest.mark.parametrize(
    "operation, why",
    [
        pytest.param(
            {"op": "remove", "path": "/metadata/managedFields/0/apiVersion"},
            "apiVersion must not be empty",
            id="no version",
        ),
        pytest.param(
            {"op": "remove", "path": "/metadata/managedFields/0/fieldsType"},
            "missing fieldsType in managed fields entry 0",
            id="no type",
        ),
        pytest.param(
            {"op": "replace", "path": "/metadata/managedFields/0/fieldsType", "value": "X"},
            'invalid fieldsType "X" in managed fields entry 0',
            id="unknown type",
        ),
        pytest.param(
            {"op": "replace", "path": "/metadata/managedFields/0/operation", "value": "Take"},
            "operation must be `Apply` or `Update`",
            id="unknown operation",
        ),
    ],
)
async def test_owned_fields_that_a_webhook_breaks_remain_as_they_were(
    api: Client, hook: Hook, path: str, operation: Response, why: str
) -> None:
    for answer in await answers_to_writes(api, hook, path, operation):
        [entry] = answer.ok(answer.code)["metadata"]["managedFields"]
        assert (entry["operation"], entry["fieldsType"]) == ("Update", "FieldsV1")
        [warning] = answer.warnings
        assert warning.startswith(".metadata.managedFields was in an invalid state after admission; ")
        assert warning.endswith(f"please fix your requests: {why}")


@pytest.mark.parametrize("kind", ["ConfigMap", "Widget"])
@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/metadata/name"},
        {"op": "replace", "path": "/metadata/name", "value": ""},
        {"op": "replace", "path": "/metadata/name", "value": "b"},
    ],
    ids=["removed", "emptied", "changed"],
)
async def test_a_webhook_that_takes_the_name_of_an_object(
    api: Client, hook: Hook, kind: str, operation: dict[str, Any]
) -> None:
    """Nothing is restored: the object is refused under the name that it has now."""
    path, group = (CONFIG_MAPS, "") if kind == "ConfigMap" else (WIDGETS, GROUP)
    body = {"apiVersion": f"{GROUP}/v1" if group else "v1", "kind": kind, "metadata": {"generateName": "a-"}}
    made = (await api.post(path, body)).ok(201)
    one = f"{path}/{made['metadata']['name']}"
    hook.answer = lambda _, request: patch(operation)
    rules = [rule(), rule(resources="configmaps", group="")]
    await configure(api, hook, "a", kind="Mutating", rules=rules)
    changed = {**made, "metadata": {**made["metadata"], "labels": {"x": "y"}}}
    name = operation.get("value", "")
    for answer in (await api.put(one, changed), await api.patch(one, {"metadata": {"labels": {"x": "y"}}})):
        refusal = failure(answer, 422, "Invalid")
        kind_name = f"{kind}.{group}" if group else kind
        immutable = f'metadata.name: Invalid value: "{name}": field is immutable'
        if name:
            assert refusal["message"] == f'{kind_name} "b" is invalid: {immutable}'
        else:
            missing = "metadata.name: Required value: name or generateName is required"
            assert refusal["message"] == f'{kind_name} "" is invalid: [{missing}, {immutable}]'
    assert (await api.get(one)).ok() == made


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize("patch_type", ["JSONPatch", "MergePatch"])
async def test_a_webhook_cannot_patch_what_is_deleted(api: Client, hook: Hook, policy: str, patch_type: str) -> None:
    """Whatever the type of its patch, and even if it may fail."""
    (await api.post(WIDGETS, widget("a"))).ok(201)
    hook.answer = lambda _, request: {**patch({"op": "add", "path": "/x", "value": 1}), "patchType": patch_type}
    await configure(api, hook, "a", kind="Mutating", rules=[rule("DELETE")], failurePolicy=policy)
    status = failure(await api.delete(f"{WIDGETS}/a"), 500, "InternalError")
    assert 'webhook "a.example.com" attempted to modify the object, which is not supported' in status["message"]


def _unknown_then_increment(path: str, request: dict[str, Any]) -> Response:
    if path == "/unknown":
        return patch({"op": "add", "path": "/spec/nobody", "value": 1})
    spec = request["object"]["spec"]
    return patch({"op": "add", "path": "/spec/size", "value": spec.get("size", 0) + 1})


async def test_fields_that_no_schema_names_are_seen_by_all_admission_and_not_written(api: Client, hook: Hook) -> None:
    """A second round of the first webhook changed the object again, and with it the second one."""
    (await api.post(WIDGETS, widget("a", size=1))).ok(201)
    hook.answer = _unknown_then_increment
    rules = [rule(resources="widgets"), rule(resources="widgets/status")]
    await configure(api, hook, "unknown", "increment", kind="Mutating", rules=rules, reinvocationPolicy="IfNeeded")
    made = (await api.post(WIDGETS, widget("b", size=1))).ok(201)
    assert made["spec"] == (await api.get(f"{WIDGETS}/b")).ok()["spec"] == {"size": 2, "color": "grey"}
    shown = [(path, {**request["object"]["spec"]}) for path, request in hook.asked]
    assert {spec.pop("color") for _, spec in shown} == {"grey"}
    assert shown == [
        ("/unknown", {"size": 1}),
        ("/increment", {"size": 1, "nobody": 1}),
        ("/unknown", {"size": 2, "nobody": 1}),
    ]
    await enforce(api, "!has(object.spec.nobody)", match={"resourceRules": rules})
    for answer in (
        await api.post(WIDGETS, widget("c", size=1)),
        await api.patch(f"{WIDGETS}/a", {"spec": {"size": 5}}, MERGE),
    ):
        assert failure(answer, 422, "Invalid")["message"].endswith("denied request: no")
    # The spec is not what a status is written with.
    (await api.patch(f"{WIDGETS}/a/status", {"status": {"phase": "Up"}}, MERGE)).ok()


async def test_a_webhook_that_is_called_again_sees_a_scale_with_its_own_fields_only(api: Client, hook: Hook) -> None:
    (await api.post(WIDGETS, widget("a", replicas=1))).ok(201)
    hook.answer = _unknown_then_increment
    rules = [rule("UPDATE", resources="widgets/scale")]
    await configure(api, hook, "unknown", "increment", kind="Mutating", rules=rules, reinvocationPolicy="IfNeeded")
    (await api.patch(f"{WIDGETS}/a/scale", {"spec": {"replicas": 4}}, MERGE)).ok()
    shown = [(path, request["object"]["spec"], request["object"]["status"]) for path, request in hook.asked]
    assert shown[:3] == [
        ("/unknown", {"replicas": 4}, {"replicas": 0}),
        ("/increment", {"replicas": 4, "nobody": 1}, {"replicas": 0}),
        ("/unknown", {"replicas": 4}, {"replicas": 0}),
    ]
