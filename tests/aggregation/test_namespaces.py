"""What other servers hold in a namespace that ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from registry.aggregation.discovery import Resources
from registry.controllers.api_services.namespaces import LEFT, deletable, left_names, with_left, without_left
from tests.aggregation.backend import (
    BASE,
    NAME,
    RESOURCES,
    Answer,
    Backend,
    Request,
    backend,
    placed,
    register,
    wait_for_condition,
)
from tests.aggregation.objects import PATH, api_service
from tests.api.client import Client, eventually
from tests.application import serving

SPACE = "/api/v1/namespaces/space"
METRICS = f"{BASE}/namespaces/space/metrics"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("registry.controllers.namespaces.GRACE_SECONDS", 0.0)


def resources(*verbs: str) -> dict[str, Any]:
    entry = {"name": "metrics", "singularName": "metric", "namespaced": True, "kind": "Metric", "verbs": list(verbs)}
    return {**RESOURCES, "resources": [entry]}


class Store:
    """A server with objects in one namespace, which can be taken away."""

    def __init__(self, *verbs: str, names: Sequence[str] = ("a",)) -> None:
        self.verbs = verbs
        self.items: list[dict[str, Any]] = [{"metadata": {"name": name}} for name in names]
        self.alive = True

    async def discovery(self, request: Request) -> None:
        await request.answer_json(resources(*self.verbs), 200 if self.alive else 500)

    async def answer(self, request: Request) -> None:
        if not self.alive:
            request.writer.transport.abort()
            return
        path, _, query = request.target.partition("?")
        if request.method != "DELETE":
            await request.answer_json({"items": self.items})
            return
        assert query == "propagationPolicy=Background"
        name = unquote(path.removeprefix(METRICS).removeprefix("/"))
        if name or "deletecollection" in self.verbs:
            # Objects with a finalizer stay.
            gone = [i for i in self.items if name in ("", i["metadata"]["name"]) and "finalizers" not in i["metadata"]]
            self.items = [item for item in self.items if item not in gone]
            await request.answer_json({"kind": "Status", "status": "Success"})
        else:
            await request.answer_json({"kind": "Status", "status": "Failure"}, 405)


@contextlib.asynccontextmanager
async def with_server(
    store: Store, database: str, folder: Path, answer: Answer | None = None
) -> AsyncIterator[tuple[Client, Backend]]:
    """An application beside which `store` is registered as another server."""
    async with (
        backend(folder / "server", answer or store.answer) as server,
        serving(database, folder, **placed(server)) as client,
    ):
        server.discovery = store.discovery
        await register(client, server)
        yield client, server


async def goes_away(store: Store, client: Client) -> None:
    """Waits until it is known that the server does not answer."""
    store.alive = False
    (await client.patch(f"{PATH}/{NAME}", {"metadata": {"labels": {"a": "b"}}})).ok(200)
    await wait_for_condition(client, NAME, "False")


async def is_gone(client: Client) -> bool:
    return (await client.get(SPACE)).code == 404


async def condition(client: Client, name: str) -> dict[str, Any]:
    async def look() -> Any:
        found = await client.get(SPACE)
        assert found.code == 200, "the namespace has gone"
        conditions = found.json["status"].get("conditions") or []
        return next((c for c in conditions if c["type"] == name and c["status"] == "True"), None)

    found: dict[str, Any] = await eventually(look)
    return found


async def test_objects_of_aggregated_kinds_are_deleted_with_the_namespace(api_database: str, tmp_path: Path) -> None:
    store = Store("get", "list", "delete", "deletecollection")
    async with with_server(store, api_database, tmp_path) as (client, server):
        (await client.post("/api/v1/namespaces", {"metadata": {"name": "space"}})).ok(201)
        (await client.delete(SPACE)).ok(200)
        await eventually(lambda: is_gone(client))
        assert store.items == []
        [request] = [r for r in server.of(METRICS) if r.method == "DELETE"]
        assert request.header("x-remote-user") == "system:serviceaccount:kube-system:namespace-controller"


async def test_an_unreachable_server_delays_the_deletion_for_a_bounded_time(
    api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store("get", "list", "delete", "deletecollection")
    async with with_server(store, api_database, tmp_path) as (client, _):
        await goes_away(store, client)
        (await client.post("/api/v1/namespaces", {"metadata": {"name": "space"}})).ok(201)
        (await client.post(f"{SPACE}/configmaps", {"metadata": {"name": "a"}})).ok(201)
        (await client.delete(SPACE)).ok(200)
        found = await condition(client, "NamespaceDeletionDiscoveryFailure")
        assert found["reason"] == "DiscoveryFailed"
        assert found["message"].endswith("stale GroupVersion discovery: metrics.example.com/v1")
        # All else goes at once.
        assert (await client.get(f"{SPACE}/configmaps")).ok(200)["items"] == []
        monkeypatch.setattr("registry.controllers.namespaces.UNAVAILABLE_SECONDS", 0.0)
        await eventually(lambda: is_gone(client))
        annotations = (await client.get(f"{PATH}/{NAME}")).ok(200)["metadata"]["annotations"]
        assert annotations == {LEFT: "space"}
        # What was left goes when the server is back.
        assert store.items
        store.alive = True

        async def is_clean() -> bool:
            metadata = (await client.get(f"{PATH}/{NAME}")).ok(200)["metadata"]
            return not store.items and "annotations" not in metadata

        await eventually(is_clean)


async def test_a_server_without_deletable_resources_does_not_block_the_deletion(
    api_database: str, tmp_path: Path
) -> None:
    """The usual one: a server of metrics that is away."""
    store = Store("get", "list")
    async with with_server(store, api_database, tmp_path) as (client, _):
        await goes_away(store, client)
        (await client.post("/api/v1/namespaces", {"metadata": {"name": "space"}})).ok(201)
        (await client.delete(SPACE)).ok(200)
        await eventually(lambda: is_gone(client))


@pytest.mark.parametrize(
    "verbs", [("list", "delete"), ("list", "delete", "deletecollection")], ids=["absent", "refused"]
)
async def test_objects_are_deleted_one_by_one_without_deletecollection(
    api_database: str, tmp_path: Path, verbs: Sequence[str]
) -> None:
    """They were left in the server, whose namespace was gone."""
    store = Store(*verbs, names=("a", "b c"))
    async with with_server(store, api_database, tmp_path) as (client, _):
        store.verbs = ("list", "delete")  # whatever discovery has said
        (await client.post("/api/v1/namespaces", {"metadata": {"name": "space"}})).ok(201)
        (await client.delete(SPACE)).ok(200)
        await eventually(lambda: is_gone(client))
        assert store.items == []


async def test_a_process_that_does_not_know_a_server_asks_it_first(api_database: str, tmp_path: Path) -> None:
    """A restarted one took it to have nothing, so that its objects outlived their namespace."""
    store = Store("list", "delete", "deletecollection")
    async with with_server(store, api_database, tmp_path) as (client, behind):
        (await client.post("/api/v1/namespaces", {"metadata": {"name": "space"}})).ok(201)

        async def slowly(request: Request) -> None:
            await asyncio.sleep(1)
            await store.discovery(request)

        behind.discovery = slowly
        async with serving(api_database, tmp_path, **placed(behind)) as other:
            (await other.delete(SPACE)).ok(200)
            await eventually(lambda: is_gone(other))
            assert store.items == []


async def test_finalizers_in_servers_are_reported(api_database: str, tmp_path: Path) -> None:
    store = Store("list", "delete", "deletecollection")
    store.items[0]["metadata"]["finalizers"] = ["example.com/a"]
    async with with_server(store, api_database, tmp_path) as (client, _):
        (await client.post("/api/v1/namespaces", {"metadata": {"name": "space"}})).ok(201)
        (await client.delete(SPACE)).ok(200)
        found = await condition(client, "NamespaceFinalizersRemaining")
        assert found["message"].endswith("finalizers remaining: example.com/a in 1 resource instances")
        found = await condition(client, "NamespaceContentRemaining")
        assert found["message"].endswith("metrics.metrics.example.com has 1 resource instances")
        del store.items[0]["metadata"]["finalizers"]
        await eventually(lambda: is_gone(client))


async def test_a_server_that_hangs_delays_no_other(
    api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty of them, each for as long as a request may take."""
    monkeypatch.setattr("registry.controllers.api_services.namespaces._CALL_SECONDS", 3600.0)
    store = Store("list", "delete", "deletecollection")

    async def answer(request: Request) -> None:
        if "/apis/a" in request.target and request.method == "DELETE":
            await asyncio.sleep(3600)
        elif "/apis/a" in request.target and "/namespaces/" not in request.target:
            await request.answer_json(resources("list", "delete", "deletecollection"))
        else:
            await store.answer(request)

    async with with_server(store, api_database, tmp_path, answer) as (client, behind):
        for number in range(20):
            spec = {"service": {"namespace": "kube-system", "name": "metrics"}, "caBundle": behind.bundle}
            (await client.post(PATH, api_service(f"v1.a{number}.example.com", **spec))).ok(201)
        for number in range(20):
            await wait_for_condition(client, f"v1.a{number}.example.com", "True")
        (await client.post("/api/v1/namespaces", {"metadata": {"name": "space"}})).ok(201)
        (await client.delete(SPACE)).ok(200)

        async def is_clean() -> bool:
            return not store.items

        await eventually(is_clean)


@pytest.mark.parametrize(
    "entries, is_current, found",
    [
        pytest.param([], False, None, id="nothing known"),
        pytest.param([], True, [], id="nothing there"),
        pytest.param([{"resource": "a", "scope": "Namespaced", "verbs": ["get", "list"]}], True, [], id="read only"),
        pytest.param([{"resource": "a", "scope": "Cluster", "verbs": ["delete"]}], True, [], id="in no namespace"),
        pytest.param([{"resource": "a", "scope": "", "verbs": ["delete"]}], True, [], id="no scope"),
        pytest.param([{"resource": "a", "scope": "Namespaced", "verbs": ["delete"]}], True, ["a"], id="deletable"),
        pytest.param([{"resource": "a", "scope": "Namespaced", "verbs": ["delete"]}], False, ["a"], id="last known"),
    ],
)
def test_deletable_resources(entries: list[dict[str, Any]], is_current: bool, found: list[str] | None) -> None:
    deleted = deletable(Resources(entries, is_current))
    assert (None if deleted is None else [entry["resource"] for entry in deleted]) == found


def test_remaining_names_are_reported() -> None:
    annotations = with_left(with_left({"x": "y"}, "a"), "b")
    assert annotations == {"x": "y", LEFT: "a,b"}
    assert without_left(annotations, ["a"]) == {"x": "y", LEFT: "b"}
    assert without_left(annotations, ["b", "a"]) == {"x": "y"}
    many: dict[str, str] = {}
    for number in range(300):
        many = with_left(many, f"n{number}")
    assert left_names(many)[-1] == "n299"
    assert len(left_names(many)) == 200
