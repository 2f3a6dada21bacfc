"""Webhooks over HTTP: which are called and in which order, and what a client reads."""

from __future__ import annotations

from typing import Any

import pytest

from registry.http.middleware import deadline
from tests.admission.policies import ADMISSION, CONFIG_MAPS, EVERY_RESOURCE, rule, widget
from tests.admission.webhooks import Hook, Response, configure, patch
from tests.api.client import MERGE, Client
from tests.api.errors import failure
from tests.api.widgets import NAMESPACES, WIDGETS

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_refusal(api: Client, hook: Hook) -> None:
    hook.answer = lambda path, request: {
        "allowed": False,
        "warnings": ["careful"],
        "status": {"code": 409, "reason": "Conflict", "message": "taken"},
    }
    await configure(api, hook, "a")
    answer = await api.post(WIDGETS, widget("a"))
    assert (answer.code, answer.json["reason"]) == (409, "Conflict")
    assert answer.json["message"] == 'admission webhook "a.example.com" denied the request: taken'
    assert answer.warnings == ["careful"]
    assert (await api.get(f"{WIDGETS}/a")).code == 404


async def test_a_refusal_with_all_of_a_status(api: Client, hook: Hook) -> None:
    metadata = {"selfLink": "/x", "resourceVersion": "7", "continue": "c", "remainingItemCount": 3}
    details = {"name": "n", "uid": "u", "retryAfterSeconds": 5}
    status = {"metadata": metadata, "status": "Odd", "code": 429, "reason": "TooManyRequests", "details": details}
    hook.answer = lambda path, request: {"allowed": False, "status": status}
    await configure(api, hook, "a")
    answer = await api.post(WIDGETS, widget("a"))
    message = 'admission webhook "a.example.com" denied the request: TooManyRequests'
    assert (answer.code, answer.json) == (429, status | {"kind": "Status", "apiVersion": "v1", "message": message})
    assert answer.header("retry-after") == "5"


async def test_reviews_of_a_namespace(api: Client, hook: Hook) -> None:
    rules = [rule(group="", resources="namespaces")]
    await configure(api, hook, "m", kind="Mutating", rules=rules)
    await configure(api, hook, "v", rules=rules)
    made = (await api.post(NAMESPACES, {"metadata": {"name": "reviewed"}})).ok(201)
    _, first = hook.asked.pop(0)
    assert (first["object"]["spec"], first["object"]["status"]) == ({}, {"phase": "Active"})
    hook.asked.clear()
    path = f"{NAMESPACES}/reviewed"
    (await api.patch(path, {"metadata": {"finalizers": ["example.com/held"]}})).ok()
    hook.asked.clear()
    for _ in range(2):  # the second one changes nothing, and is not reviewed
        (await api.delete(path, {"gracePeriodSeconds": 0})).ok()
    preconditions = {"uid": made["metadata"]["uid"]}
    assert [request["options"].get("preconditions") for _, request in hook.asked] == [preconditions, preconditions]


@pytest.mark.parametrize(
    "sent, expected",
    [
        ({"preconditions": {}}, {"preconditions": {}}),
        ({"preconditions": {"uid": None}}, {"preconditions": {}}),
        ({"preconditions": None}, {}),
        # A negative grace period is one second (rest/delete.go).
        ({"gracePeriodSeconds": -3}, {"gracePeriodSeconds": 1}),
    ],
)
async def test_the_options_of_a_deletion(
    api: Client, hook: Hook, sent: dict[str, object], expected: dict[str, object]
) -> None:
    await configure(api, hook, "a")
    (await api.post(WIDGETS, widget("a"))).ok(201)
    (await api.delete(f"{WIDGETS}/a", sent)).ok()
    _, review = hook.asked[-1]
    assert review["options"] == {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", **expected}


async def test_the_admission_review_of_a_webhook(api: Client, hook: Hook) -> None:
    await configure(api, hook, "a")
    (await api.post(f"{WIDGETS}?fieldManager=me", widget("a", size=1))).ok(201)
    (await api.patch(f"{WIDGETS}/a", {"spec": {"size": 2}}, MERGE)).ok()
    (await api.delete(f"{WIDGETS}/a")).ok()
    create, update, delete = [request for _, request in hook.asked]
    assert [r["operation"] for r in (create, update, delete)] == ["CREATE", "UPDATE", "DELETE"]
    assert create["oldObject"] is None
    assert create["object"]["metadata"]["uid"]
    assert create["options"] == {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"}
    assert (update["oldObject"]["spec"]["size"], update["object"]["spec"]["size"]) == (1, 2)
    assert delete["object"] is None
    assert delete["oldObject"]["spec"]["size"] == 2


def _numbered(path: str, request: dict[str, Any]) -> Response:
    if path == "/increment":
        return patch({"op": "replace", "path": "/spec/size", "value": request["object"]["spec"]["size"] + 1})
    return patch({"op": "add", "path": "/spec/color", "value": "blue"})


async def test_mutating_webhooks_one_by_one_and_once_more_where_they_ask_for_it(api: Client, hook: Hook) -> None:
    hook.answer = _numbered
    await configure(api, hook, "increment", "color", kind="Mutating", reinvocationPolicy="IfNeeded")
    made = (await api.post(WIDGETS, widget("a", size=1))).ok(201)
    assert made["spec"] == {"size": 3, "color": "blue"}
    assert [path for path, _ in hook.asked] == ["/increment", "/color", "/increment", "/color"]
    assert hook.asked[1][1]["object"]["spec"]["size"] == 2


async def test_mutating_comes_before_validating(api: Client, hook: Hook) -> None:
    hook.answer = lambda path, request: (
        patch({"op": "replace", "path": "/spec/size", "value": -1}) if path == "/change" else {"allowed": True}
    )
    await configure(api, hook, "change", kind="Mutating")
    await configure(api, hook, "look")
    answer = await api.post(WIDGETS, widget("a", size=1))
    assert answer.code == 422, "the schema validates what the webhook has made"
    assert [path for path, _ in hook.asked] == ["/change"]


async def test_a_mutating_webhook_sees_the_revision_that_the_client_has_sent(api: Client, hook: Hook) -> None:
    path, body = f"{CONFIG_MAPS}/rev", {"metadata": {"name": "rev"}}
    first = (await api.post(CONFIG_MAPS, body)).ok(201)["metadata"]["resourceVersion"]
    rules = [rule("UPDATE", resources="configmaps", group="")]
    await configure(api, hook, "a", kind="Mutating", rules=rules)
    await configure(api, hook, "c", rules=rules)
    second = (await api.put(path, {**body, "data": {"k": "1"}})).ok()["metadata"]["resourceVersion"]
    sent = {"metadata": {"name": "rev", "resourceVersion": second}, "data": {"k": "2"}}
    third = (await api.put(path, sent)).ok()["metadata"]["resourceVersion"]
    (await api.patch(path, {"data": {"k": "3"}}, MERGE)).ok()
    (await api.delete(path)).ok()
    seen = [(asked, request["object"]["metadata"].get("resourceVersion")) for asked, request in hook.asked]
    assert [revision for asked, revision in seen if asked == "/a"] == [None, second, third]
    assert [revision for asked, revision in seen if asked == "/c"] == [first, second, third]


async def test_conditions_do_not_see_the_namespace(api: Client, hook: Hook) -> None:
    """As in kube-apiserver, where match conditions are evaluated without it."""
    conditions = [{"name": "n", "expression": "namespaceObject.metadata.name == 'default'"}]
    await configure(api, hook, "a", matchConditions=conditions)
    answer = await api.post(WIDGETS, widget("b"))
    assert (answer.code, answer.json["message"].partition(" resulted in error: ")[2]) == (403, "no such key: metadata")


async def test_a_webhook_that_cannot_be_called(api: Client, hook: Hook, caplog: pytest.LogCaptureFixture) -> None:
    await configure(api, hook, "a", clientConfig={"service": {"name": "none", "namespace": "default"}})
    answer = await api.post(WIDGETS, widget("a"))
    assert (answer.code, answer.json["reason"]) == (500, "InternalError")
    assert answer.json["message"] == (
        'Internal error occurred: failed calling webhook "a.example.com": failed to call webhook: Post '
        '"https://none.default.svc:443/?timeout=20s": service "none" not found'
    )
    assert 'such as "none.default": give it with --webhook-services' in caplog.text
    change = {"webhooks": [{"name": "a.example.com", "failurePolicy": "Ignore"}]}
    path = f"{ADMISSION}/validatingwebhookconfigurations/c-a"
    (await api.patch(path, change, "application/strategic-merge-patch+json")).ok()
    (await api.post(WIDGETS, widget("a"))).ok(201)


async def test_the_operator_says_where_calls_may_go(api: Client, other: Client, hook: Hook) -> None:
    await configure(api, hook, "a")
    answer = await other.post(WIDGETS, widget("a"))
    assert answer.code == 500
    assert "the address is not one that webhooks may be called at" in answer.json["message"]
    assert hook.asked == []


async def test_an_invalid_bundle_is_accepted_and_not_trusted(api: Client, hook: Hook) -> None:
    await configure(api, hook, "a", clientConfig={"url": f"{hook.url}/a", "caBundle": "eA=="})
    answer = await api.post(WIDGETS, widget("a"))
    assert answer.json["message"] == (
        'Internal error occurred: failed calling webhook "a.example.com": could not get REST client: unable to load '
        "root certificates: unable to parse bytes as PEM block"
    )


async def test_webhooks_are_never_asked_about_the_configuration_of_admission(api: Client, hook: Hook) -> None:
    hook.answer = lambda path, request: {"allowed": False}
    await configure(api, hook, "a", rules=[EVERY_RESOURCE])
    assert (await api.post(WIDGETS, widget("a"))).code == 400
    (await api.delete(f"{ADMISSION}/validatingwebhookconfigurations/c-a")).ok()
    (await api.post(WIDGETS, widget("a"))).ok(201)


async def test_a_webhook_has_no_more_time_than_the_request(api: Client, hook: Hook) -> None:
    await configure(api, hook, "first", kind="Mutating")
    await configure(api, hook, "then")
    (await api.post(WIDGETS, widget("whole"))).ok(201)
    assert hook.queries == ["timeout=20s"] * 2
    hook.queries.clear()
    (await api.post(f"{WIDGETS}?timeout=19s", widget("less"))).ok(201)
    left = [int(query.removeprefix("timeout=").removesuffix("s")) for query in hook.queries]
    assert len(left) == 2
    assert all(0 < seconds <= 19 for seconds in left)


async def test_no_webhook_is_called_after_the_request_has_taken_a_minute(
    api: Client, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    await configure(api, hook, "first", kind="Mutating", failurePolicy="Ignore")
    monkeypatch.setattr(deadline, "_MAXIMUM_SECONDS", 0.0)
    failure(await api.post(WIDGETS, widget("late")), 504, "Timeout")
    failure(await api.get(f"{WIDGETS}/late"), 404, "NotFound")
    assert hook.asked == []
