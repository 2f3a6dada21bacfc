"""Garbage collection: dependents of owners that are deleted, terminating or missing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Client, eventually
from tests.api.widgets import DEFINITIONS, GROUP, NAMESPACES, WIDGETS, define, definition
from tests.application import shares_application
from tests.controllers.family import HOLD, absent, born, gone, marked, reference, released, there, wait_until_idle

pytestmark = shares_application


THINGS = f"/apis/{GROUP}/v1/things"


async def things(api: Client) -> None:
    """A cluster-scoped resource."""
    await define(api, definition("things", "Thing", scope="Cluster"))


async def test_background_deletion_collects_every_level(api: Client) -> None:
    root = await born(api, "root")
    child = await born(api, "child", root, blocks=True)
    await born(api, "grandchild", child)
    assert (await api.delete(f"{WIDGETS}/root")).ok(200)["status"] == "Success"
    await gone(api, "root", "child", "grandchild")


async def test_a_dry_run_collects_nothing(api: Client) -> None:
    root = await born(api, "root")
    await born(api, "child", root)
    (await api.delete(f"{WIDGETS}/root?dryRun=All")).ok(200)
    await wait_until_idle(api)
    await there(api, "child")


async def test_a_child_with_finalizers_is_marked_and_keeps_its_children_and_owners(api: Client) -> None:
    root = await born(api, "root")
    child = await born(api, "child", root, held=True)
    await born(api, "grandchild", child)
    (await api.delete(f"{WIDGETS}/root")).ok(200)
    found = (await marked(api, "child"))["metadata"]
    assert found["deletionGracePeriodSeconds"] == 0
    assert found["generation"] == 2
    assert found["ownerReferences"] == [reference(root)]
    await wait_until_idle(api)
    await there(api, "grandchild")
    await released(api, "child")
    await gone(api, "child", "grandchild")


async def test_a_terminating_owner_still_counts_as_present(api: Client) -> None:
    root = await born(api, "root", held=True)
    (await api.delete(f"{WIDGETS}/root")).ok(200)
    await born(api, "child", root)
    await wait_until_idle(api)
    await there(api, "child")
    await released(api, "root")
    await gone(api, "child")


OWNERS_THAT_ARE_NOT: dict[str, dict[str, Any]] = {
    "another uid": {"uid": "11111111-2222-4333-8444-555555555555"},
    "another name": {"name": "other"},
}


@pytest.mark.parametrize("wrong", OWNERS_THAT_ARE_NOT.values(), ids=OWNERS_THAT_ARE_NOT)
async def test_an_owner_with_wrong_coordinates_counts_as_absent(api: Client, wrong: dict[str, Any]) -> None:
    root = await born(api, "root")
    await born(api, "child", reference(root, **wrong))
    await gone(api, "child")


OWNERS_OF_UNKNOWN_KIND: dict[str, dict[str, Any]] = {
    "kind": {"kind": "Gadget"},
    "kind in lower case": {"kind": "widget"},
    "version": {"apiVersion": f"{GROUP}/v2"},
    "group": {"apiVersion": "other.example.com/v1"},
}


@pytest.mark.parametrize("unknown", OWNERS_OF_UNKNOWN_KIND.values(), ids=OWNERS_OF_UNKNOWN_KIND)
async def test_an_object_with_an_owner_of_unknown_kind_is_left_alone(api: Client, unknown: dict[str, Any]) -> None:
    root = await born(api, "root")
    await born(api, "child", absent(), reference(root, **unknown))
    await wait_until_idle(api)
    assert len((await there(api, "child"))["ownerReferences"]) == 2


async def test_absent_owners_are_dropped_beside_a_live_one(api: Client) -> None:
    one, two = await born(api, "one"), await born(api, "two")
    await born(api, "child", absent(), one, absent("nobody") | {"uid": "00000000-0000-4000-8000-000000000002"}, two)

    async def has_owners(*names: str) -> None:
        async def look() -> bool:
            return [r["name"] for r in (await there(api, "child"))["ownerReferences"]] == list(names)

        await eventually(look)

    await has_owners("one", "two")
    assert (await there(api, "child"))["generation"] == 1
    (await api.delete(f"{WIDGETS}/one")).ok()
    await has_owners("two")
    (await api.delete(f"{WIDGETS}/two")).ok()
    await gone(api, "child")


async def test_an_absent_owner_added_by_a_patch(api: Client) -> None:
    await born(api, "child")
    (await api.patch(f"{WIDGETS}/child", {"metadata": {"ownerReferences": [absent()]}})).ok(200)
    await gone(api, "child")


async def test_a_reference_removed_before_the_collection(api: Client) -> None:
    root = await born(api, "root")
    await born(api, "child", root)
    (await api.patch(f"{WIDGETS}/child", {"metadata": {"ownerReferences": None}})).ok(200)
    (await api.delete(f"{WIDGETS}/root")).ok(200)
    await wait_until_idle(api)
    await there(api, "child")


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_deleting_a_member_collects_the_whole_cycle(api: Client, policy: str) -> None:
    one = await born(api, "one")
    two = await born(api, "two", one, blocks=True)
    circle = {"metadata": {"ownerReferences": [reference(two, blocks=True)]}}
    (await api.patch(f"{WIDGETS}/one", circle)).ok(200)
    await wait_until_idle(api)
    await there(api, "one")
    (await api.delete(f"{WIDGETS}/one?propagationPolicy={policy}")).ok(200)
    await gone(api, "one", "two")


async def test_foreground_waits_for_blocking_children(api: Client) -> None:
    root = await born(api, "root")
    await born(api, "blocking", root, held=True, blocks=True)
    await born(api, "free", root)
    answer = (await api.delete(f"{WIDGETS}/root?propagationPolicy=Foreground")).ok(200)
    assert answer["metadata"]["finalizers"] == ["foregroundDeletion"]
    await marked(api, "blocking")
    await gone(api, "free")
    await born(api, "late", root, blocks=True)
    await wait_until_idle(api)
    await there(api, "late")
    await there(api, "root")
    await released(api, "blocking")
    await gone(api, "root", "blocking", "late")


async def test_foreground_deletion_descends_through_all_levels(api: Client) -> None:
    root = await born(api, "root")
    child = await born(api, "child", root, blocks=True)
    await born(api, "grandchild", child, held=True, blocks=True)
    (await api.delete(f"{WIDGETS}/root?propagationPolicy=Foreground")).ok(200)
    await marked(api, "grandchild")
    assert (await marked(api, "child"))["metadata"]["finalizers"] == ["foregroundDeletion"]
    await released(api, "grandchild")
    await gone(api, "grandchild", "child", "root")


async def test_an_owner_is_deleted_once_no_child_blocks_it(api: Client) -> None:
    root = await born(api, "root")
    await born(api, "child", root, held=True, blocks=True)
    (await api.delete(f"{WIDGETS}/root?propagationPolicy=Foreground")).ok(200)
    await marked(api, "child")
    (await api.patch(f"{WIDGETS}/child", {"metadata": {"ownerReferences": [reference(root)]}})).ok(200)
    await gone(api, "root")


async def test_foreground_deletion_keeps_children_with_another_owner(api: Client) -> None:
    one, two = await born(api, "one"), await born(api, "two")
    await born(api, "shared", one, two, blocks=True)
    (await api.delete(f"{WIDGETS}/one?propagationPolicy=Foreground")).ok(200)
    await gone(api, "one")
    found = await there(api, "shared")
    assert [r["name"] for r in found["ownerReferences"]] == ["two"]
    assert "deletionTimestamp" not in found


async def test_orphans_lose_just_that_owner(api: Client) -> None:
    root, other = await born(api, "root", held=True), await born(api, "other")
    await born(api, "child", root)
    await born(api, "shared", root, other)
    answer = (await api.delete(f"{WIDGETS}/root", {"propagationPolicy": "Orphan"})).ok(200)
    assert answer["metadata"]["finalizers"] == [HOLD, "orphan"]

    async def orphaned() -> bool:
        return bool((await there(api, "root"))["finalizers"] == [HOLD])

    await eventually(orphaned)
    child, shared = await there(api, "child"), await there(api, "shared")
    assert "ownerReferences" not in child
    assert child["generation"] == 1
    assert [r["name"] for r in shared["ownerReferences"]] == ["other"]
    await released(api, "root")
    await gone(api, "root")
    await wait_until_idle(api)
    await there(api, "child")


async def test_delete_collection_follows_the_propagation_policy(api: Client) -> None:
    one, two = await born(api, "one"), await born(api, "two", held=True)
    await born(api, "of-one", one)
    await born(api, "of-two", two)
    answer = (await api.delete(f"{WIDGETS}?fieldSelector=metadata.name!=of-two,metadata.name!=of-one")).ok(200)
    assert [item["metadata"].get("deletionTimestamp") for item in answer["items"]] == [None, None]
    await gone(api, "one", "of-one")
    await wait_until_idle(api)
    await there(api, "of-two")


async def test_owners_of_other_scopes(api: Client) -> None:
    await things(api)
    top = (await api.post(THINGS, {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": "top"}})).ok(201)
    local = await born(api, "local", top)
    cluster = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Thing",
        "metadata": {"name": "wrong", "ownerReferences": [reference(local)]},
    }
    (await api.post(THINGS, cluster)).ok(201)
    (await api.delete(f"{THINGS}/top")).ok(200)
    await gone(api, "local")
    await wait_until_idle(api)
    await there(api, "wrong", path=THINGS)


async def test_an_owner_in_another_namespace_counts_as_absent_and_is_reported_in_an_event(api: Client) -> None:
    (await api.post(NAMESPACES, {"metadata": {"name": "there"}})).ok()
    path = WIDGETS.replace("default", "there")
    here = await born(api, "here")
    await born(api, "child", here, path=path)
    await gone(api, "child", path=path)

    async def event() -> Any:
        return (await api.get("/api/v1/namespaces/there/events")).ok()["items"]

    [found] = await eventually(event)
    assert found["reason"] == "OwnerRefInvalidNamespace"
    uid = here["metadata"]["uid"]
    assert found["message"] == (
        f'ownerRef [{GROUP}/v1/Widget, namespace: there, name: here, uid: {uid}] does not exist in namespace "there"'
    )


async def test_built_in_kinds_own_and_are_owned(api: Client) -> None:
    path = f"{NAMESPACES}/default/configmaps"
    owner = (await api.post(path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}})).ok(201)
    child = await born(api, "child", owner)
    references = [reference(child)]
    (await api.post(path, {"metadata": {"name": "grandchild", "ownerReferences": references}})).ok(201)
    (await api.delete(f"{path}/owner")).ok(200)
    await gone(api, "child")
    await gone(api, "grandchild", path=path)


async def test_a_definition_as_an_owner_and_its_objects_as_owners(api: Client) -> None:
    await things(api)
    crd = (await api.get(f"{DEFINITIONS}/things.{GROUP}")).ok()
    top = (await api.post(THINGS, {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": "top"}})).ok(201)
    await born(api, "of-the-definition", crd)
    await born(api, "of-the-object", top)
    (await api.delete(f"{DEFINITIONS}/things.{GROUP}")).ok(200)
    await gone(api, "of-the-definition", "of-the-object")
