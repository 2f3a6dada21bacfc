"""Webhooks over HTTP: who is asked, in which order, and what a client reads."""

from __future__ import annotations

from typing import Any

import pytest

from registry.http.middleware import deadline
from tests.admission.policies import ADMISSION, CORE_EVENT, CORE_EVENTS, NEW_EVENT, NEW_EVENTS, rule, widget
from tests.admission.webhooks import Hook, Response, configure, patch
from tests.api.client import MERGE, Answer, Client
from tests.api.errors import failure
from tests.api.widgets import GROUP, NAMESPACES, WIDGETS

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


async def test_a_patch_that_does_not_fit(api: Client, hook: Hook) -> None:
    hook.answer = lambda path, request: patch({"op": "test", "path": "/spec/size", "value": 9})
    await configure(api, hook, "a", kind="Mutating", failurePolicy="Ignore")
    answer = await api.post(WIDGETS, widget("a", size=1))
    assert answer.json["message"] == "Internal error occurred: testing value /spec/size failed: test failed"


CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


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
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    await configure(api, hook, "a", rules=[everything])
    assert (await api.post(WIDGETS, widget("a"))).code == 400
    (await api.delete(f"{ADMISSION}/validatingwebhookconfigurations/c-a")).ok()
    (await api.post(WIDGETS, widget("a"))).ok(201)


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
EVERY_RESOURCE = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}


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


_CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
WRITTEN_KINDS = pytest.mark.parametrize(
    "path", [pytest.param(WIDGETS, id="custom"), pytest.param(_CONFIG_MAPS, id="built-in")]
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
    maps = f"{NAMESPACES}/default/configmaps"
    path, group = (maps, "") if kind == "ConfigMap" else (WIDGETS, GROUP)
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
