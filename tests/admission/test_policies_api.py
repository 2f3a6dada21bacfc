"""Policies over HTTP: when they count, which requests they apply to, what a client reads."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import pytest

from registry.flowcontrol.time_slice import IS_GONE
from tests.admission.policies import (
    BINDINGS,
    CONFIG_MAPS,
    CORE_EVENT,
    CORE_EVENTS,
    EVERY_RESOURCE,
    NEW_EVENT,
    NEW_EVENTS,
    POLICIES,
    enforce,
    named,
    rule,
    widget,
)
from tests.api.client import MERGE, Client, eventually
from tests.api.widgets import GROUP, NAMESPACES, WIDGETS

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_refusal(api: Client) -> None:
    await enforce(api, "object.spec.size < 5")
    answer = await api.post(WIDGETS, widget("a", size=9))
    text = "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no"
    assert (answer.code, answer.json["reason"]) == (422, "Invalid")
    assert answer.json["message"] == f'widgets.{GROUP} "a" is forbidden: {text}'
    assert answer.json["details"] == {"name": "a", "group": GROUP, "kind": "widgets", "causes": [{"message": text}]}
    assert (await api.get(f"{WIDGETS}/a")).code == 404
    (await api.post(WIDGETS, widget("a", size=1))).ok(201)


DEAR = "object.spec.free.l.all(a, object.spec.free.l.all(b, a + b + {0} >= 0))"


async def test_other_requests_run_while_policies_are_evaluated(api: Client) -> None:
    """Each expression takes a good part of a second; ten are evaluated, then the budget of the policy is spent."""
    (await api.post(WIDGETS, widget("other"))).ok(201)
    await enforce(api, DEAR.format(0), validations=[{"expression": DEAR.format(n)} for n in range(20)])
    write = asyncio.create_task(api.post(WIDGETS, widget("a", free={"l": list(range(2000))})))
    slowest = 0.0
    while not write.done():
        began = time.process_time()  # nothing else goes on in this process
        (await api.get(f"{WIDGETS}/other")).ok(200)
        slowest = max(slowest, time.process_time() - began)
    answer = await write
    assert answer.code == 422
    assert answer.json["message"].endswith(
        "validation failed due to running out of cost budget, no further validation rules will be run"
    )
    assert slowest < 1.2


async def test_evaluation_stops_when_the_client_disconnects(api: Client) -> None:
    await enforce(
        api,
        DEAR.format(0),
        validations=[{"expression": f"{DEAR.format(n)} || true"} for n in range(8)],
        failurePolicy="Ignore",
    )
    asked = 0

    def is_gone() -> bool:
        nonlocal asked
        asked += 1
        return asked == 2

    app = api._app

    async def abandoned(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, IS_GONE: is_gone}, receive, send)

    with contextlib.suppress(Exception):  # there is no answer
        await Client(abandoned, api._token).post(WIDGETS, widget("a", free={"l": list(range(2000))}))
    assert asked == 2
    assert (await api.get(f"{WIDGETS}/a")).code == 404


async def test_every_way_to_write(api: Client) -> None:
    (await api.post(WIDGETS, widget("a", size=1, replicas=1))).ok(201)
    await enforce(api, "request.operation == 'CREATE' && object.metadata.name == 'a'")
    await enforce(api, "false", name="scale", match={"resourceRules": [rule("UPDATE", resources="widgets/*")]})
    full = (await api.get(f"{WIDGETS}/a")).ok()
    assert (await api.put(f"{WIDGETS}/a", full)).code == 422
    assert (await api.patch(f"{WIDGETS}/a", {"spec": {"size": 2}}, MERGE)).code == 422
    assert (await api.patch(f"{WIDGETS}/a/status", {"status": {"phase": "x"}}, MERGE)).code == 422
    assert (await api.patch(f"{WIDGETS}/a/scale", {"spec": {"replicas": 2}}, MERGE)).code == 422
    assert (await api.delete(f"{WIDGETS}/a")).code == 422
    assert (await api.delete(WIDGETS)).code == 422
    assert (await api.post(f"{WIDGETS}?dryRun=All", widget("b"))).code == 422
    assert (await api.get(f"{WIDGETS}/a")).ok()["metadata"]["resourceVersion"] == full["metadata"]["resourceVersion"]


async def test_another_process_evaluates_what_has_just_been_written(api: Client, other: Client) -> None:
    """No write is accepted by a process that has not heard of a policy: commits check the guards of their evaluation."""
    (await other.post(WIDGETS, widget("a", size=1))).ok(201)
    (await other.post(NAMESPACES, {"metadata": {"name": "n0"}})).ok(201)
    await enforce(api, "object.spec.size < 5")
    assert (await other.post(WIDGETS, widget("b", size=9))).code == 422
    (await api.delete(f"{BINDINGS}/p")).ok()
    (await other.post(WIDGETS, widget("b", size=9))).ok(201)
    await enforce(api, "false", name="updates", match={"resourceRules": [rule("UPDATE")]})
    assert (await other.patch(f"{WIDGETS}/a", {"spec": {"size": 2}}, MERGE)).code == 422
    await enforce(api, "false", name="deletes", match={"resourceRules": [rule("DELETE")]})
    assert (await other.delete(f"{WIDGETS}/a")).code == 422
    await enforce(
        api,
        "object.metadata.name == 'n1'",
        name="spaces",
        match={"resourceRules": [rule("CREATE", resources="namespaces", group="")]},
    )
    assert (await other.post(NAMESPACES, {"metadata": {"name": "n2"}})).code == 422
    (await other.post(NAMESPACES, {"metadata": {"name": "n1"}})).ok(201)


async def test_a_change_of_a_policy_counts_at_once(api: Client, other: Client) -> None:
    await enforce(api, "object.spec.size < 5")
    assert (await other.post(WIDGETS, widget("a", size=9))).code == 422
    (await api.patch(f"{POLICIES}/p", {"spec": {"validations": [{"expression": "true"}]}}, MERGE)).ok()
    (await other.post(WIDGETS, widget("a", size=9))).ok(201)


async def test_warnings_and_labels(api: Client) -> None:
    await enforce(api, "object.spec.size < 5", binding={"validationActions": ["Warn", "Audit"]})
    answer = await api.post(WIDGETS, widget("a", size=9))
    answer.ok(201)
    assert answer.warnings == ["Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': no"]


@pytest.mark.parametrize(
    "expression, code",
    [
        ("namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == 'default'", 201),
        ("namespaceObject.metadata.name == 'other'", 422),
        ("authorizer.group('').resource('pods').check('get').allowed()", 201),
        ("authorizer.serviceAccount('default', 'nobody').group('').resource('pods').check('get').allowed()", 422),
        ("authorizer.requestResource.check('create').allowed()", 201),
        ("request.userInfo.groups.exists(g, g == 'system:masters')", 201),
        ("request.options.fieldManager == 'me'", 201),
        ("dyn(request).object == null && has(dyn(request).oldObject) && dyn(request).uid == ''", 201),
        ("dyn(request).object.metadata.name == 'a'", 422),
    ],
)
async def test_what_expressions_see(api: Client, expression: str, code: int) -> None:
    await enforce(api, expression)
    assert (await api.post(f"{WIDGETS}?fieldManager=me", widget("a"))).code == code


async def test_namespaces_are_selected_by_the_labels_they_have_now(api: Client) -> None:
    await enforce(api, "false", match={"namespaceSelector": {"matchLabels": {"guarded": "yes"}}})
    (await api.post(WIDGETS, widget("a"))).ok(201)
    (await api.patch(f"{NAMESPACES}/default", {"metadata": {"labels": {"guarded": "yes"}}}, MERGE)).ok()
    assert (await api.post(WIDGETS, widget("b"))).code == 422
    (await api.patch(f"{NAMESPACES}/default", {"metadata": {"labels": {"guarded": None}}}, MERGE)).ok()


PARAMS: dict[str, Any] = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}


async def test_parameters(api: Client) -> None:
    ref = {"selector": {"matchLabels": {"limits": "yes"}}, "parameterNotFoundAction": "Deny"}
    await enforce(api, "object.spec.size < int(params.data.max)", binding={"paramRef": ref}, **PARAMS)
    answer = await api.post(WIDGETS, widget("a", size=1))
    assert answer.json["details"]["causes"][0]["message"].endswith(
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    )
    for name, most in (("one", "9"), ("two", "5")):
        (
            await api.post(
                CONFIG_MAPS, {"metadata": {"name": name, "labels": {"limits": "yes"}}, "data": {"max": most}}
            )
        ).ok(201)
    (await api.post(WIDGETS, widget("a", size=4))).ok(201)
    assert (await api.post(WIDGETS, widget("b", size=7))).code == 422
    (await api.delete(f"{CONFIG_MAPS}/two")).ok()
    (await api.post(WIDGETS, widget("b", size=7))).ok(201)


async def test_no_policy_is_evaluated_by_a_part_of_its_parameters(api: Client) -> None:
    """Those that are too large to be read together: the last, which denies, must not be left out."""
    await enforce(
        api,
        "object.spec.size < int(params.data.max)",
        **PARAMS,
        binding={"paramRef": {"selector": {}, "parameterNotFoundAction": "Deny"}},
    )
    for i in range(6):
        (
            await api.post(
                CONFIG_MAPS,
                {"metadata": {"name": f"large-{i}"}, "data": {"max": "1" if i == 5 else "9", "text": "a" * 900_000}},
            )
        ).ok(201)
    answer = await api.post(WIDGETS, widget("a", size=4))
    assert answer.code == 422
    assert "are too large together" in answer.text


async def test_a_kind_of_parameters_that_is_not_there(api: Client) -> None:
    await enforce(api, "true", paramKind={"apiVersion": "no.example.com/v1", "kind": "None"})
    answer = await api.post(WIDGETS, widget("a"))
    assert answer.json["details"]["causes"][0]["message"] == (
        "ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find resource referenced "
        "by paramKind: 'no.example.com/v1, Kind=None'"
    )


async def test_policies_do_not_apply_to_their_own_configuration(api: Client) -> None:
    """A policy that refuses everything can be taken away, since policies never apply to policies."""
    await enforce(api, "false", match={"resourceRules": [EVERY_RESOURCE]})
    assert (await api.post(NAMESPACES, {"metadata": {"name": "n"}})).code == 422
    (await api.patch(f"{POLICIES}/p", {"metadata": {"labels": {"a": "b"}}}, MERGE)).ok()
    (await api.delete(f"{BINDINGS}/p")).ok()
    (await api.post(NAMESPACES, {"metadata": {"name": "n"}})).ok(201)


async def test_writes_of_the_server_are_exempt(api: Client) -> None:
    (await api.post(NAMESPACES, {"metadata": {"name": "gone"}})).ok(201)
    (await api.post(f"/apis/{GROUP}/v1/namespaces/gone/widgets", widget("a"))).ok(201)
    await enforce(api, "false", match={"resourceRules": [rule("DELETE")]})
    (await api.delete(f"{NAMESPACES}/gone")).ok()

    async def is_gone() -> bool:
        return (await api.get(f"{NAMESPACES}/gone")).code == 404

    await eventually(is_gone)


async def test_tenants_have_policies_of_their_own(api: Client) -> None:
    system = api.of_tenant("system")
    await enforce(api, "false", match={"resourceRules": [rule("CREATE", resources="namespaces", group="")]})
    made = {"metadata": {"name": "of-a-tenant"}}
    assert (await api.post(NAMESPACES, made)).code == 422
    (await system.post(NAMESPACES, made)).ok(201)


@pytest.mark.parametrize("reason", ["Forbidden", "RequestEntityTooLarge", "Invalid"])
async def test_a_deleted_policy_has_no_effect(api: Client, other: Client, reason: str) -> None:
    """In no process: what refuses is not checked by any commit."""
    policy = named(
        "ValidatingAdmissionPolicy",
        "p",
        matchConstraints={"resourceRules": [rule()]},
        validations=[{"expression": "false", "reason": reason}],
    )
    (await api.post(POLICIES, policy)).ok(201)
    bound = named("ValidatingAdmissionPolicyBinding", "p", policyName="p", validationActions=["Deny"])
    (await api.post(BINDINGS, bound)).ok(201)
    for client in (api, other):
        assert (await client.post(WIDGETS, widget("a"))).json["reason"] == reason
    (await api.delete(f"{BINDINGS}/p")).ok()
    (await api.post(WIDGETS, widget("a"))).ok(201)
    (await other.post(WIDGETS, widget("b"))).ok(201)


async def test_too_many_match_conditions_are_validated_nonetheless(api: Client) -> None:
    conditions = [{"name": f"c{i}", "expression": "true"} for i in range(65)]
    del conditions[47]["name"]
    constraints = {"resourceRules": [rule()]}
    spec = {"matchConstraints": constraints, "validations": [{"expression": "true"}], "matchConditions": conditions}
    refused = await api.post(POLICIES, named("ValidatingAdmissionPolicy", "p", **spec))
    causes = refused.json["details"]["causes"]
    assert [cause["field"] for cause in causes] == ["spec.matchConditions", "spec.matchConditions[47].name"]


async def test_the_types_of_a_policy_are_checked(api: Client) -> None:
    await enforce(api, "object.spec.nope > 1", match={"resourceRules": [{**rule(), "apiVersions": ["v1"]}]})

    async def is_checked() -> bool:
        status = (await api.get(f"{POLICIES}/p")).ok()["status"]
        return status.get("observedGeneration") == 1 and len(status["typeChecking"]["expressionWarnings"]) == 1

    await eventually(is_checked)
    managed = (await api.get(f"{POLICIES}/p")).ok()["metadata"]["managedFields"]
    [checked] = [entry for entry in managed if entry["manager"] == "validatingadmissionpolicy-status"]
    assert (checked["operation"], checked["subresource"]) == ("Apply", "status")
    assert checked["fieldsV1"]["f:status"] == {
        "f:observedGeneration": {},
        "f:typeChecking": {"f:expressionWarnings": {}},
    }
    (await api.patch(f"{POLICIES}/p", {"spec": {"validations": [{"expression": "object.spec.size > 1"}]}})).ok()

    async def is_without_warnings() -> bool:
        status = (await api.get(f"{POLICIES}/p")).ok()["status"]
        return (status["observedGeneration"], status["typeChecking"]) == (2, {})

    await eventually(is_without_warnings)


async def test_a_write_succeeds_while_policies_change_constantly(api: Client) -> None:
    """Each change makes a write be evaluated again: a script can be as fast as that, for as long as it lasts."""
    await enforce(api, "object.spec.size < 10")

    async def storm() -> None:
        for number in range(30):
            await enforce(api, "object.spec.size < 9", name=f"p{number}")

    storming = asyncio.create_task(storm())
    made = 0
    while not storming.done() or not made:
        (await api.post(WIDGETS, widget(f"w{made}", size=1))).ok(201)
        made += 1
    await storming


TOKENS = {"resourceRules": [rule("CREATE", resources="serviceaccounts/token", group="")]}


async def test_requests_for_tokens(api: Client) -> None:
    """The object is the TokenRequest, the resource serviceaccounts/token."""
    expression = (
        "object.spec.expirationSeconds <= 1200 && request.kind.kind == 'TokenRequest' && request.name == 'default'"
    )
    await enforce(api, expression, name="tokens", match=TOKENS)
    path = f"{NAMESPACES}/default/serviceaccounts/default/token"
    refused = await api.post(path, {"spec": {"expirationSeconds": 3600}})
    assert refused.code == 422
    denied = "ValidatingAdmissionPolicy 'tokens' with binding 'tokens' denied request: no"
    assert refused.json["message"] == f'serviceaccounts "default" is forbidden: {denied}'
    assert (await api.post(path, {"spec": {"expirationSeconds": 1200}})).ok(201)["status"]["token"]
    # A token request is still no resource of its own.
    assert (await api.get("/apis/authentication.k8s.io/v1/tokenrequests")).code == 404


@pytest.mark.parametrize(
    "group, policy, path, event, code",
    [
        pytest.param("", "Equivalent", NEW_EVENTS, NEW_EVENT, 422, id="a rule for the core group, and the other"),
        pytest.param("events.k8s.io", "Equivalent", CORE_EVENTS, CORE_EVENT, 422, id="the other way around"),
        pytest.param("", "Exact", NEW_EVENTS, NEW_EVENT, 201, id="exactly the core group"),
        pytest.param("events.k8s.io", "Exact", CORE_EVENTS, CORE_EVENT, 201, id="exactly events.k8s.io"),
    ],
)
async def test_events_of_both_groups_are_equivalent(
    api: Client, group: str, policy: str, path: str, event: dict[str, Any], code: int
) -> None:
    """What a rule names is the form that the policy sees."""
    text, involved = ("note", "regarding") if group else ("message", "involvedObject")
    seen = f"request.resource.group == '{group}' && object.{text} == 'bad' && has(object.{involved})"
    match = {"matchPolicy": policy, "resourceRules": [rule("CREATE", resources="events", group=group)]}
    await enforce(api, f"!({seen})", match=match)
    answer = await api.post(f"{path}?dryRun=All", event)
    assert answer.code == code, answer.json


async def test_policies_do_not_apply_to_reviews(api: Client) -> None:
    await enforce(api, "false", match={"resourceRules": [EVERY_RESOURCE]})
    assert (await api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})).code == 201
    question = {"spec": {"user": "u", "nonResourceAttributes": {"path": "/", "verb": "get"}}}
    assert (await api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", question)).code == 201
    assert (await api.post(WIDGETS, widget("a"))).code == 422
