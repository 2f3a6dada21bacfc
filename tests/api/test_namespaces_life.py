"""The life cycle of a namespace: it terminates, deletes its content, and waits for finalizers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Client, eventually
from tests.api.errors import failure
from tests.api.widgets import GROUP, NAMESPACES, make, widget
from tests.application import shares_application

pytestmark = shares_application

HOME = f"{NAMESPACES}/home"
IN_HOME = f"/apis/{GROUP}/v1/namespaces/home/widgets"


async def begin(api: Client) -> None:
    (await api.post(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "home"}})).ok(201)


async def test_a_new_namespace_is_active(api: Client) -> None:
    await begin(api)
    found = (await api.get(HOME)).ok()
    assert found["status"] == {"phase": "Active"}
    assert found["spec"] == {"finalizers": ["kubernetes"]}
    assert found["metadata"]["labels"] == {"kubernetes.io/metadata.name": "home"}


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public", "kube-node-lease"])
async def test_the_server_owns_the_label_of_initial_namespaces(api: Client, name: str) -> None:
    [entry] = (await api.get(f"{NAMESPACES}/{name}")).ok()["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"], entry["apiVersion"]) == ("kube-apiserver", "Update", "v1")
    assert entry["fieldsV1"] == {"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}}


async def test_a_namespace_is_deleted_with_its_content(api: Client) -> None:
    await begin(api)
    await make(api, "a", "b", path=IN_HOME)
    await make(api, "stays")
    assert (await api.delete(HOME)).ok()["status"]["phase"] == "Terminating"

    async def gone() -> bool:
        return (await api.get(HOME)).code == 404

    await eventually(gone)
    assert (await api.get(IN_HOME)).ok()["items"] == []
    assert len((await api.get(f"/apis/{GROUP}/v1/widgets")).ok()["items"]) == 1


async def test_the_first_deletion_only_marks_one_without_finalizers(api: Client) -> None:
    await begin(api)
    (await api.put(f"{HOME}/finalize", {"metadata": {"name": "home"}, "spec": {}})).ok()
    marked = (await api.delete(HOME)).ok()
    assert (marked["status"]["phase"], "deletionTimestamp" in marked["metadata"]) == ("Terminating", True)
    (await api.delete(HOME)).ok()
    assert (await api.get(HOME)).code == 404


@pytest.mark.parametrize(
    "path, body",
    [(f"{IN_HOME}?dryRun=All", widget("b")), (IN_HOME, widget("b", size="big"))],
    ids=["dry run", "invalid"],
)
async def test_what_a_create_is_refused_for_first_in_a_terminating_namespace(
    api: Client, path: str, body: dict[str, Any]
) -> None:
    """A commit would notice that the namespace terminates, but these do not come so far."""
    await begin(api)
    (await api.post(IN_HOME, widget("a", metadata={"finalizers": ["example.com/f"]}))).ok(201)
    (await api.post(f"{IN_HOME}?dryRun=All", widget("b"))).ok(201)
    (await api.delete(HOME)).ok()
    assert "because it is being terminated" in failure(await api.post(path, body), 403, "Forbidden")["message"]
    (await api.patch(f"{IN_HOME}/a", {"metadata": {"finalizers": None}})).ok()


async def test_nothing_is_created_in_a_terminating_namespace(api: Client) -> None:
    await begin(api)
    held = widget("a", metadata={"finalizers": ["example.com/hold"]})
    (await api.post(IN_HOME, held)).ok(201)
    (await api.delete(HOME)).ok()
    status = failure(await api.post(IN_HOME, widget("b")), 403, "Forbidden")
    assert "because it is being terminated" in status["message"]
    assert status["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    (await api.patch(f"{IN_HOME}/a", {"metadata": {"finalizers": None}})).ok()

    async def gone() -> bool:
        return (await api.get(HOME)).code == 404

    await eventually(gone)


@pytest.mark.parametrize(
    "options, finalizers",
    [
        pytest.param({"propagationPolicy": "Foreground"}, ["foregroundDeletion"], id="foreground"),
        pytest.param({"propagationPolicy": "Background"}, None, id="background"),
        pytest.param({"orphanDependents": False}, ["foregroundDeletion"], id="no orphans means foreground"),
    ],
)
async def test_only_the_first_deletion_sets_the_policy(
    api: Client, options: dict[str, object], finalizers: list[str] | None
) -> None:
    await begin(api)
    held = widget("a", metadata={"finalizers": ["example.com/hold"]})
    (await api.post(IN_HOME, held)).ok(201)
    body = {"apiVersion": "v1", "kind": "DeleteOptions"}
    first = (await api.delete(HOME, {**body, **options})).ok()
    assert first["metadata"].get("finalizers") == finalizers
    again = (await api.delete(HOME, {**body, "propagationPolicy": "Orphan"})).ok()
    assert "orphan" not in again["metadata"].get("finalizers", [])
    (await api.patch(f"{IN_HOME}/a", {"metadata": {"finalizers": None}})).ok()


POD_SECURITY = "pod-security.kubernetes.io/"
NO_LEVEL, NO_VERSION = "must be one of privileged, baseline, restricted", 'must be "latest" or "v1.x"'
POD_SECURITY_LABELS: dict[str, tuple[dict[str, str], list[tuple[str, str]]]] = {
    "levels": ({"enforce": "baseline", "audit": "privileged", "warn": "restricted"}, []),
    "versions": ({"enforce-version": "latest", "warn-version": "v1.0", "audit-version": "v1.36"}, []),
    "no level": ({"enforce": "strict"}, [("enforce", NO_LEVEL)]),
    "an empty level": ({"warn": ""}, [("warn", NO_LEVEL)]),
    "no version": ({"warn-version": "v1.01"}, [("warn-version", NO_VERSION)]),
    "a version beyond int64": ({"warn-version": f"v1.{1 << 63}"}, [("warn-version", NO_VERSION)]),
    "all, in the order of the modes": (
        {"warn": "x", "audit-version": "1.36", "enforce": "x"},
        [("enforce", NO_LEVEL), ("audit-version", NO_VERSION), ("warn", NO_LEVEL)],
    ),
}


@pytest.mark.parametrize("labels, wrong", POD_SECURITY_LABELS.values(), ids=POD_SECURITY_LABELS)
async def test_labels_for_pod_security(api: Client, labels: dict[str, str], wrong: list[tuple[str, str]]) -> None:
    await begin(api)
    metadata = {"name": "other", "labels": {f"{POD_SECURITY}{name}": value for name, value in labels.items()}}
    made = await api.post(f"{NAMESPACES}?dryRun=All", {"metadata": metadata})
    changed = await api.patch(f"{HOME}?dryRun=All", {"metadata": {"labels": metadata["labels"]}})
    if not wrong:
        assert (made.code, changed.code) == (201, 200)
        return
    expected = [
        {
            "reason": "FieldValueInvalid",
            "field": f"metadata.labels[{POD_SECURITY}{name}]",
            "message": f'Invalid value: "{labels[name]}": {why}',
        }
        for name, why in wrong
    ]
    for answer in (made, changed):
        assert failure(answer, 422, "Invalid")["details"]["causes"] == expected
