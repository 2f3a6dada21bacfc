"""Webhooks and what is not only an object: events of two groups, reviews of access and tokens, requests for tokens."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admission.policies import CORE_EVENT, CORE_EVENTS, EVERY_RESOURCE, NEW_EVENT, NEW_EVENTS, rule
from tests.admission.webhooks import Hook, Response, configure, patch
from tests.api.client import MERGE, Client

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("policy", ["Equivalent", "Exact"])
@pytest.mark.parametrize("group, other", [("", "events.k8s.io"), ("events.k8s.io", "")], ids=["core", "events.k8s.io"])
async def test_events_are_reviewed_in_the_form_of_the_rule(
    api: Client, hook: Hook, group: str, other: str, policy: str
) -> None:
    """A rule for one of the two groups of events, and requests through the other."""
    text, involved = ("note", "regarding") if group else ("message", "involvedObject")
    await configure(api, hook, "a", rules=[rule(resources="events", group=group)], matchPolicy=policy)
    path, event = (NEW_EVENTS, NEW_EVENT) if other else (CORE_EVENTS, CORE_EVENT)
    made = (await api.post(path, event)).ok(201)
    change = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}}
    (await api.patch(f"{path}/e", change, MERGE)).ok()
    (await api.delete(f"{path}/e")).ok()
    if policy == "Exact":
        assert hook.asked == []
        return
    assert [request["operation"] for _, request in hook.asked] == ["CREATE", "UPDATE", "DELETE"]
    for _, request in hook.asked:
        assert request["kind"] == {"group": group, "version": "v1", "kind": "Event"}
        assert request["resource"] == {"group": group, "version": "v1", "resource": "events"}
        assert request["requestKind"] == {"group": other, "version": "v1", "kind": "Event"}
        assert request["requestResource"] == {"group": other, "version": "v1", "resource": "events"}
        for obj in (request["object"], request["oldObject"]):
            if obj is not None:
                assert (obj["apiVersion"], obj[text]) == (f"{group}/v1".removeprefix("/"), "bad")
                assert (obj[involved]["namespace"], obj["metadata"]["uid"]) == ("default", made["metadata"]["uid"])
    create, update, delete = [request for _, request in hook.asked]
    assert update["object"]["series"]["count"] == 2
    assert (create["oldObject"], delete["object"]) == (None, None)


@pytest.mark.parametrize(
    "group, path, event",
    [
        pytest.param("", NEW_EVENTS, NEW_EVENT, id="core"),
        pytest.param("events.k8s.io", CORE_EVENTS, CORE_EVENT, id="events.k8s.io"),
    ],
)
async def test_a_webhook_patches_an_event_in_the_form_of_its_rule(
    api: Client, hook: Hook, group: str, path: str, event: dict[str, Any]
) -> None:
    hook.answer = lambda _, request: patch(
        {"op": "replace", "path": "/note" if group else "/message", "value": "better"}
    )
    await configure(api, hook, "a", kind="Mutating", rules=[rule("CREATE", resources="events", group=group)])
    made = (await api.post(path, event)).ok(201)
    assert (made["apiVersion"], made["message" if group else "note"]) == (event["apiVersion"], "better")
    for events, name in ((CORE_EVENTS, "message"), (NEW_EVENTS, "note")):
        assert (await api.get(f"{events}/e")).ok()[name] == "better"
    (await api.delete(f"{path}/e")).ok()


ACCESS = "/apis/authorization.k8s.io/v1"
AUTHENTICATION = "/apis/authentication.k8s.io/v1"
QUESTION: Response = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}
REVIEWS: dict[str, tuple[str, Response]] = {
    "subjectaccessreviews": (ACCESS, {"spec": {"user": "u", **QUESTION}}),
    "selfsubjectaccessreviews": (ACCESS, {"spec": QUESTION}),
    "localsubjectaccessreviews": (f"{ACCESS}/namespaces/default", {"spec": {"user": "u", **QUESTION}}),
    "selfsubjectrulesreviews": (ACCESS, {"spec": {"namespace": "default"}}),
    "tokenreviews": (AUTHENTICATION, {"spec": {"token": "t"}}),
    "selfsubjectreviews": (AUTHENTICATION, {}),
}


@pytest.mark.parametrize("resource", REVIEWS)
async def test_webhooks_do_not_see_reviews(api: Client, hook: Hook, resource: str) -> None:
    path, question = REVIEWS[resource]
    await configure(api, hook, "first", kind="Mutating", rules=[EVERY_RESOURCE])
    await configure(api, hook, "then", rules=[EVERY_RESOURCE])
    (await api.post(f"{path}/{resource}", question)).ok(201)
    assert hook.asked == []


@pytest.mark.usefixtures("as_1_36")
@pytest.mark.parametrize("resource", REVIEWS)
async def test_webhooks_see_reviews_in_1_36(api: Client, hook: Hook, resource: str) -> None:
    path, question = REVIEWS[resource]
    await configure(api, hook, "first", kind="Mutating", rules=[EVERY_RESOURCE])
    await configure(api, hook, "then", rules=[EVERY_RESOURCE])
    answer = (await api.post(f"{path}/{resource}?dryRun=All", question)).ok(201)
    assert [path for path, _ in hook.asked] == ["/first", "/then"]
    for _, request in hook.asked:
        assert (request["operation"], request["resource"]["resource"]) == ("CREATE", resource)
        assert request["object"]["kind"] == request["kind"]["kind"] == answer["kind"]
        assert (request["dryRun"], request.get("name")) == (True, None)
        assert (request["object"].get("spec") or {}).items() >= question.get("spec", {}).items()
        assert request.get("namespace", "") == ("default" if "namespaces" in path else "")
    hook.answer = lambda path, request: {"allowed": path == "/first"}
    denied = await api.post(f"{path}/{resource}", question)
    assert denied.json["message"] == 'admission webhook "then.example.com" denied the request without explanation'


@pytest.mark.usefixtures("as_1_36")
@pytest.mark.parametrize(
    "resource, operation, expected",
    [
        ("subjectaccessreviews", {"op": "replace", "path": "/spec/user", "value": "v"}, {"spec": {"user": "v"}}),
        ("tokenreviews", {"op": "replace", "path": "/spec/token", "value": "v"}, {"spec": {"token": "v"}}),
        (
            "selfsubjectrulesreviews",
            {"op": "remove", "path": "/spec/namespace"},
            {"message": "no namespace on request"},
        ),
        (
            "tokenreviews",
            {"op": "remove", "path": "/spec/token"},
            {"message": "token is required for TokenReview in authentication"},
        ),
    ],
)
async def test_reviews_are_answered_after_mutation(
    api: Client, hook: Hook, resource: str, operation: Response, expected: Response
) -> None:
    path, question = REVIEWS[resource]
    hook.answer = lambda path, request: patch(operation) if path == "/change" else {"allowed": True}
    await configure(api, hook, "change", kind="Mutating", rules=[EVERY_RESOURCE])
    await configure(api, hook, "look", rules=[EVERY_RESOURCE])
    answer = (await api.post(f"{path}/{resource}", question)).json
    for name, value in expected.items():
        assert answer[name] == value if isinstance(value, str) else answer[name].items() >= value.items()
    assert ("/look" in [path for path, _ in hook.asked]) == ("status" in answer and answer["kind"] != "Status")


@pytest.mark.usefixtures("as_1_36")
async def test_another_process_calls_a_new_webhook_for_the_next_review(api: Client, other: Client, hook: Hook) -> None:
    path, question = REVIEWS["selfsubjectreviews"]
    (await other.post(f"{path}/selfsubjectreviews", question)).ok(201)
    await configure(api, hook, "a", rules=[EVERY_RESOURCE])
    answer = await other.post(f"{path}/selfsubjectreviews", question)
    assert (answer.code, answer.json["reason"]) == (500, "InternalError")
    assert "failed calling webhook" in answer.json["message"]


async def test_webhooks_see_a_request_for_a_token(api: Client, hook: Hook) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts"
    account = (await api.post(path, {"metadata": {"name": "t"}})).ok(201)
    try:
        rules = [rule("CREATE", resources="serviceaccounts/token", group="")]
        await configure(api, hook, "first", kind="Mutating", rules=rules)
        await configure(api, hook, "then", rules=rules)
        answer = (await api.post(f"{path}/t/token", {"spec": {"audiences": ["a"]}})).ok(201)
    finally:
        (await api.delete(f"{path}/t")).ok()
    first, then = [request for _, request in hook.asked]
    for request in (first, then):
        assert (request["name"], request["namespace"], request["subResource"]) == ("t", "default", "token")
        assert request["object"]["spec"] == {"audiences": ["a"], "expirationSeconds": 3600, "boundObjectRef": None}
        assert request["object"]["status"] == {"token": "", "expirationTimestamp": None}
    assert first["object"]["metadata"]["namespace"] == "default"
    assert not {"name", "uid"} & set(first["object"]["metadata"])
    metadata = then["object"]["metadata"]
    assert (metadata["name"], metadata["uid"]) == ("t", account["metadata"]["uid"])
    assert metadata["creationTimestamp"] == answer["metadata"]["creationTimestamp"]


async def test_a_service_always_has_a_status(api: Client, hook: Hook) -> None:
    """As Go's struct has: a webhook may add to it without testing whether it is there."""
    await configure(api, hook, "a", kind="Mutating", rules=[EVERY_RESOURCE])
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"clusterIP": "None"}}
    for body in (service, {**service, "spec": {"clusterIP": "None", "selector": {"a": "b"}}}):
        path = "/api/v1/namespaces/default/services"
        answer = await (api.put(f"{path}/s", body) if hook.asked else api.post(path, body))
        made = answer.ok(answer.code)
    assert [request["operation"] for _, request in hook.asked] == ["CREATE", "UPDATE"]
    assert [request["object"]["status"] for _, request in hook.asked] == [{"loadBalancer": {}}] * 2
    assert all("f:status" not in entry["fieldsV1"] for entry in made["metadata"]["managedFields"])
