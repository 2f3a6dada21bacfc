"""What other servers hold in a namespace that ends."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from registry.controllers.api_services.namespaces import LEFT, deletable, left_names, with_left, without_left
from tests.aggregation.backend import (
    BASE,
    NAME,
    RESOURCES,
    Backend,
    Request,
    backend,
    placed,
    register,
    wait_for_condition,
)
from tests.aggregation.objects import PATH
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

    def __init__(self, *verbs: str) -> None:
        self.verbs = verbs
        self.items = [{"metadata": {"name": "a"}}]
        self.alive = True

    async def discovery(self, request: Request) -> None:
        await request.answer_json(resources(*self.verbs), 200 if self.alive else 500)

    async def answer(self, request: Request) -> None:
        if not self.alive:
            request.writer.transport.abort()
            return
        if request.method == "DELETE":
            self.items.clear()
        await request.answer_json({"items": self.items})


@contextlib.asynccontextmanager
async def with_server(store: Store, database: str, folder: Path) -> AsyncIterator[tuple[Client, Backend]]:
    """An application beside which `store` is registered as another server."""
    async with (
        backend(folder / "server", store.answer) as server,
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
    store = Store("get", "list", "deletecollection")
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
    store = Store("get", "list", "deletecollection")
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
    "entries, found",
    [
        pytest.param([], None, id="nothing known"),
        pytest.param([{"resource": "a", "scope": "Namespaced", "verbs": ["get", "list"]}], [], id="read only"),
        pytest.param([{"resource": "a", "scope": "Cluster", "verbs": ["deletecollection"]}], [], id="in no namespace"),
        pytest.param([{"resource": "a", "scope": "", "verbs": ["deletecollection"]}], [], id="no scope"),
        pytest.param([{"resource": "a", "scope": "Namespaced", "verbs": ["deletecollection"]}], ["a"], id="deletable"),
    ],
)
def test_deletable_resources(entries: list[dict[str, Any]], found: list[str] | None) -> None:
    assert deletable(entries) == found


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
