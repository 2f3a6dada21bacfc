"""Mutating policies over HTTP: what they may make of an object, how often they are asked, and how they fail."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from registry.apply.values import equal
from tests.admission.policies import (
    CONFIG_MAPS,
    CORE_EVENTS,
    MUTATING,
    MUTATING_BINDINGS,
    NEW_EVENT,
    NEW_EVENTS,
    enforce,
    mutate,
    named,
    rule,
    widget,
)
from tests.api.client import MERGE, Client
from tests.api.errors import failure
from tests.api.widgets import WIDGETS

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_mutations_are_seen_by_validation_and_owned_by_nobody(api: Client) -> None:
    await mutate(
        api,
        "Object{spec: Object.spec{color: 'blue'}, metadata: Object.metadata{labels: {'by': "
        "request.userInfo.username}}}",
    )
    made = (await api.post(WIDGETS, widget("a", size=1))).ok(201)
    assert made["spec"] == {"size": 1, "color": "blue"}
    assert made["metadata"]["labels"]["by"]
    [entry] = made["metadata"]["managedFields"]
    assert "f:by" not in str(entry)
    changed = (await api.patch(f"{WIDGETS}/a", {"spec": {"color": "red"}}, MERGE)).ok()
    assert changed["spec"]["color"] == "blue"
    await enforce(api, "object.spec.color != 'blue'")
    assert (await api.post(WIDGETS, widget("b"))).code == 422


async def test_reinvocation_policies_are_honoured(api: Client) -> None:
    increment = "Object{spec: Object.spec{size: object.spec.size + 1}}"
    await mutate(api, increment, name="a", reinvocation="IfNeeded")
    await mutate(api, "Object{spec: Object.spec{color: 'blue'}}", name="b")
    assert (await api.post(WIDGETS, widget("a", size=1))).ok(201)["spec"] == {"size": 3, "color": "blue"}


async def test_large_objects_are_compared_beside_the_event_loop(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of a hundred policies would hold it for a tenth of a second."""
    threads = []

    def watched_equal(left: object, right: object) -> bool:
        threads.append(threading.current_thread())
        return equal(left, right)

    await mutate(api, "Object{spec: Object.spec{size: object.spec.size + 1}}", name="a", reinvocation="IfNeeded")
    await mutate(api, "Object{spec: Object.spec{color: 'blue'}}", name="b", reinvocation="IfNeeded")
    monkeypatch.setattr("registry.api.admission.reinvocation.equal", watched_equal)
    large = widget("a", size=1, free={"list": [{"k": i} for i in range(9_000)]})
    assert (await api.post(WIDGETS, large)).ok(201)["spec"]["size"] == 3
    assert threads
    assert threading.current_thread() not in threads


@pytest.mark.parametrize(
    "path, kind, value, why",
    [
        (
            WIDGETS,
            "apiVersion",
            "x/v9",
            'x/v9, Kind=Widget is unstructured and is not suitable for converting to "test.example.com/v1"',
        ),
        (CONFIG_MAPS, "kind", "Secret", "converting (v1.Secret) to (core.ConfigMap): unknown conversion"),
    ],
)
async def test_a_mutation_that_makes_another_kind(api: Client, path: str, kind: str, value: str, why: str) -> None:
    patch = f"[JSONPatch{{op: 'replace', path: '/{kind}', value: '{value}'}}]"
    rules = [rule("CREATE", resources="configmaps", group=""), rule("CREATE")]
    mutations = [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}]
    await mutate(api, "", mutations=mutations, matchConstraints={"resourceRules": rules})
    made = widget("a") if path == WIDGETS else {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    answer = await api.post(path, made)
    text = f"Internal error occurred: failed to convert object: {why}"
    assert (answer.code, answer.json["message"]) == (500, text)


@pytest.mark.parametrize(
    "value, code, why",
    [
        ("5", 500, "Internal error occurred: system metadata was not initialized"),
        ("null", 500, "Internal error occurred: system metadata was not initialized"),
        (
            "{}",
            422,
            'Widget.test.example.com "" is invalid: metadata.name: Required value: name or generateName is required',
        ),
    ],
)
async def test_a_mutation_of_all_metadata(api: Client, value: str, code: int, why: str) -> None:
    patch = f"[JSONPatch{{op: 'replace', path: '/metadata', value: {value}}}]"
    await mutate(api, "", mutations=[{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}])
    answer = await api.post(WIDGETS, widget("a"))
    assert (answer.code, answer.json["message"]) == (code, why)


async def test_the_name_of_a_request_is_its_own(api: Client) -> None:
    """That of the path, if there is one; a mutation that renames the object does not change it."""
    patch = "[JSONPatch{op: 'replace', path: '/metadata/name', value: 'renamed'}]"
    await mutate(api, "", mutations=[{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}])
    shown = "request.name + ' ' + object.metadata.name"
    await enforce(api, "false", validations=[{"expression": "false", "messageExpression": shown}])
    for path, name in ((WIDGETS, "a"), (f"{WIDGETS}/b", "b")):
        status = failure(await api.post(path, widget("a")), 422, "Invalid")
        assert (status["details"]["name"], status["message"].split(": ")[-1]) == (name, f"{name} renamed")


async def test_a_mutation_that_fails(api: Client) -> None:
    await mutate(api, "Object{spec: Object.spec{size: object.spec.gone}}")
    answer = await api.post(WIDGETS, widget("a"))
    text = (
        "policy 'm' with binding 'm' denied request: expression "
        "'Object{spec: Object.spec{size: object.spec.gone}}' resulted in error: no such key: gone"
    )
    assert (answer.code, answer.json["reason"], answer.json["message"]) == (403, "Invalid", text)


async def test_a_mutation_that_fails_does_not_keep_the_others(api: Client) -> None:
    def patch(path: str) -> dict[str, Any]:
        return {"patchType": "JSONPatch", "jsonPatch": {"expression": f'[JSONPatch{{op: "remove", path: "{path}"}}]'}}

    spec = {
        "matchConstraints": {"resourceRules": [rule("CREATE")]},
        "reinvocationPolicy": "Never",
        "mutations": [patch("/spec/x"), patch("/spec/size"), patch("/spec/y")],
    }
    policy = named("MutatingAdmissionPolicy", "m", **spec)
    made = (await api.post(MUTATING, policy)).ok(201)
    (await api.post(MUTATING_BINDINGS, named("MutatingAdmissionPolicyBinding", "m", policyName="m"))).ok(201)
    answer = await api.post(WIDGETS, widget("a", size=1))
    assert (answer.code, answer.json["reason"]) == (403, "Invalid")
    texts = [cause["message"] for cause in answer.json["details"]["causes"]]
    assert ["/spec/x" in texts[0], "/spec/y" in texts[1], len(texts)] == [True, True, 2]
    (await api.put(f"{MUTATING}/m", {**made, "spec": {**made["spec"], "failurePolicy": "Ignore"}})).ok()
    assert "size" not in (await api.post(WIDGETS, widget("a", size=1))).ok(201)["spec"]


async def test_a_json_patch_adds_only_fields_that_the_kind_has(api: Client) -> None:
    """kube-apiserver decodes its result strictly, for built-in kinds."""
    expression = '[JSONPatch{op: "add", path: "/metadata/huh", value: "x"}]'
    spec = {
        "matchConstraints": {"resourceRules": [rule("CREATE", resources="configmaps", group="")]},
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    }
    (await api.post(MUTATING, named("MutatingAdmissionPolicy", "m", **spec))).ok(201)
    (await api.post(MUTATING_BINDINGS, named("MutatingAdmissionPolicyBinding", "m", policyName="m"))).ok(201)
    answer = await api.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "a"}})
    assert answer.code == 500
    assert answer.json["message"] == 'Internal error occurred: strict decoding error: unknown field "metadata.huh"'


@pytest.mark.parametrize(
    "resource, body, path, text",
    [
        (
            "configmaps",
            {"data": {"a": "b"}},
            "/data/k",
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            "secrets",
            {},
            "/type",
            "json: cannot unmarshal number into Go struct field Secret.type of type v1.SecretType",
        ),
        (
            "services",
            {"spec": {"clusterIP": "None", "ports": [{"port": 1}]}},
            "/spec/clusterIP",
            "json: cannot unmarshal number into Go struct field ServiceSpec.spec.clusterIP of type string",
        ),
    ],
)
async def test_a_json_patch_cannot_change_the_types_of_a_built_in_kind(
    api: Client, resource: str, body: dict[str, Any], path: str, text: str
) -> None:
    expression = f'[JSONPatch{{op: "add", path: "{path}", value: 5}}]'
    spec = {
        "matchConstraints": {"resourceRules": [rule("CREATE", resources=resource, group="")]},
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    }
    (await api.post(MUTATING, named("MutatingAdmissionPolicy", "m", **spec))).ok(201)
    (await api.post(MUTATING_BINDINGS, named("MutatingAdmissionPolicyBinding", "m", policyName="m"))).ok(201)
    answer = await api.post(f"/api/v1/namespaces/default/{resource}", {"metadata": {"name": "a"}, **body})
    assert (answer.code, answer.json["message"]) == (500, f"Internal error occurred: {text}")


async def test_an_event_is_mutated_in_the_form_of_the_rule(api: Client) -> None:
    match = {"resourceRules": [rule("CREATE", resources="events", group="")]}
    await mutate(api, 'Object{message: "better"}', matchConstraints=match)
    created = (await api.post(NEW_EVENTS, NEW_EVENT)).ok(201)
    assert (created["apiVersion"], created["note"], created.get("message")) == ("events.k8s.io/v1", "better", None)
    assert (await api.get(f"{CORE_EVENTS}/e")).ok()["message"] == "better"


async def test_mutations_that_enlarge_an_object_again_and_again_end_when_it_is_too_large(api: Client) -> None:
    """Each adds eight references to a long text, of which the JSON would have copies: 160 MB in all."""
    constraints = {"resourceRules": [rule("CREATE", resources="configmaps", group="")]}
    patches = [
        f"lists.range(8).map(i, JSONPatch{{op: 'add', path: '/data/m{number}-' + string(i), value: object.data.text}})"
        for number in range(20)
    ]
    mutations = [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}} for patch in patches]
    await mutate(api, "", matchConstraints=constraints, mutations=mutations)
    answer = await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"text": "x" * 1_000_000}})
    status = failure(answer, 413, "RequestEntityTooLarge")
    assert status["message"] == "Request entity too large: the object would have more than 8388608 characters"
