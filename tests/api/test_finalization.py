"""Finalizers: a deleted object remains until its last finalizer is removed."""

from __future__ import annotations

import pytest

from tests.api.client import Client
from tests.api.errors import failure
from tests.api.widgets import WIDGETS, make, widget
from tests.application import shares_application

pytestmark = shares_application


A = f"{WIDGETS}/a"
HELD = {"finalizers": ["example.com/one", "example.com/two"]}


async def held(api: Client) -> None:
    (await api.post(WIDGETS, widget("a", metadata=HELD, size=1))).ok(201)


async def test_a_deletion_with_finalizers_sets_the_timestamp_only(api: Client) -> None:
    await held(api)
    marked = (await api.delete(A)).ok(200)
    assert marked["kind"] == "Widget"
    metadata = marked["metadata"]
    assert metadata["deletionTimestamp"]
    assert metadata["deletionGracePeriodSeconds"] == 0
    assert metadata["generation"] == 2
    assert (await api.get(A)).ok() == marked


async def test_a_second_deletion_changes_nothing(api: Client) -> None:
    await held(api)
    marked = (await api.delete(A)).ok()
    assert (await api.delete(A)).ok() == marked


async def test_removing_the_last_finalizer_deletes_the_object(api: Client) -> None:
    await held(api)
    (await api.delete(A)).ok()
    first = (await api.patch(A, {"metadata": {"finalizers": ["example.com/two"]}})).ok()
    assert first["metadata"]["deletionTimestamp"]
    last = (await api.patch(A, {"metadata": {"finalizers": None}})).ok(200)
    assert "finalizers" not in last["metadata"]
    failure(await api.get(A), 404, "NotFound")


async def test_no_finalizer_is_added_during_deletion(api: Client) -> None:
    await held(api)
    (await api.delete(A)).ok()
    body = {"metadata": {"finalizers": [*HELD["finalizers"], "example.com/three"]}}
    status = failure(await api.patch(A, body), 422, "Invalid")
    assert "no new finalizers can be added if the object is being deleted" in status["message"]


async def test_the_deletion_timestamp_cannot_be_removed(api: Client) -> None:
    await held(api)
    marked = (await api.delete(A)).ok()
    kept = (await api.patch(A, {"metadata": {"deletionTimestamp": None}})).ok()
    assert kept["metadata"]["deletionTimestamp"] == marked["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize("seconds", [3, -1])
async def test_the_grace_period_of_a_terminating_object_is_immutable(api: Client, seconds: int) -> None:
    await held(api)
    terminating = (await api.delete(A)).ok()
    changed = {**terminating, "metadata": {**terminating["metadata"], "deletionGracePeriodSeconds": seconds}}
    for answer in (
        await api.put(A, changed),
        await api.patch(A, {"metadata": {"deletionGracePeriodSeconds": seconds}}),
    ):
        causes = failure(answer, 422, "Invalid")["details"]["causes"]
        assert {(cause["field"], cause["message"]) for cause in causes} == {
            ("metadata.deletionGracePeriodSeconds", f"Invalid value: {seconds}: field is immutable")
        }
    for kept in (0, None):
        answer = await api.patch(A, {"metadata": {"deletionGracePeriodSeconds": kept}})
        assert answer.ok()["metadata"]["deletionGracePeriodSeconds"] == 0


async def test_the_name_of_a_terminating_object_is_in_use(api: Client) -> None:
    await held(api)
    (await api.delete(A)).ok()
    status = failure(await api.post(WIDGETS, widget("a")), 409, "AlreadyExists")
    assert status["message"] == 'object is being deleted: widgets.test.example.com "a" already exists'


async def test_watchers_see_modified_and_then_deleted(api: Client) -> None:
    [other] = await make(api, "b")
    async with api.watch(f"{WIDGETS}?watch=1&resourceVersion={other['metadata']['resourceVersion']}") as watch:
        await held(api)
        (await api.delete(A)).ok()
        (await api.patch(A, {"metadata": {"finalizers": None}})).ok()
        events = await watch.events(3)
    assert [e["type"] for e in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert events[1]["object"]["metadata"]["deletionTimestamp"]


async def test_delete_collection_marks_objects_with_finalizers(api: Client) -> None:
    await held(api)
    await make(api, "b")
    (await api.delete(WIDGETS)).ok()
    [left] = (await api.get(WIDGETS)).ok()["items"]
    assert left["metadata"]["name"] == "a"
    assert left["metadata"]["deletionTimestamp"]


async def test_foreground_deletion_is_a_finalizer(api: Client) -> None:
    await make(api, "a")
    marked = (await api.delete(f"{A}?propagationPolicy=Foreground")).ok()
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
