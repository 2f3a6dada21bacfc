"""Update: optimistic concurrency, immutable fields, generation, no-ops and races."""

from __future__ import annotations

import asyncio

import pytest

from tests.api.client import Client
from tests.api.errors import failure
from tests.api.widgets import NAMESPACES, WIDGETS, make, widget
from tests.application import shares_application, shares_tenant

pytestmark = [shares_application, shares_tenant]


A = f"{WIDGETS}/a"


async def test_an_update_replaces_the_whole_object(api: Client) -> None:
    [old] = await make(api, "a", size=1, parts=["x"])
    new = (await api.put(A, {**old, "spec": {"size": 2}})).ok(200)
    assert new["spec"] == {"size": 2, "color": "grey"}
    assert int(new["metadata"]["resourceVersion"]) > int(old["metadata"]["resourceVersion"])
    assert new["metadata"]["uid"] == old["metadata"]["uid"]


async def test_an_outdated_resource_version_is_a_conflict(api: Client) -> None:
    [old] = await make(api, "a", size=1)
    (await api.put(A, {**old, "spec": {"size": 2}})).ok()
    status = failure(await api.put(A, {**old, "spec": {"size": 3}}), 409, "Conflict")
    assert status["message"] == (
        'Operation cannot be fulfilled on widgets.test.example.com "a": the object has been modified; please apply '
        "your changes to the latest version and try again"
    )
    assert (await api.get(A)).ok()["spec"]["size"] == 2


async def test_an_update_of_a_custom_object_requires_a_resource_version(api: Client) -> None:
    await make(api, "a")
    for revision in ({}, {"resourceVersion": ""}, {"resourceVersion": "0"}):
        status = failure(await api.put(A, widget("a", metadata=revision, size=1)), 422, "Invalid")
        assert status["details"]["causes"][0]["field"] == "metadata.resourceVersion"


async def test_an_update_of_a_namespace_needs_no_resource_version(api: Client) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {"a": "b"}}}
    assert (await api.put(f"{NAMESPACES}/default", body)).ok()["metadata"]["labels"]["a"] == "b"


async def test_an_update_of_a_missing_object_is_not_found(api: Client) -> None:
    body = widget("a", metadata={"resourceVersion": "1"})
    assert failure(await api.put(A, body), 404, "NotFound")["message"] == 'widgets.test.example.com "a" not found'


async def test_the_name_of_the_body_must_be_that_of_the_path(api: Client) -> None:
    [old] = await make(api, "a")
    old["metadata"]["name"] = "b"
    status = failure(await api.put(A, old), 400, "BadRequest")
    assert status["message"] == ("the name of the object (b) does not match the name on the URL (a)")


async def test_a_changed_uid_is_a_conflict(api: Client) -> None:
    [old] = await make(api, "a")
    old["metadata"]["uid"] = "11111111-1111-1111-1111-111111111111"
    message = failure(await api.put(A, old), 409, "Conflict")["message"]
    assert "Key: /registry/test.example.com/widgets/default/a, " in message
    assert "Precondition failed: UID" in message
    # kube-apiserver checks a dry run above its storage, where keys have no prefix.
    message = failure(await api.put(f"{A}?dryRun=All", old), 409, "Conflict")["message"]
    assert "Key: /test.example.com/widgets/default/a, " in message


async def test_generation_counts_changes_of_the_spec(api: Client) -> None:
    [first] = await make(api, "a", size=1)
    labelled = (await api.patch(A, {"metadata": {"labels": {"x": "y"}}})).ok()
    assert labelled["metadata"]["generation"] == 1
    grown = (await api.patch(A, {"spec": {"size": 2}})).ok()
    assert grown["metadata"]["generation"] == 2
    stated = (await api.patch(f"{A}/status", {"status": {"phase": "Done"}})).ok()
    assert stated["metadata"]["generation"] == 2
    assert first["metadata"]["creationTimestamp"] == stated["metadata"]["creationTimestamp"]


async def test_an_update_that_changes_nothing_writes_nothing(api: Client) -> None:
    [made] = await make(api, "a", size=1)
    same = (await api.put(A, made)).ok(200)
    assert same == made
    assert (await api.get(A)).ok() == made


async def test_an_update_of_the_object_keeps_the_status(api: Client) -> None:
    await make(api, "a", size=1)
    made = (await api.patch(f"{A}/status", {"status": {"phase": "Done"}})).ok()
    new = (await api.put(A, {**made, "status": {"phase": "Undone"}, "spec": {"size": 2}})).ok()
    assert new["status"] == {"phase": "Done"}


async def test_an_invalid_update_is_refused(api: Client) -> None:
    [made] = await make(api, "a", size=1)
    failure(await api.put(A, {**made, "spec": {"size": "big"}}), 422, "Invalid")
    assert (await api.get(A)).ok() == made


async def test_an_update_to_another_kind_has_the_errors_of_its_metadata_too(api: Client) -> None:
    """Twice for the checks common to all updates; the strategy of the kind looks at the type first."""
    [made] = await make(api, "a")
    change = {"kind": "Other", "metadata": {"labels": {"x": "-"}, "uid": "u"}}
    refused = failure(await api.patch(A, change), 422, "Invalid")
    causes = [cause["field"] for cause in refused["details"]["causes"]]
    assert causes == ["metadata.labels", "metadata.uid", "metadata.labels", "kind"]
    assert (await api.get(A)).ok() == made


async def test_one_of_several_updates_at_one_revision_succeeds(api: Client) -> None:
    [made] = await make(api, "a", size=0)
    answers = await asyncio.gather(*(api.put(A, {**made, "spec": {"size": n}}) for n in range(1, 9)))
    assert sorted(a.code for a in answers) == [200] + [409] * 7
    [winner] = [a.json for a in answers if a.code == 200]
    assert (await api.get(A)).ok() == winner


async def test_patches_of_many_clients_are_all_applied(api: Client) -> None:
    """A patch says what it changes, so a lost race is run again."""
    await make(api, "a")
    answers = await asyncio.gather(*(api.patch(A, {"metadata": {"labels": {f"l{n}": "x"}}}) for n in range(12)))
    assert {a.code for a in answers} == {200}
    assert len((await api.get(A)).ok()["metadata"]["labels"]) == 12


@pytest.mark.parametrize("revision", ["abc", "-1", "1.5", "99999999999999999999"])
async def test_an_invalid_resource_version(api: Client, revision: str) -> None:
    [made] = await make(api, "a")
    made["metadata"]["resourceVersion"] = revision
    answer = await api.put(A, made)
    assert answer.code in (409, 500)
    failure(answer, answer.code, answer.json.get("reason", ""))
