"""lightkube: generic resources, all four patch types, apply, pages, watches."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.kinds import Kind
from tests.running import RunningServer

lightkube: Any = pytest.importorskip("lightkube", reason="lightkube is not installed")
generic: Any = pytest.importorskip("lightkube.generic_resource", reason="lightkube is not installed")
types: Any = pytest.importorskip("lightkube.types", reason="lightkube is not installed")
core: Any = pytest.importorskip("lightkube.resources.core_v1", reason="lightkube-models is not installed")


@pytest.fixture
def client(server: RunningServer, kind: Kind) -> Any:
    config = lightkube.KubeConfig.from_file(str(server.kubeconfig))
    return lightkube.Client(config=config, namespace=kind.namespace, field_manager="lightkube-tests")


@pytest.fixture
def gadgets(kind: Kind) -> Any:
    return generic.create_namespaced_resource(kind.group, kind.version, "Gadget", kind.plural)


def test_life_of_an_object(client: Any, gadgets: Any, kind: Kind) -> None:
    made = client.create(gadgets(kind.gadget("a", size=1)))
    assert made.spec["color"] == "grey"
    merged = client.patch(gadgets, "a", {"spec": {"size": 2}}, patch_type=types.PatchType.MERGE)
    assert merged.spec["size"] == 2
    replaced = [{"op": "replace", "path": "/spec/size", "value": 3}]
    assert client.patch(gadgets, "a", replaced, patch_type=types.PatchType.JSON).spec["size"] == 3
    client.patch(gadgets.Status, "a", {"status": {"phase": "Up"}}, patch_type=types.PatchType.MERGE)
    assert client.get(gadgets, "a").status["phase"] == "Up"
    with pytest.raises(lightkube.ApiError) as stale:
        client.replace(made)
    assert (stale.value.status.code, stale.value.status.reason) == (409, "Conflict")
    client.delete(gadgets, "a")
    with pytest.raises(lightkube.ApiError) as gone:
        client.get(gadgets, "a")
    assert gone.value.status.details.name == "a"


def test_apply_and_conflicts(client: Any, gadgets: Any, kind: Kind) -> None:
    client.apply(gadgets(kind.gadget("a", size=1)))
    with pytest.raises(lightkube.ApiError) as conflict:
        client.apply(gadgets(kind.gadget("a", size=2)), field_manager="another")
    assert {c.field for c in conflict.value.status.details.causes} == {".metadata.labels.size", ".spec.size"}
    assert client.apply(gadgets(kind.gadget("a", size=2)), field_manager="another", force=True).spec["size"] == 2


def test_lists_in_chunks_and_deletes_collections(client: Any, gadgets: Any, kind: Kind) -> None:
    for number in range(9):
        client.create(gadgets(kind.gadget(f"g{number}", size=number)))
    assert [g.metadata.name for g in client.list(gadgets, chunk_size=4)] == [f"g{n}" for n in range(9)]
    assert [g.metadata.name for g in client.list(gadgets, labels={"size": ["2", "3"]})] == ["g2", "g3"]
    assert len(list(client.list(gadgets, namespace="*"))) == 9
    client.deletecollection(gadgets)
    assert list(client.list(gadgets)) == []


def test_watch_resumes(client: Any, gadgets: Any, kind: Kind) -> None:
    """The server ends the watch each second; lightkube goes on from the last revision."""
    client.create(gadgets(kind.gadget("a", size=0)))
    seen = []
    for event, gadget in client.watch(gadgets, server_timeout=1):
        seen.append((event, gadget.spec["size"]))
        if len(seen) == 4:
            break
        client.patch(gadgets, "a", {"spec": {"size": len(seen)}}, patch_type=types.PatchType.MERGE)
    assert seen == [("ADDED", 0), ("MODIFIED", 1), ("MODIFIED", 2), ("MODIFIED", 3)]


def test_built_in_kinds(client: Any, kind: Kind) -> None:
    namespace = client.get(core.Namespace, kind.namespace)
    assert namespace.status.phase == "Active"
    patched = client.patch(
        core.Namespace, kind.namespace, {"metadata": {"labels": {"a": "b"}}}, patch_type=types.PatchType.STRATEGIC
    )
    assert patched.metadata.labels["a"] == "b"
