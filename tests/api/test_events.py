"""Events over HTTP: what is theirs alone, and both of their groups."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import APPLY, JSON, MERGE, Client
from tests.api.errors import failure
from tests.application import shares_application

pytestmark = shares_application
CORE = "/api/v1/namespaces/default"
EVENTS, NEW_EVENTS = f"{CORE}/events", "/apis/events.k8s.io/v1/namespaces/default/events"
SOME_UID = "11111111-1111-4111-8111-111111111111"


async def test_events_of_both_groups_share_one_storage(api: Client) -> None:
    event = {
        "metadata": {"name": "e.1"},
        "involvedObject": {"kind": "Widget", "namespace": "default", "name": "w"},
        "message": "text",
        "reason": "Made",
        "source": {"component": "c"},
    }
    (await api.post(EVENTS, event)).ok(201)
    new = (await api.get(f"{NEW_EVENTS}/e.1")).ok()
    assert (new["apiVersion"], new["note"], new["regarding"]["name"]) == ("events.k8s.io/v1", "text", "w")
    for path in (
        f"{EVENTS}?fieldSelector=involvedObject.name=w,source=c",
        f"{NEW_EVENTS}?fieldSelector=regarding.name=w",
    ):
        assert [e["metadata"]["name"] for e in (await api.get(path)).ok()["items"]] == ["e.1"]
    failure(await api.get(f"{NEW_EVENTS}?fieldSelector=involvedObject.name=w"), 400, "BadRequest")
    async with api.watch(f"{EVENTS}?watch=true&fieldSelector=reason=Lost") as watch:
        lost = {
            "metadata": {"name": "e.2"},
            "regarding": {"namespace": "default"},
            "reason": "Lost",
            "action": "Look",
            "eventTime": "2026-03-04T05:06:07.000000Z",
            "reportingController": "c",
            "reportingInstance": "i",
            "type": "Warning",
            "note": "gone",
        }
        (await api.post(NEW_EVENTS, lost)).ok(201)
        seen = await watch.event()
    assert (seen["object"]["apiVersion"], seen["object"]["message"]) == ("v1", "gone")


def new_event(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, **metadata},
        "regarding": {"namespace": "default"},
        "reason": "Lost",
        "action": "Look",
        "eventTime": "2026-03-04T05:06:07.000000Z",
        "reportingController": "c",
        "reportingInstance": "i",
        "type": "Warning",
    }


async def test_an_empty_series_of_an_event_has_a_count_in_its_newer_form(api: Client) -> None:
    (await api.post(EVENTS, {"metadata": {"name": "s"}, "involvedObject": {"namespace": "default"}, "series": {}})).ok()
    newer = "/apis/events.k8s.io/v1/namespaces/default/events/s"
    assert (await api.get(newer)).ok()["series"] == {"count": 0, "lastObservedTime": None}
    assert (await api.get(f"{EVENTS}/s")).ok()["series"] == {"lastObservedTime": None}


async def test_a_write_through_the_newer_api_keeps_the_form_of_a_core_event(api: Client) -> None:
    """The core group never omits fields that events.k8s.io omits when they are empty, and the other way around."""
    made = {"metadata": {"name": "old"}, "involvedObject": {"namespace": "default"}, "series": {}}
    before = (await api.post(EVENTS, made)).ok(201)
    (await api.patch(f"{NEW_EVENTS}/old", {"metadata": {"labels": {"a": "b"}}})).ok()
    after = (await api.get(f"{EVENTS}/old")).ok()
    (listed,) = (await api.get(EVENTS)).ok()["items"]
    assert {**after, "metadata": None} == {**before, "metadata": None}
    assert listed == {name: value for name, value in after.items() if name not in ("apiVersion", "kind")}
    assert (after["reportingComponent"], after["metadata"]["labels"]) == ("", {"a": "b"})


async def test_events_are_paged_at_resource_version_0(api: Client) -> None:
    """kube-apiserver has no watch cache for them, which ignores the limit for other resources."""
    for name in "ab":
        (await api.post(EVENTS, {"metadata": {"name": name}, "involvedObject": {"namespace": "default"}})).ok(201)
    for path in (EVENTS, NEW_EVENTS):
        page = (await api.get(f"{path}?limit=1&resourceVersion=0")).ok()
        assert ([e["metadata"]["name"] for e in page["items"]], page["metadata"]["remainingItemCount"]) == (["a"], 1)
        rest = (await api.get(f"{path}?limit=1&continue={page['metadata']['continue']}")).ok()
        assert [e["metadata"]["name"] for e in rest["items"]] == ["b"]


async def test_an_update_creates_a_missing_event(api: Client) -> None:
    made = (await api.put(f"{NEW_EVENTS}/made", new_event("made"))).ok(201)
    assert (await api.get(f"{EVENTS}/made")).ok()["metadata"]["uid"] == made["metadata"]["uid"]
    status = failure(await api.put(f"{NEW_EVENTS}/other", {"metadata": {"name": "other"}}), 422, "Invalid")
    assert status["details"]["kind"] == "Event"
    status = failure(await api.put(f"{NEW_EVENTS}/third", new_event("third", uid=SOME_UID)), 409, "Conflict")
    assert status["message"].endswith(f"UID in precondition: {SOME_UID}, UID in object meta: ")
    assert "Key: /registry/events/default/third," in status["message"]
    failure(await api.get(f"{EVENTS}/third"), 404, "NotFound")


@pytest.mark.parametrize(
    "method, name, body, code, message",
    [
        pytest.param("POST", "", new_event("a" * 254), 422, "must be no more than 253", id="a long name"),
        pytest.param("POST", "", new_event("A_b"), 422, "a lowercase RFC 1123 subdomain", id="an odd name"),
        pytest.param(
            "PATCH",
            "/e",
            {"related": {"name": "r"}, "deprecatedSource": {"host": "h"}},
            422,
            'source: Invalid value: {"Component":"","Host":"h"}: field is immutable, related: Invalid value: '
            '{"Kind":"","Namespace":"","Name":"r","UID":"","APIVersion":"","ResourceVersion":"","FieldPath":""}: ',
            id="Go's names of members",
        ),
        pytest.param(
            "PATCH",
            "/e",
            {"related": {}},
            422,
            'related: Invalid value: {"Kind":"","Namespace":"","Name":"","UID":"","APIVersion":"","ResourceVersion":"",'
            '"FieldPath":""}: field is immutable',
            id="an empty reference is not an absent one",
        ),
        pytest.param(
            "DELETE",
            "/e",
            {"preconditions": {"uid": SOME_UID}},
            409,
            'Operation cannot be fulfilled on Event "e": the UID in the precondition',
            id="the precondition of a deletion",
        ),
    ],
)
async def test_failures_of_new_events_are_those_of_the_core_kind(
    api: Client, method: str, name: str, body: dict[str, Any], code: int, message: str
) -> None:
    (await api.put(f"{NEW_EVENTS}/e", new_event("e"))).ok(201)
    content_type = MERGE if method == "PATCH" else JSON
    answer = await api.request(method, f"{NEW_EVENTS}{name}", body, content_type=content_type)
    status = failure(answer, code, "Conflict" if code == 409 else "Invalid")
    assert message in status["message"]
    assert "group" not in status["details"]
    assert status["details"]["kind"] == "Event"


async def test_core_events_have_any_name_and_their_metadata_is_validated_twice(api: Client) -> None:
    event = {"metadata": {"name": "A_b"}, "involvedObject": {"namespace": "default"}}
    (await api.post(EVENTS, event)).ok(201)
    wrong = {"metadata": {"name": "A_b", "labels": {"a": "b c"}}, "involvedObject": {"namespace": "default"}}
    status = failure(await api.put(f"{EVENTS}/A_b", wrong), 422, "Invalid")
    assert [cause["field"] for cause in status["details"]["causes"]] == ["metadata.labels"] * 2


async def test_an_apply_through_one_api_of_events_gives_up_what_the_other_has_applied(api: Client) -> None:
    regarding = {"kind": "Pod", "name": "p", "namespace": "default"}
    core = {"involvedObject": regarding, "reason": "R", "message": "m", "type": "Normal", "source": {"component": "c"}}
    new = {
        "regarding": regarding,
        "reason": "R",
        "note": "m",
        "type": "Normal",
        "eventTime": "2024-01-01T00:00:00.000000Z",
        "action": "do",
        "reportingController": "example.com/c",
        "reportingInstance": "i",
    }
    name = {"metadata": {"name": "both-apis"}}
    first = {"apiVersion": "events.k8s.io/v1", "kind": "Event", **name, **new}
    (await api.patch(f"{NEW_EVENTS}/both-apis?fieldManager=new", first, APPLY)).ok(201)
    second = {"apiVersion": "v1", "kind": "Event", **name, **core}
    applied = (await api.patch(f"{EVENTS}/both-apis?fieldManager=core", second, APPLY)).ok(200)
    assert [entry["manager"] for entry in applied["metadata"]["managedFields"]] == ["core"]
    assert applied["action"] == "do"
