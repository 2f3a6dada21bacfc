"""Watches: start revisions, selectors, bookmarks, and how a watch ends."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import pytest
from starlette.applications import Starlette

from registry.flowcontrol.byte_shares import HeldAnswer
from registry.store.reads.pages import Pages, Query
from registry.store.types import Page, Tenant
from tests.api.client import PARTIAL, TABLE, Client
from tests.api.errors import failure, status_shape
from tests.api.histories import forget_history
from tests.api.widgets import (
    ALL_WIDGETS,
    DEFINITIONS,
    GROUP,
    NAMESPACES,
    WIDGETS,
    define,
    definition,
    make,
    revision,
    short,
    widget,
)
from tests.application import has_own_application, shares_application

pytestmark = shares_application


async def test_without_a_resource_version_a_watch_starts_with_existing_objects(api: Client) -> None:
    made = await make(api, "b", "a")
    async with api.watch(f"{WIDGETS}?watch=true") as watch:
        assert await watch.events(2) == [{"type": "ADDED", "object": o} for o in reversed(made)]
        await make(api, "c")
        assert short(await watch.event()) == ("ADDED", "c")


async def test_every_change_in_its_order(api: Client) -> None:
    start = await revision(api)
    [made] = await make(api, "a", size=1)
    changed = (await api.patch(f"{WIDGETS}/a", {"spec": {"size": 2}})).ok()
    (await api.delete(f"{WIDGETS}/a")).ok()
    async with api.watch(f"{WIDGETS}?watch=1&resourceVersion={start}") as watch:
        events = await watch.events(3)
    assert events[:2] == [{"type": "ADDED", "object": made}, {"type": "MODIFIED", "object": changed}]
    assert short(events[2]) == ("DELETED", "a")
    gone = events[2]["object"]
    assert gone["spec"] == {"size": 2, "color": "grey"}
    assert int(gone["metadata"]["resourceVersion"]) > int(changed["metadata"]["resourceVersion"])


async def test_a_watch_from_each_revision_returns_the_later_events(api: Client) -> None:
    """Wherever a client was cut off, it sees exactly what it has not seen."""
    start = await revision(api)
    await make(api, *"abcd")
    (await api.patch(f"{WIDGETS}/a", {"spec": {"size": 2}})).ok()
    (await api.delete(f"{WIDGETS}/b")).ok()
    async with api.watch(f"{WIDGETS}?watch=1&resourceVersion={start}") as watch:
        whole = await watch.events(6)
    for number, event in enumerate(whole[:-1], 1):
        at = event["object"]["metadata"]["resourceVersion"]
        async with api.watch(f"{WIDGETS}?watch=1&resourceVersion={at}") as watch:
            assert await watch.events(6 - number) == whole[number:]


async def test_a_watch_is_limited_to_its_namespace_and_resource(api: Client) -> None:
    (await api.post(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})).ok(201)
    await define(api, definition("gears", "Gear"))
    start = await revision(api)
    async with (
        api.watch(f"{WIDGETS}?watch=1&resourceVersion={start}") as narrow,
        api.watch(f"{ALL_WIDGETS}?watch=1&resourceVersion={start}") as wide,
    ):
        gear = {"apiVersion": f"{GROUP}/v1", "kind": "Gear", "metadata": {"name": "g"}}
        (await api.post(f"/apis/{GROUP}/v1/namespaces/default/gears", gear)).ok(201)
        await make(api, "far", path=f"/apis/{GROUP}/v1/namespaces/other/widgets")
        await make(api, "near")
        assert short(await narrow.event()) == ("ADDED", "near")
        assert [short(e) for e in await wide.events(2)] == [("ADDED", "far"), ("ADDED", "near")]


async def test_one_object_by_its_name(api: Client) -> None:
    start = await revision(api)
    for query in (
        f"{WIDGETS}?watch=1&fieldSelector=metadata.name=b&resourceVersion={start}",
        f"/apis/{GROUP}/v1/watch/namespaces/default/widgets/b?resourceVersion={start}",
    ):
        async with api.watch(query) as watch:
            if query.startswith(WIDGETS):
                await make(api, "a", "b", "c")
            assert short(await watch.event()) == ("ADDED", "b")


@pytest.mark.parametrize(
    "query, patches",
    [
        ("labelSelector=on=yes", [{"metadata": {"labels": {"on": v}}} for v in ("yes", "no")]),
        ("labelSelector=!on", [{"metadata": {"labels": {"on": v}}} for v in (None, "no")]),
        ("fieldSelector=spec.color=red", [{"spec": {"color": v}} for v in ("red", "blue")]),
        ("fieldSelector=spec.color=red&labelSelector=!x", [{"spec": {"color": v}} for v in ("red", "blue")]),
    ],
    ids=["a label", "no label", "a field", "both"],
)
async def test_objects_enter_and_leave_a_selection(api: Client, query: str, patches: list[dict[str, Any]]) -> None:
    start = await revision(api)
    into, out = patches
    path = f"{WIDGETS}/a"
    (await api.post(WIDGETS, widget("a", labels={"on": "no"}))).ok(201)
    (await api.patch(path, into)).ok()
    inside = (await api.patch(path, {"spec": {"size": 5}})).ok()
    left = (await api.patch(path, out)).ok()
    (await api.patch(path, {"spec": {"size": 6}})).ok()
    (await api.patch(path, into)).ok()
    (await api.delete(path)).ok()
    async with api.watch(f"{WIDGETS}?watch=1&{query}&resourceVersion={start}") as watch:
        events = await watch.events(5)
    assert [e["type"] for e in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
    # What leaves is shown as it was, at the revision at which it left.
    assert events[2]["object"]["spec"] == inside["spec"]
    assert events[2]["object"]["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]


@has_own_application
async def test_initial_events_end_with_a_bookmark(api: Client) -> None:
    await make(api, "a", "b")
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with api.watch(f"{WIDGETS}?{query}") as watch:
        events = await watch.events(3)
    assert [short(e) for e in events] == [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", "")]
    metadata = events[2]["object"]["metadata"]
    assert metadata["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert metadata["resourceVersion"] == await revision(api)
    # As recorded from kube-apiserver 1.36.2: a Table says it too, even without objects.
    async with api.watch(f"{WIDGETS}?{query}&includeObject=None", accept=TABLE) as watch:
        events = await watch.events(3)
    rows = [event["object"]["rows"][0]["object"] for event in events]
    assert rows[:2] == [None, None]
    assert rows[2]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


@has_own_application
async def test_no_bookmark_ends_the_initial_events_of_the_old_path(api: Client) -> None:
    """Upstream adds sendInitialEvents to a watch that the parameter requests, not to one of this path."""
    await make(api, "a")
    path = f"/apis/{GROUP}/v1/watch/namespaces/default/widgets?allowWatchBookmarks=true"
    async with api.watch(path) as old, api.watch(f"{path}&watch=1") as new:
        await old.event()
        await new.event()
        await make(api, "b")
        assert [short(e) for e in await new.events(2)] == [("BOOKMARK", ""), ("ADDED", "b")]
        assert short(await old.event()) == ("ADDED", "b")


@pytest.mark.parametrize(
    ("path", "zeros"),
    [
        pytest.param("/api/v1/configmaps", {}, id="configmaps"),
        pytest.param("/api/v1/namespaces", {"spec": {}, "status": {}}, id="namespaces"),
        pytest.param("/api/v1/services", {"spec": {}, "status": {"loadBalancer": {}}}, id="services"),
        pytest.param("/api/v1/limitranges", {"spec": {"limits": None}}, id="limit ranges"),
        pytest.param(
            "/api/v1/events",
            {
                "involvedObject": {},
                "source": {},
                **dict.fromkeys(("firstTimestamp", "lastTimestamp", "eventTime")),
                **dict.fromkeys(("reportingComponent", "reportingInstance"), ""),
            },
            id="events",
        ),
        pytest.param(
            "/apis/events.k8s.io/v1/events",
            {
                "regarding": {},
                "deprecatedSource": {},
                **dict.fromkeys(("eventTime", "deprecatedFirstTimestamp", "deprecatedLastTimestamp")),
            },
            id="events of events.k8s.io",
        ),
        pytest.param("/apis/rbac.authorization.k8s.io/v1/roles", {"rules": None}, id="roles"),
        pytest.param("/apis/coordination.k8s.io/v1/leases", {"spec": {}}, id="leases"),
        pytest.param(
            "/apis/apiregistration.k8s.io/v1/apiservices",
            {"spec": {"groupPriorityMinimum": 0, "versionPriority": 0}, "status": {}},
            id="APIServices",
        ),
        pytest.param(
            DEFINITIONS,
            {
                "spec": {"group": "", "names": {"plural": "", "kind": ""}, "scope": "", "versions": None},
                "status": {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": None},
            },
            id="definitions",
        ),
    ],
)
async def test_the_object_of_a_bookmark_has_the_empty_fields_of_its_kind(
    api: Client, path: str, zeros: dict[str, Any]
) -> None:
    """As compared with kube-apiserver 1.36."""
    query = "watch=1&allowWatchBookmarks=true&labelSelector=no=such"
    async with api.watch(f"{path}?{query}") as watch:
        event = await watch.event()
    assert event["type"] == "BOOKMARK"
    assert {name: v for name, v in event["object"].items() if name not in ("apiVersion", "kind", "metadata")} == zeros


async def test_a_bookmark_in_a_table_of_times_has_the_time_of_none(api: Client) -> None:
    query = "watch=1&allowWatchBookmarks=true&labelSelector=no=such"
    async with api.watch(f"/apis/rbac.authorization.k8s.io/v1/roles?{query}", accept=TABLE) as watch:
        event = await watch.event()
    assert event["object"]["rows"][0]["cells"] == ["", "0001-01-01T00:00:00Z"]


@has_own_application
async def test_no_bookmark_ends_the_state_of_a_zero_with_two_digits(api: Client) -> None:
    """It begins with the objects, but upstream adds sendInitialEvents to a watch from `0` or from no revision only."""
    await make(api, "a")
    query = "watch=1&allowWatchBookmarks=true&timeoutSeconds=1"
    for revision_, expected in (("00", ["ADDED"]), ("0", ["ADDED", "BOOKMARK"])):
        async with api.watch(f"{WIDGETS}?{query}&resourceVersion={revision_}") as watch:
            assert [event["type"] for event in await watch.until_end()] == expected


@has_own_application
async def test_a_quiet_watch_gets_bookmarks(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("registry.api.verbs.watch.BOOKMARK_SECONDS", 0.05)
    start = await revision(api)
    async with api.watch(f"{WIDGETS}?watch=1&allowWatchBookmarks=true&resourceVersion={start}") as watch:
        event = await watch.event()
        assert event == {
            "type": "BOOKMARK",
            "object": {"kind": "Widget", "apiVersion": f"{GROUP}/v1", "metadata": {"resourceVersion": start}},
        }
        # What others write moves the bookmark on, without an event.
        (await api.post(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})).ok(201)
        while int((await watch.event())["object"]["metadata"]["resourceVersion"]) <= int(start):
            pass


@has_own_application
@pytest.mark.slow
async def test_a_bookmark_precedes_the_end_of_a_quiet_watch(api: Client) -> None:
    start = await revision(api)
    path = f"{WIDGETS}?watch=1&timeoutSeconds=3&resourceVersion={start}"
    async with api.watch(f"{path}&allowWatchBookmarks=true") as watch, api.watch(path) as other:
        (await api.post(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})).ok(201)
        [event] = await watch.until_end()
        assert await other.until_end() == []
    assert event["type"] == "BOOKMARK"
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(start)


async def test_bookmarks_are_sent_on_request_only(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("registry.api.verbs.watch.BOOKMARK_SECONDS", 0.02)
    path = f"{WIDGETS}?watch=1&resourceVersion={await revision(api)}"
    async with api.watch(path) as watch, api.watch(f"{path}&allowWatchBookmarks=true") as other:
        assert {event["type"] for event in await other.events(3)} == {"BOOKMARK"}
        await make(api, "a")
        assert short(await watch.event()) == ("ADDED", "a")


async def test_a_watch_from_a_compacted_revision_is_expired(api: Client, api_database: str) -> None:
    start = await revision(api)
    await make(api, "a")
    await forget_history(api_database)
    async with api.watch(f"{WIDGETS}?watch=1&resourceVersion={int(start) - 1}") as watch:
        # The process may still hold what the log has lost; then it may go on.
        event = await watch.event()
    if event["type"] == "ERROR":
        status = status_shape(event["object"], 410, "Expired")
        assert status["message"].startswith("too old resource version: ")


@pytest.mark.slow
async def test_the_client_sets_the_timeout(api: Client) -> None:
    started = time.monotonic()
    async with api.watch(f"{WIDGETS}?watch=1&timeoutSeconds=1") as watch:
        assert await watch.until_end() == []
    assert time.monotonic() - started > 0.9  # and not the half hour that the server gives by itself


@has_own_application
async def test_all_watches_end_when_the_server_stops(api: Client, app: Starlette) -> None:
    async with api.watch(f"{WIDGETS}?watch=1") as first, api.watch(f"{DEFINITIONS}?watch=1") as second:
        await make(api, "a")
        assert short(await first.event()) == ("ADDED", "a")
        app.state.stopping.set()
        assert await first.until_end() == []
        assert [short(e) for e in await second.until_end()] == [("ADDED", "widgets.test.example.com")]


async def test_no_page_of_the_state_is_read_before_there_is_room_for_it(
    api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of watches at once read a page each, for which there was no room."""
    path = f"{NAMESPACES}/default/configmaps"
    for number in range(6):
        metadata = {"name": f"large{number}", "labels": {"of": "a-long-state"}}
        (await api.post(path, {"metadata": metadata, "data": {"text": "x" * 1_000_000}})).ok(201)
    held: list[int] = []
    read = Pages.chunk

    async def noted(self: Pages, tenant: Tenant, query: Query, limit: int) -> Page:
        answer = HeldAnswer.current()
        held.append(0 if answer is None else answer.held_bytes)
        return await read(self, tenant, query, limit)

    monkeypatch.setattr(Pages, "chunk", noted)
    async with api.watch(f"{path}?watch=true&labelSelector=of%3Da-long-state") as watch:
        assert len(await watch.events(6)) == 6
    assert len(held) > 1
    assert min(held) > 4_000_000, held


async def test_a_slow_reader_delays_no_other_and_loses_nothing(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for it is bounded; beyond that it reads the log again by itself."""
    monkeypatch.setattr("registry.store.feed.subscription.MAX_QUEUED", 5)
    start = await revision(api)
    async with (
        api.watch(f"{WIDGETS}?watch=1&resourceVersion={start}") as slow,
        api.watch(f"{WIDGETS}?watch=1&resourceVersion={start}") as quick,
    ):
        slow.stall()
        names = [f"w{n:02}" for n in range(40)]
        await make(api, *names)
        assert [short(e)[1] for e in await quick.events(40)] == names
        slow.read_on()
        assert [short(e)[1] for e in await slow.events(40)] == names


async def test_columns_come_with_the_first_row_of_a_table_only(api: Client) -> None:
    await make(api, "a", color="red")
    async with api.watch(f"{WIDGETS}?watch=1", accept=TABLE) as watch:
        first = await watch.event()
        await make(api, "b")
        second = await watch.event()
    assert first["object"]["kind"] == "Table"
    assert [c["name"] for c in first["object"]["columnDefinitions"]] == ["Name", "Color", "Size"]
    assert first["object"]["rows"][0]["cells"][:2] == ["a", "red"]
    assert not second["object"].get("columnDefinitions")


async def test_metadata_only(api: Client) -> None:
    await make(api, "a", size=1)
    async with api.watch(f"{WIDGETS}?watch=1", accept=PARTIAL) as watch:
        event = await watch.event()
    assert event["object"]["kind"] == "PartialObjectMetadata"
    assert "spec" not in event["object"]


@pytest.mark.parametrize(
    "query, code, reason",
    [
        ("labelSelector=a=b=c", 400, "BadRequest"),
        ("fieldSelector=spec.none=1", 400, "BadRequest"),
        ("resourceVersion=abc", 500, ""),
        ("sendInitialEvents=true", 422, "Invalid"),
        ("resourceVersionMatch=Exact&resourceVersion=1", 422, "Invalid"),
        ("continue=x", 422, "Invalid"),
        ("continue=x&resourceVersion=0", 422, "Invalid"),
        ("continue=x&resourceVersion=abc", 500, ""),
        ("timeoutSeconds=x", 400, "BadRequest"),
    ],
)
async def test_an_invalid_watch_is_refused_before_streaming(api: Client, query: str, code: int, reason: str) -> None:
    failure(await api.get(f"{WIDGETS}?watch=1&{query}"), code, reason)


async def test_a_watch_from_a_revision_ignores_a_continue_token(api: Client) -> None:
    start = await revision(api)
    await make(api, "a")
    async with api.watch(f"{WIDGETS}?watch=1&continue=x&resourceVersion={start}") as watch:
        assert short(await watch.event()) == ("ADDED", "a")


async def test_watches_when_their_definition_is_deleted(api: Client) -> None:
    """Its objects are deleted one by one; watchers see each."""
    await make(api, "a", "b")
    start = await revision(api)
    async with api.watch(f"{WIDGETS}?watch=1&resourceVersion={start}") as watch:
        (await api.delete(f"{DEFINITIONS}/widgets.{GROUP}")).ok()
        assert sorted(short(e) for e in await watch.events(2)) == [("DELETED", "a"), ("DELETED", "b")]


async def test_an_idle_watch_ends_after_its_definition_is_deleted(api: Client) -> None:
    async with api.watch(f"{WIDGETS}?watch=1&resourceVersion={await revision(api)}") as watch:
        (await api.delete(f"{DEFINITIONS}/widgets.{GROUP}")).ok()
        assert await watch.until_end() == []


async def test_many_watchers_see_the_same(api: Client) -> None:
    start = await revision(api)
    async with contextlib.AsyncExitStack() as stack:
        path = f"{WIDGETS}?watch=1&resourceVersion={start}"
        watches = [await stack.enter_async_context(api.watch(path)) for _ in range(20)]
        await asyncio.gather(*(api.post(WIDGETS, widget(f"w{n}")) for n in range(20)))
        seen = [[await watch.line() for _ in range(20)] for watch in watches]
    assert all(lines == seen[0] for lines in seen)
    assert len(set(seen[0])) == 20
