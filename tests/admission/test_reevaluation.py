"""Requests whose tenant changes definitions, policies or webhooks after they have been evaluated, before their commit.

The webhook makes the change itself, before it answers: so it always falls between the two.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.admission.policies import ADMISSION, BINDINGS, POLICIES, enforce, mutate, named, rule, widget
from tests.admission.webhooks import Hook, Response, configure, patch
from tests.api.client import MERGE, Client
from tests.api.widgets import DEFINITIONS, GROUP, WIDGETS, definition
from tests.http.exposition import exposition, risen

pytestmark = pytest.mark.asyncio(loop_scope="module")
VALIDATING = f"{ADMISSION}/validatingwebhookconfigurations"
WIDGET_DEFINITION = f"{DEFINITIONS}/widgets.{GROUP}"
ALLOWED: Response = {"allowed": True}
Meanwhile = Callable[[], Awaitable[object]]
_numbers = itertools.count()


def answering(
    hook: Hook,
    meanwhile: Meanwhile,
    *,
    once: bool = False,
    answer: Callable[[str, dict[str, Any]], Response] = lambda path, request: ALLOWED,
) -> None:
    """The webhook answers when what happens meanwhile is done: each time, or only the first."""
    loop = asyncio.get_running_loop()
    done = False

    async def happen() -> None:
        await meanwhile()

    def answer_once(path: str, request: dict[str, Any]) -> Response:
        nonlocal done
        if not (done and once):
            done = True
            asyncio.run_coroutine_threadsafe(happen(), loop).result(120)
        return answer(path, request)

    hook.answer = answer_once


@pytest.fixture(params=["this process", "another process"])
def changing(request: pytest.FixtureRequest, api: Client, other: Client) -> Client:
    """Who makes the changes."""
    return api if request.param == "this process" else other


def unrelated(client: Client) -> Meanwhile:
    """Each time one of the changes that concern no widget."""

    async def policy() -> None:
        name = f"none-{next(_numbers)}"
        rules = {"resourceRules": [rule(resources="gadgets")]}
        await enforce(client, "false", name=name, match=rules)
        (await client.delete(f"{POLICIES}/{name}")).ok()

    async def webhook() -> None:
        one = {
            "name": "none.example.com",
            "rules": [rule(resources="gadgets")],
            "sideEffects": "None",
            "clientConfig": {"url": "https://none.example.com/"},
            "admissionReviewVersions": ["v1"],
        }
        body = {**named("ValidatingWebhookConfiguration", f"none-{next(_numbers)}"), "webhooks": [one]}
        (await client.post(VALIDATING, body)).ok(201)

    async def defined() -> None:
        plural = f"gadget{next(_numbers)}s"
        (await client.post(DEFINITIONS, definition(plural, plural.title()))).ok(201)
        (await client.delete(f"{DEFINITIONS}/{plural}.{GROUP}")).ok()

    changes = itertools.cycle((policy, webhook, defined))
    return lambda: next(changes)()


def painted(path: str, request: dict[str, Any]) -> Response:
    return patch({"op": "add", "path": "/spec/color", "value": "blue"}) if path == "/paint" else ALLOWED


async def test_unrelated_changes_repeat_no_webhook_calls(api: Client, changing: Client, hook: Hook) -> None:
    answering(hook, unrelated(changing), answer=painted)
    on_writes = [rule("CREATE", "UPDATE")]
    await configure(api, hook, "paint", kind="Mutating", rules=on_writes)
    await configure(api, hook, "look")

    async def reviews_during(writing: Awaitable[Any]) -> tuple[Any, list[str]]:
        hook.asked.clear()
        answer = await writing
        return answer, [path for path, _ in hook.asked]

    both = ["/paint", "/look"]
    answer, paths = await reviews_during(api.post(WIDGETS, widget("a", size=1)))
    assert (answer.ok(201)["spec"], paths) == ({"size": 1, "color": "blue"}, both)
    answer, paths = await reviews_during(api.post(f"{WIDGETS}?dryRun=All", widget("b", size=1)))
    assert (answer.ok(201)["spec"], paths) == ({"size": 1, "color": "blue"}, both)
    made = (await api.get(f"{WIDGETS}/a")).ok()
    answer, paths = await reviews_during(api.put(f"{WIDGETS}/a", {**made, "spec": {"size": 2}}))
    assert (answer.ok()["spec"], paths) == ({"size": 2, "color": "blue"}, both)
    answer, paths = await reviews_during(api.patch(f"{WIDGETS}/a", {"spec": {"size": 3}}, MERGE))
    assert (answer.ok()["spec"], paths) == ({"size": 3, "color": "blue"}, both)
    answer, paths = await reviews_during(api.delete(f"{WIDGETS}/a"))
    assert (answer.code, paths) == (200, ["/look"])


async def test_the_created_object_is_the_reviewed_one(api: Client, changing: Client, hook: Hook) -> None:
    answering(hook, unrelated(changing))
    await configure(api, hook, "look")
    body = widget("", size=1)
    body["metadata"] = {"generateName": "w-"}
    made = (await api.post(WIDGETS, body)).ok(201)["metadata"]
    [(_, request)] = hook.asked
    seen = request["object"]["metadata"]
    assert (seen["uid"], seen["name"]) == (made["uid"], made["name"])
    assert made["name"].startswith("w-")


async def test_each_object_of_a_collection_is_asked_about_once(api: Client, changing: Client, hook: Hook) -> None:
    for name in ("a", "b", "c"):
        (await api.post(WIDGETS, widget(name))).ok(201)
    answering(hook, unrelated(changing))
    await configure(api, hook, "look")
    (await api.delete(WIDGETS)).ok()
    assert [request["oldObject"]["metadata"]["name"] for _, request in hook.asked] == ["a", "b", "c"]
    assert (await api.get(WIDGETS)).ok()["items"] == []


@pytest.mark.parametrize("code", [400, 403, 409, 500])
async def test_a_denying_webhook_is_called_once(api: Client, changing: Client, hook: Hook, code: int) -> None:
    no: Response = {"allowed": False, "status": {"code": code, "message": "no"}, "warnings": ["careful"]}
    answering(hook, unrelated(changing), answer=lambda path, request: no)
    await configure(api, hook, "look")
    (await api.get(WIDGETS)).ok()  # the process knows of the webhook before it evaluates
    answer = await api.post(WIDGETS, widget("a"))
    assert (answer.code, answer.warnings, len(hook.asked)) == (code, ["careful"], 1)
    assert answer.json["message"] == 'admission webhook "look.example.com" denied the request: no'


async def test_a_webhook_with_an_invalid_response_is_called_once(api: Client, changing: Client, hook: Hook) -> None:
    answering(hook, unrelated(changing), answer=lambda path, request: {"uid": "another", "allowed": True})
    await configure(api, hook, "look", failurePolicy="Ignore")
    (await api.post(WIDGETS, widget("a"))).ok(201)
    assert len(hook.asked) == 1
    hook.asked.clear()
    await configure(api, hook, "see")
    answer = await api.post(WIDGETS, widget("b"))
    assert answer.code == 500
    assert sorted(path for path, _ in hook.asked) == ["/look", "/see"]


async def test_while_a_script_changes_other_policies(api: Client, other: Client, hook: Hook) -> None:
    await configure(api, hook, "look")
    over = asyncio.Event()

    async def script() -> int:
        change, changes = unrelated(other), 0
        while not over.is_set():
            await change()
            changes += 1
        return changes

    running = asyncio.create_task(script())
    # There are more changes than writes, so each write meets some.
    names = [f"w{i}" for i in range(12)]
    for name in names:
        (await api.post(WIDGETS, widget(name))).ok(201)
        (await api.patch(f"{WIDGETS}/{name}", {"spec": {"size": 2}}, MERGE)).ok()
    over.set()
    assert await running
    asked = [(request["name"], request["operation"]) for _, request in hook.asked]
    assert asked == [(name, operation) for name in names for operation in ("CREATE", "UPDATE")]


async def test_a_policy_that_comes_into_force_meanwhile_is_obeyed(api: Client, changing: Client, hook: Hook) -> None:
    old = (await api.post(WIDGETS, widget("old", size=1))).ok(201)
    await configure(api, hook, "look")
    writes: list[Callable[[], Awaitable[Any]]] = [
        lambda: api.post(WIDGETS, widget("new", size=9)),
        lambda: api.put(f"{WIDGETS}/old", {**old, "spec": {"size": 9}}),
        lambda: api.patch(f"{WIDGETS}/old", {"spec": {"size": 9}}, MERGE),
        lambda: api.delete(f"{WIDGETS}/old"),
        lambda: api.delete(WIDGETS),
    ]
    for write in writes:
        answering(hook, lambda: enforce(changing, "object != null && object.spec.size < 5"), once=True)
        answer = await write()
        assert (answer.code, answer.json["reason"]) == (422, "Invalid")
        assert "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no" in answer.json["message"]
        for path in (f"{BINDINGS}/p", f"{POLICIES}/p"):
            (await changing.delete(path)).ok()
    assert (await api.get(f"{WIDGETS}/new")).code == 404
    assert (await api.get(f"{WIDGETS}/old")).ok() == old


async def test_a_mutation_that_comes_into_force_meanwhile_is_made_and_recorded(
    api: Client, changing: Client, hook: Hook
) -> None:
    def answer_and_change(path: str, request: dict[str, Any]) -> Response:
        return {"allowed": request["object"]["spec"]["size"] < 5}

    answering(hook, lambda: mutate(changing, "Object{spec: Object.spec{size: 9}}"), once=True, answer=answer_and_change)
    await configure(api, hook, "look")
    assert (await api.post(WIDGETS, widget("a", size=1))).code == 400
    assert [request["object"]["spec"]["size"] for _, request in hook.asked] == [1, 9]
    assert (await api.get(f"{WIDGETS}/a")).code == 404


async def test_a_webhook_that_is_configured_meanwhile_is_asked(api: Client, changing: Client, hook: Hook) -> None:
    answering(
        hook,
        lambda: configure(changing, hook, "late"),
        once=True,
        answer=lambda path, request: {"allowed": path != "/late"},
    )
    await configure(api, hook, "look")
    answer = await api.post(WIDGETS, widget("a"))
    assert answer.json["message"] == 'admission webhook "late.example.com" denied the request without explanation'
    assert sorted(path for path, _ in hook.asked) == ["/late", "/look"], "the one that has answered is not asked again"
    assert (await api.get(f"{WIDGETS}/a")).code == 404


async def test_a_webhook_whose_configuration_changes_meanwhile_is_asked_again(
    api: Client, changing: Client, hook: Hook
) -> None:
    async def move() -> None:
        made = (await changing.get(f"{VALIDATING}/c-look")).ok()
        made["webhooks"][0]["clientConfig"]["url"] = f"{hook.url}/moved"
        (await changing.put(f"{VALIDATING}/c-look", made)).ok()

    answering(hook, move, once=True, answer=lambda path, request: {"allowed": path != "/moved"})
    await configure(api, hook, "look")
    assert (await api.post(WIDGETS, widget("a"))).code == 400
    assert [path for path, _ in hook.asked] == ["/look", "/moved"]


async def test_the_definition_that_stands_at_the_commit_counts(api: Client, changing: Client, hook: Hook) -> None:
    made = (await api.get(WIDGET_DEFINITION)).ok()

    async def bound(maximum: int | None) -> None:
        found = (await changing.get(WIDGET_DEFINITION)).ok()
        size = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]
        if maximum is None:
            size.pop("maximum", None)
        else:
            size["maximum"] = maximum
        (await changing.put(WIDGET_DEFINITION, found)).ok()

    answering(hook, lambda: bound(5), once=True)
    await configure(api, hook, "look")
    try:
        answer = await api.post(WIDGETS, widget("a", size=9))
        assert (answer.code, answer.json["reason"]) == (422, "Invalid")
        assert (await api.get(f"{WIDGETS}/a")).code == 404
    finally:
        await bound(None)
    assert (await api.get(WIDGET_DEFINITION)).ok()["spec"] == made["spec"]


async def test_objects_changed_concurrently_are_reviewed_again(api: Client, other: Client, hook: Hook) -> None:
    """A patch of another object than the webhook has seen is another question, as in Kubernetes.

    In one process the second change would wait for its turn.
    """
    (await api.post(WIDGETS, widget("a", size=1, replicas=1))).ok(201)
    await configure(api, hook, "look", rules=[rule("UPDATE")])
    scale = f"{WIDGETS}/a/scale"
    answering(hook, lambda: other.patch(scale, {"spec": {"replicas": 3}}, MERGE), once=True)
    patched = (await api.patch(f"{WIDGETS}/a", {"spec": {"size": 2}}, MERGE)).ok()
    assert (patched["spec"]["size"], patched["spec"]["replicas"]) == (2, 3)
    assert [request["object"]["spec"]["replicas"] for _, request in hook.asked] == [1, 3]


async def test_a_name_that_is_generated_again_is_what_webhooks_see(
    api: Client, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = iter(["w-a", "w-b"])
    monkeypatch.setattr("registry.api.metadata.generate_name", lambda base: next(names))
    (await api.post(WIDGETS, widget("w-a"))).ok(201)
    await configure(api, hook, "paint", kind="Mutating")
    await configure(api, hook, "look")
    body = widget("", size=1)
    body["metadata"] = {"generateName": "w-"}
    made = (await api.post(WIDGETS, body)).ok(201)["metadata"]
    seen = [(path, request.get("name", ""), request["object"]["metadata"].get("name")) for path, request in hook.asked]
    assert seen == [("/paint", "", None), ("/look", "w-a", "w-a"), ("/look", "w-b", "w-b")]
    assert (made["name"], made["uid"]) == ("w-b", hook.asked[-1][1]["object"]["metadata"]["uid"])


async def test_warnings_and_annotations_of_a_write_are_reported_once(api: Client, changing: Client, hook: Hook) -> None:
    """Warnings and metrics of the attempt that counts, and of no other."""
    before = await exposition(api)
    await enforce(api, "false", binding={"validationActions": ["Warn"]})
    (await api.get(WIDGETS)).ok()
    answering(
        hook, unrelated(changing), once=True, answer=lambda path, request: {"allowed": True, "warnings": ["careful"]}
    )
    await configure(api, hook, "look")
    answer = await api.post(f"{WIDGETS}?fieldValidation=Warn", {**widget("a"), "bogus": 1})
    answer.ok(201)
    no = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': no"
    assert answer.warnings == ['unknown field "bogus"', no, "careful"]
    checks = await risen(api, before, "apiserver_validating_admission_policy_check_total")
    assert checks == {'{enforcement_action="warn",error_type="no_error"}': 1}
