"""What other servers hold in a namespace that ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

import pytest

from registry.aggregation.discovery import Resources
from registry.controllers.api_services.namespaces import LEFT, deletable, left_names, with_left, without_left
from tests.aggregation.backend import (
    BASE,
    NAME,
    NEVER,
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
            asked = parse_qs(query)
            start, size = int(asked.get("continue", ["0"])[0]), int(asked.get("limit", ["500"])[0])
            more = str(start + size) if len(self.items) > start + size else ""
            await request.answer_json({"metadata": {"continue": more}, "items": self.items[start : start + size]})
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


async def checked(client: Client) -> None:
    """Lets the server be checked soon."""
    (await client.patch(f"{PATH}/{NAME}", {"metadata": {"labels": {"checked": f"{time.monotonic()}"}}})).ok(200)


async def is_clean(client: Client, store: Store) -> bool:
    return not store.items and "annotations" not in (await client.get(f"{PATH}/{NAME}")).ok(200)["metadata"]


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
        await eventually(lambda: is_clean(client, store))


@pytest.mark.parametrize("code", [500, 429, 302, 0], ids=["error", "busy", "redirect", "reset"])
async def test_an_available_server_that_fails_delays_the_deletion_for_a_bounded_time(
    api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Its discovery works, and nothing else does."""
    store = Store("get", "list", "delete", "deletecollection")
    fails = True

    async def answer(request: Request) -> None:
        if fails and "/namespaces/" in request.target and not code:
            request.writer.transport.abort()
        elif fails and "/namespaces/" in request.target:
            await request.answer(b"no", code)
        else:
            await store.answer(request)

    async with with_server(store, api_database, tmp_path, answer) as (client, _):
        (await client.post("/api/v1/namespaces", {"metadata": {"name": "space"}})).ok(201)
        (await client.delete(SPACE)).ok(200)
        found = await condition(client, "NamespaceDeletionContentFailure")
        assert f"{BASE}, Resource=metrics: " in found["message"]
        monkeypatch.setattr("registry.controllers.namespaces.UNAVAILABLE_SECONDS", 0.0)
        await eventually(lambda: is_gone(client))
        assert left_names((await client.get(f"{PATH}/{NAME}")).ok(200)["metadata"]["annotations"]) == ["space"]
        assert store.items
        fails = False
        await checked(client)
        await eventually(lambda: is_clean(client, store))


async def test_a_server_that_refuses_holds_the_namespace(
    api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.controllers.namespaces.UNAVAILABLE_SECONDS", 0.0)
    store = Store("get", "list", "delete", "deletecollection")
    refuses = True

    async def answer(request: Request) -> None:
        await (request.answer(b"no", 403) if refuses and "/namespaces/" in request.target else store.answer(request))

    async with with_server(store, api_database, tmp_path, answer) as (client, _):
        (await client.post("/api/v1/namespaces", {"metadata": {"name": "space"}})).ok(201)
        (await client.delete(SPACE)).ok(200)
        found = await condition(client, "NamespaceDeletionContentFailure")
        assert found["message"].endswith(f"{BASE}, Resource=metrics: the server answered 403")
        refuses = False
        await eventually(lambda: is_gone(client))
        assert store.items == []


async def test_what_is_in_a_namespace_of_the_same_name_stays(
    api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the old one has left is deleted, though it is not on the first page."""
    monkeypatch.setattr("registry.controllers.namespaces.UNAVAILABLE_SECONDS", 0.0)
    monkeypatch.setattr("registry.controllers.api_services.namespaces._PAGE", 2)
    store = Store("get", "list", "delete", "deletecollection")
    old, new = "2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z"

    def metric(name: str, created: Any) -> dict[str, Any]:
        return {"metadata": {"name": name, "uid": f"uid of {name}", "creationTimestamp": created}}

    kept = [
        metric("new", new),
        metric("timeless", None),
        metric("odd", "yesterday"),
        metric("zoneless", "2020-01-01T00:00:00"),
    ]
    store.items = [*kept, metric("old", old), {"metadata": {"name": "without-uid", "creationTimestamp": old}}]
    async with with_server(store, api_database, tmp_path) as (client, server):
        await goes_away(store, client)
        (await client.post("/api/v1/namespaces", {"metadata": {"name": "space"}})).ok(201)
        (await client.delete(SPACE)).ok(200)
        await eventually(lambda: is_gone(client))
        (await client.post("/api/v1/namespaces", {"metadata": {"name": "space"}})).ok(201)
        store.alive = True
        await checked(client)

        async def is_done() -> bool:
            return "annotations" not in (await client.get(f"{PATH}/{NAME}")).ok(200)["metadata"]

        async def is_old_gone() -> bool:
            return "old" not in [item["metadata"]["name"] for item in store.items]

        await eventually(is_old_gone)
        await checked(client)
        await eventually(is_done)
        assert [item["metadata"]["name"] for item in store.items] == [
            *(item["metadata"]["name"] for item in kept), "without-uid",
        ]  # fmt: skip
        [request] = [r for r in server.requests if r.method == "DELETE"]
        assert request.target == f"{METRICS}/old?propagationPolicy=Background"
        assert json.loads(request.body)["preconditions"] == {"uid": "uid of old"}


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
            await asyncio.sleep(1)  # in which nothing is to be decided
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


async def test_few_finalizers_in_servers_are_distinguished(api_database: str, tmp_path: Path) -> None:
    """A server made up megabytes of them for each of its resources."""
    store = Store("list", "delete", "deletecollection")
    store.items[0]["metadata"]["finalizers"] = ["x" * 318, *(f"e.x/{number}" for number in range(1000))]
    async with with_server(store, api_database, tmp_path) as (client, _):
        (await client.post("/api/v1/namespaces", {"metadata": {"name": "space"}})).ok(201)
        (await client.delete(SPACE)).ok(200)
        found = await condition(client, "NamespaceFinalizersRemaining")
        assert found["message"].count(" in 1 resource instances") == 100
        assert "xx" not in found["message"]
        store.items.clear()
        await eventually(lambda: is_gone(client))


async def test_a_server_that_hangs_delays_no_other(
    api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty of them, each for as long as a request may take."""
    monkeypatch.setattr("registry.controllers.api_services.namespaces._CALL_SECONDS", 3600.0)
    store = Store("list", "delete", "deletecollection")

    async def answer(request: Request) -> None:
        if "/apis/a" in request.target and request.method == "DELETE":
            await asyncio.sleep(NEVER)
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

        async def is_empty() -> bool:
            return not store.items

        await eventually(is_empty)


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


async def test_long_names_of_servers_become_no_requests(api_database: str, tmp_path: Path) -> None:
    """Escaping three megabytes held the event loop for a quarter of a second, for each object and page."""
    store = Store("list", "delete", names=("a", "\N{SNOWMAN}" * 400_000, "..", "b"))
    longest = 0

    async def answer(request: Request) -> None:
        nonlocal longest
        longest = max(longest, len(request.target))
        if request.method == "GET" and request.target.startswith(METRICS):
            await request.answer_json({"metadata": {"continue": "c" * 1_000_000}, "items": store.items})
        else:
            await store.answer(request)

    async with with_server(store, api_database, tmp_path, answer) as (client, _):
        (await client.post("/api/v1/namespaces", {"metadata": {"name": "space"}})).ok(201)
        (await client.delete(SPACE)).ok(200)

        async def short_ones_are_gone() -> bool:
            return len(store.items) == 2

        await eventually(short_ones_are_gone)
    assert longest < 1_000


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
