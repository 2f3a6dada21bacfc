"""Default objects of a namespace, and its deletion."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio

from registry.controllers import namespaces
from tests.api.client import Client, eventually
from tests.api.errors import failure
from tests.api.widgets import GROUP, NAMESPACES, widget
from tests.application import shares_application
from tests.controllers.family import HOLD, born, gone, marked, released, there

pytestmark = shares_application

SPACE = f"{NAMESPACES}/space"
WIDGETS = f"/apis/{GROUP}/v1/namespaces/space/widgets"


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def space(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A namespace of that name, and no wait before its end begins."""
    monkeypatch.setattr("registry.controllers.namespaces.GRACE_SECONDS", 0.0)
    (await api.post(NAMESPACES, {"metadata": {"name": "space"}})).ok(201)


async def came(api: Client, path: str) -> dict[str, Any]:
    async def look() -> Any:
        answer = await api.get(path)
        return answer.ok() if answer.code == 200 else None

    found: dict[str, Any] = await eventually(look)
    return found


async def condition(api: Client, name: str, status: str) -> dict[str, Any]:
    async def look() -> Any:
        conditions = (await api.get(SPACE)).ok()["status"].get("conditions") or []
        return next((c for c in conditions if c["type"] == name and c["status"] == status), None)

    found: dict[str, Any] = await eventually(look)
    return found


@pytest.mark.parametrize("path", ["serviceaccounts/default", "configmaps/kube-root-ca.crt"])
async def test_default_objects_of_a_namespace_are_recreated(api: Client, path: str) -> None:
    first = await came(api, f"{SPACE}/{path}")
    (await api.delete(f"{SPACE}/{path}")).ok(200)
    second = await came(api, f"{SPACE}/{path}")
    assert second["metadata"]["uid"] != first["metadata"]["uid"]


async def test_foreign_data_beside_the_certificates_is_removed(api: Client) -> None:
    path = f"{SPACE}/configmaps/kube-root-ca.crt"
    mine = (await came(api, path))["data"]
    (await api.patch(path, {"data": {"more": "x"}, "metadata": {"labels": {"kept": "yes"}}})).ok(200)

    async def removed() -> bool:
        return bool((await api.get(path)).ok()["data"] == mine)

    await eventually(removed)
    assert (await api.get(path)).ok()["metadata"]["labels"] == {"kept": "yes"}


async def test_a_namespace_is_deleted_with_its_content(api: Client) -> None:
    await came(api, f"{SPACE}/configmaps/kube-root-ca.crt")
    root = await born(api, "root", path=WIDGETS)
    await born(api, "child", root, path=WIDGETS)
    (await api.post(WIDGETS, widget("waits", metadata={"finalizers": ["foregroundDeletion"]}))).ok(201)
    answer = (await api.delete(SPACE)).ok(200)
    assert (answer["status"]["phase"], answer["spec"]["finalizers"]) == ("Terminating", ["kubernetes"])
    await gone(api, "space", path=NAMESPACES)
    (await api.post(NAMESPACES, {"metadata": {"name": "space"}})).ok(201)
    assert (await api.get(WIDGETS)).ok()["items"] == []


async def test_conditions_report_what_blocks_the_deletion(api: Client) -> None:
    await born(api, "held", held=True, path=WIDGETS)
    (await api.delete(SPACE)).ok(200)
    remaining = await condition(api, "NamespaceContentRemaining", "True")
    assert remaining["message"] == f"Some resources are remaining: widgets.{GROUP} has 1 resource instances"
    finalizers = await condition(api, "NamespaceFinalizersRemaining", "True")
    assert finalizers["message"].endswith(f": {HOLD} in 1 resource instances")
    await marked(api, "held", path=WIDGETS)
    failure(await api.post(WIDGETS, widget("new")), 403, "Forbidden")
    await released(api, "held", path=WIDGETS)
    await gone(api, "space", path=NAMESPACES)


async def test_objects_of_a_namespace_finalized_by_hand_can_be_released(api: Client) -> None:
    await born(api, "held", held=True, path=WIDGETS)
    (await api.delete(SPACE)).ok(200)
    await condition(api, "NamespaceContentRemaining", "True")
    (await api.put(f"{SPACE}/finalize", {"metadata": {"name": "space"}, "spec": {"finalizers": []}})).ok(200)
    await gone(api, "space", path=NAMESPACES)
    await there(api, "held", path=WIDGETS)
    failure(await api.post(WIDGETS, widget("another")), 404, "NotFound")
    await released(api, "held", path=WIDGETS)
    await gone(api, "held", path=WIDGETS)


@pytest.mark.usefixtures("as_1_36")
async def test_objects_of_a_namespace_finalized_by_hand_can_only_be_read_and_deleted_in_1_36(api: Client) -> None:
    await born(api, "held", held=True, path=WIDGETS)
    (await api.delete(SPACE)).ok(200)
    await condition(api, "NamespaceContentRemaining", "True")
    (await api.put(f"{SPACE}/finalize", {"metadata": {"name": "space"}, "spec": {"finalizers": []}})).ok(200)
    await gone(api, "space", path=NAMESPACES)
    found = await there(api, "held", path=WIDGETS)
    status = failure(await api.patch(f"{WIDGETS}/held", {"spec": {"size": 2}}), 404, "NotFound")
    assert status["message"] == 'namespaces "space" not found'
    failure(await api.patch(f"{WIDGETS}/held", {"metadata": {"finalizers": None}}), 404, "NotFound")
    assert (await api.delete(f"{WIDGETS}/held")).ok(200)["metadata"]["uid"] == found["uid"]
    (await api.post(NAMESPACES, {"metadata": {"name": "space"}})).ok(201)
    await released(api, "held", path=WIDGETS)
    await gone(api, "held", path=WIDGETS)


async def test_only_the_finalizer_of_the_server_is_removed(api: Client) -> None:
    other = f"{NAMESPACES}/other"
    body = {"metadata": {"name": "other", "finalizers": [HOLD]}}
    (await api.post(NAMESPACES, body)).ok(201)
    (await api.delete(other)).ok(200)

    async def emptied() -> bool:
        return "finalizers" not in (await api.get(other)).ok()["spec"]

    await eventually(emptied)
    again = (await api.delete(other)).ok(200)
    assert again["metadata"]["deletionGracePeriodSeconds"] == 0
    (await api.patch(other, {"metadata": {"finalizers": None}})).ok(200)
    await gone(api, "other", path=NAMESPACES)


async def test_of_many_finalizers_the_first_are_counted(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "_MAX_COUNTED_FINALIZERS", 3)
    monkeypatch.setattr(namespaces, "_MAX_FINALIZERS", 2)
    for name, finalizers in (("x", "ca"), ("y", "bd"), ("z", "ae")):
        held = {"finalizers": [f"example.com/{letter}" for letter in finalizers]}
        (await api.post(WIDGETS, widget(name, metadata=held))).ok(201)
    (await api.delete(SPACE)).ok(200)
    message = (await condition(api, "NamespaceFinalizersRemaining", "True"))["message"]
    assert message.endswith(": example.com/a in 2 resource instances, example.com/b in 1 resource instances")
    for name in "xyz":
        await released(api, name, path=WIDGETS)
    await gone(api, "space", path=NAMESPACES)
