"""Discovery and OpenAPI of what is served here and by other servers, in one document."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from registry.aggregation import availability
from registry.aggregation.availability import CHECK_SECONDS, PASSED, Availability, Finding, openapi_hash
from registry.aggregation.discovery import (
    Resources,
    fitting,
    merge_aggregated,
    merge_group,
    merge_group_list,
    published_resources,
    resources_of,
)
from registry.aggregation.model import Aggregated, APIServer, local_priority
from registry.store.types import DomainId, Guards, Tenant, TenantId, TenantName
from tests.aggregation.backend import (
    BASE,
    GROUP,
    NAME,
    NEVER,
    RESOURCES,
    Request,
    backend,
    hang,
    placed,
    register,
    wait_for_condition,
)
from tests.aggregation.objects import PATH, api_service
from tests.aggregation.servers import server
from tests.api.client import Client, eventually
from tests.application import serving

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
NO_KIND = {"group": "", "version": "", "kind": ""}
METRICS = {
    "resource": "metrics",
    "responseKind": {**NO_KIND, "kind": "Metric"},
    "scope": "Namespaced",
    "singularResource": "metric",
    "verbs": ["get", "list"],
}


def priority(group: str, version: str) -> tuple[int, int]:
    return local_priority(group, version, builtin=group.endswith("k8s.io"))


def tenant() -> Tenant:
    return Tenant(TenantId(1), TenantName("acme"), DomainId(1), Guards(0, 0))


def group(name: str, *versions: str) -> dict[str, Any]:
    found = [{"groupVersion": f"{name}/{v}", "version": v} for v in versions]
    return {"name": name, "versions": found, "preferredVersion": found[0]}


LOCAL = [group("apiregistration.k8s.io", "v1"), group("rbac.authorization.k8s.io", "v1"), group("b.example.com", "v1")]


def listed(name: str, **more: Any) -> dict[str, Any]:
    return {"resource": name, "responseKind": {"kind": "A"}, "verbs": ["get"], **more}


@pytest.mark.parametrize(
    "entries, kept",
    [
        pytest.param([listed("as"), listed("bs", singularResource="x" * (1 << 20)), listed("cs")], 1, id="a long text"),
        pytest.param([listed("as", verbs=[""] * 100_000)], 0, id="many short texts"),
        pytest.param([listed(f"a{i}", shortNames=["x" * 30]) for i in range(1000)], 1000, id="many"),
    ],
)
def test_what_a_server_lists_is_kept_as_far_as_it_fits(entries: list[Any], kept: int) -> None:
    assert fitting(entries).entries == entries[:kept]


def test_the_resources_of_a_tenants_servers_have_a_limit_together() -> None:
    """A thousand servers that each list four megabytes had a process keep all of it, decoded."""
    known, owner = Availability(), tenant()
    entries = fitting([listed(f"a{i}", singularResource="x" * 400) for i in range(1000)])
    servers = [server(f"g{i}.example.com", "v1") for i in range(10)]
    for one in servers:
        known.note(owner, one, Finding(PASSED, entries))
    assert [len(known.resources(owner, one).entries) for one in servers] == [1000] * 4 + [0] * 6
    known.forget(owner, [servers[0].name])
    known.note(owner, servers[9], Finding(PASSED, entries))
    assert len(known.resources(owner, servers[9]).entries) == 1000
    assert all(known.is_available(owner, one) for one in servers[1:])


def test_servers_that_give_way_to_those_of_others_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were, for good, so that a tenant had no room for the resources of its servers after that."""
    monkeypatch.setattr(availability, "_KNOWN", 4)
    known, owner, other = Availability(), tenant(), replace(tenant(), id=TenantId(7))
    entries = fitting([listed(f"a{i}", singularResource="x" * 400) for i in range(1000)])
    servers = [server(f"g{i}.example.com", "v1") for i in range(4)]
    for _ in range(3):
        for one in servers:
            known.note(owner, one, Finding(PASSED, entries))
        assert [len(known.resources(owner, one).entries) for one in servers] == [1000] * 4
        assert sorted(known.names_of(owner)) == sorted(one.name for one in servers)
        for i in range(4):
            known.note(other, server(f"h{i}.example.com", "v1"), Finding(PASSED, entries))
        assert known.names_of(owner) == []
        servers = [server(f"{one.group}x", "v1") for one in servers]


def test_a_thousand_groups_are_merged_in_a_moment() -> None:
    """Their order took the cube of their number: minutes."""
    asked = 0

    def count(group: str, version: str) -> tuple[int, int]:
        nonlocal asked
        asked += 1
        return priority(group, version)

    many = Aggregated([server(f"g{i}.example.com", "v1") for i in range(400)])
    merged = merge_group_list({"groups": LOCAL}, many, count)
    assert len(merged["groups"]) == 403
    assert asked < 1000


@pytest.mark.parametrize(
    "servers, names",
    [
        pytest.param([server("c.example.com", "v1")], ["b.example.com", "c.example.com"], id="by name"),
        pytest.param([server("a.example.com", "v1")], ["a.example.com", "b.example.com"], id="before by name"),
        pytest.param([server("z.example.com", "v1", 2000)], ["z.example.com", "b.example.com"], id="by priority"),
        pytest.param([server("z.example.com", "v1", 1)], ["b.example.com", "z.example.com"], id="last"),
        pytest.param(
            [server("z.example.com", "v1", 1), server("z.example.com", "v2", 3000)],
            ["z.example.com", "b.example.com"],
            id="the highest of the versions counts",
        ),
    ],
)
def test_the_order_of_groups(servers: list[APIServer], names: list[str]) -> None:
    merged = merge_group_list({"groups": LOCAL}, Aggregated(servers), priority)
    assert [g["name"] for g in merged["groups"]] == ["apiregistration.k8s.io", "rbac.authorization.k8s.io", *names]


@pytest.mark.parametrize(
    "versions, expected",
    [
        pytest.param({"v2": 50}, ["v1", "v2"], id="lower priority"),
        pytest.param({"v2": 100}, ["v2", "v1"], id="equal priority, by the version"),
        pytest.param({"v1beta1": 200}, ["v1beta1", "v1"], id="higher priority"),
        pytest.param({"v1": 15}, ["v1"], id="the version that is served here, too"),
    ],
)
def test_the_versions_of_a_group(versions: dict[str, int], expected: list[str]) -> None:
    servers = [server("b.example.com", version, 1000, found) for version, found in versions.items()]
    merged = merge_group(LOCAL[2], Aggregated(servers), "b.example.com", priority)
    assert [v["version"] for v in merged["versions"]] == expected
    assert merged["preferredVersion"]["version"] == expected[0]


def test_the_aggregated_form() -> None:
    entries: list[dict[str, Any]] = [
        {"name": "a", "singularName": "one", "namespaced": True, "kind": "A", "verbs": ["get"], "shortNames": ["x"]},
        {"name": "a/status", "kind": "A", "verbs": ["get"]},
        {"name": "b/scale", "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get"]},
    ]
    resources = resources_of({"kind": "APIResourceList", "resources": entries})
    assert resources is not None
    found = {("a.example.com", "v1"): Resources(resources, True)}
    servers = Aggregated([server("a.example.com", "v1"), server("a.example.com", "v2"), server("", "v1")])
    merged = merge_aggregated({"items": []}, servers, found, priority, core=False)
    [item] = merged["items"]
    assert item == {
        "metadata": {"name": "a.example.com"},
        "versions": [
            {"version": "v2", "freshness": "Stale"},
            {
                "version": "v1",
                "resources": [
                    {
                        "resource": "a",
                        "responseKind": {"group": "", "version": "", "kind": "A"},
                        "scope": "Namespaced",
                        "singularResource": "one",
                        "verbs": ["get"],
                        "shortNames": ["x"],
                        "subresources": [
                            {
                                "subresource": "status",
                                "responseKind": {"group": "", "version": "", "kind": "A"},
                                "verbs": ["get"],
                            }
                        ],
                    }
                ],
                "freshness": "Current",
            },
        ],
    }


@pytest.mark.parametrize(
    "document, found",
    [
        pytest.param(RESOURCES, [METRICS], id="a list"),
        pytest.param(
            {"kind": "APIResourceList", "resources": [{"name": 1}, "a", {"name": "a"}]},
            [{"resource": "a", "responseKind": NO_KIND, "scope": "Cluster", "singularResource": "", "verbs": []}],
            id="odd",
        ),
        pytest.param({"kind": "APIResourceList", "resources": [{"name": "a", "verbs": "get"}]}, [], id="no verbs"),
        pytest.param({"kind": "Status"}, None, id="another kind"),
        pytest.param([], None, id="no object"),
    ],
)
def test_documents_of_a_server_are_validated(document: Any, found: Any) -> None:
    assert resources_of(document) == found


def published(*resources: Any, group: Any = GROUP, version: Any = "v1") -> dict[str, Any]:
    item = {"metadata": {"name": group}, "versions": [{"version": version, "resources": [*resources]}]}
    return {"kind": "APIGroupDiscoveryList", "items": [item]}


@pytest.mark.parametrize(
    "document, found",
    [
        pytest.param(published(METRICS), [METRICS], id="a resource"),
        pytest.param(
            published({"resource": "a", "verbs": ["get"], "categories": ["all"], "x": 1}),
            [
                {
                    "resource": "a",
                    "responseKind": NO_KIND,
                    "scope": "",
                    "singularResource": "",
                    "verbs": ["get"],
                    "categories": ["all"],
                }
            ],
            id="no kind, no scope",
        ),
        pytest.param(
            published({**METRICS, "subresources": [{"subresource": "scale", "verbs": None, "responseKind": 1}, 2]}),
            [{**METRICS, "subresources": [{"subresource": "scale", "responseKind": NO_KIND, "verbs": []}]}],
            id="subresources",
        ),
        pytest.param(published(METRICS, version="v2"), [], id="another version"),
        pytest.param(published(METRICS, group="other"), [], id="another group"),
        pytest.param(published(1, {"resource": ""}, {"resource": ["a"]}, {"resource": "a/b"}), [], id="no resources"),
        pytest.param({"kind": "APIGroupDiscoveryList", "items": {"a": 1}}, [], id="no items"),
        pytest.param({"kind": "APIGroupList", "groups": []}, None, id="another kind"),
        pytest.param([], None, id="no object"),
    ],
)
def test_the_aggregated_discovery_of_a_server(document: Any, found: Any) -> None:
    assert published_resources(document, GROUP, "v1") == found


@pytest.mark.parametrize("query", ["%41=1&" * 170_000, "hash=" + "+%" * 500_000], ids=["parameters", "escapes"])
def test_long_urls_of_documents_are_not_parsed(query: str) -> None:
    """A megabyte of parameters held the event loop for a second at each check of each server."""
    began = time.process_time()
    assert openapi_hash({"paths": {"apis/a/v1": {"serverRelativeURL": f"/openapi?{query}"}}}, "apis/a/v1") == "0"
    assert time.process_time() - began < 0.1
    assert openapi_hash({"paths": {"apis/a/v1": {"serverRelativeURL": "/x?hash=AB&x=1"}}}, "apis/a/v1") == "AB"


async def freshness(client: Client) -> dict[str, Any]:
    document = (await client.get("/apis", accept=AGGREGATED)).ok(200)
    [item] = [i for i in document["items"] if i["metadata"]["name"] == GROUP]
    [version] = item["versions"]
    return dict(version)


async def test_documents(api_database: str, tmp_path: Path) -> None:
    alive = True

    async def discovery(request: Request) -> None:
        await request.answer_json(RESOURCES, 200 if alive else 500)

    async def answer(request: Request) -> None:
        if request.target == "/openapi/v3":
            url = f"/openapi/v3{BASE}?hash=ABC"
            await request.answer_json({"paths": {BASE.strip("/"): {"serverRelativeURL": url}}})
        else:
            await request.answer_json({"openapi": "3.0.0", "paths": {}})

    async with backend(tmp_path / "server", answer) as behind, serving(api_database, tmp_path, **placed(behind)) as api:
        behind.discovery = discovery
        await register(api, behind)
        assert (await api.get(BASE)).ok(200) == RESOURCES
        groups = [g["name"] for g in (await api.get("/apis")).ok(200)["groups"]]
        assert groups[0] == "apiregistration.k8s.io"
        assert GROUP in groups
        assert (await api.get(f"/apis/{GROUP}")).ok(200)["kind"] == "APIGroup"
        version = await freshness(api)
        assert (version["freshness"], [r["resource"] for r in version["resources"]]) == ("Current", ["metrics"])
        index = (await api.get("/openapi/v3")).ok(200)["paths"]
        assert index[BASE.strip("/")] == {"serverRelativeURL": f"/openapi/v3{BASE}?hash=ABC"}
        assert (await api.get(f"/openapi/v3{BASE}?hash=ABC")).ok(200)["openapi"] == "3.0.0"
        # What was known is still listed, as old.
        alive = False
        (await api.patch(f"{PATH}/{NAME}", {"metadata": {"labels": {"a": "b"}}})).ok(200)
        await wait_for_condition(api, NAME, "False")
        version = await freshness(api)
        assert (version["freshness"], [r["resource"] for r in version["resources"]]) == ("Stale", ["metrics"])
        (await api.delete(f"{PATH}/{NAME}")).ok(200)
        assert GROUP not in (await api.get("/apis")).text
        assert BASE.strip("/") not in (await api.get("/openapi/v3")).ok(200)["paths"]


async def test_a_server_with_aggregated_discovery_alone(api_database: str, tmp_path: Path) -> None:
    answers = asyncio.Event()

    async def discovery(request: Request) -> None:
        await request.answer(b"")

    async def answer(request: Request) -> None:
        if request.target != "/apis":
            await request.answer_json({}, 404)
        elif answers.is_set():
            await request.answer(json.dumps(published(METRICS)).encode(), content_type=AGGREGATED)
        else:
            await request.answer_json({}, 503)

    async with (
        backend(tmp_path / "server", answer) as behind,
        serving(api_database, tmp_path, **placed(behind)) as client,
    ):
        behind.discovery = discovery
        await register(client, behind)
        paths = (await client.get("/")).ok(200)["paths"]
        assert {"/api/v1", "/healthz", f"/apis/{GROUP}", BASE, "/apis/apiextensions.k8s.io/v1"} <= {*paths}
        assert await freshness(client) == {"version": "v1", "freshness": "Stale"}
        answers.set()

        async def listed() -> bool:
            return await freshness(client) == {"version": "v1", "resources": [METRICS], "freshness": "Current"}

        await eventually(listed)
        (await client.delete(f"{PATH}/{NAME}")).ok(200)
        assert BASE not in (await client.get("/")).ok(200)["paths"]


async def test_discovery_does_not_wait(api_database: str, tmp_path: Path) -> None:
    async with backend(tmp_path / "server") as behind, serving(api_database, tmp_path, **placed(behind)) as client:
        behind.discovery = hang
        spec = {"service": {"namespace": "kube-system", "name": "metrics"}, "caBundle": behind.bundle}
        (await client.get("/apis", accept=AGGREGATED)).ok(200)
        (await client.post(PATH, api_service(NAME, **spec))).ok(201)

        async def slowest() -> float:
            began = time.monotonic()
            assert (await freshness(client))["freshness"] == "Stale"
            return time.monotonic() - began

        # Of several, for the machine may be busy; each would wait for the server as long as a check may take.
        assert min([await slowest() for _ in range(5)]) < CHECK_SECONDS / 2


async def test_servers_that_hang_delay_neither_discovery_nor_the_check_of_another(
    api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four were checked at once: after a restart, twenty that hang kept another one `Stale` for half a minute."""
    hanging = False

    async def answer(request: Request) -> None:
        if hanging and request.target.startswith("/apis/a"):
            await asyncio.sleep(NEVER)
        await request.answer_json({}, 404)

    async with backend(tmp_path / "server", answer) as behind:
        async with serving(api_database, tmp_path, **placed(behind)) as client:
            await register(client, behind)
            spec = {"service": {"namespace": "kube-system", "name": "metrics"}, "caBundle": behind.bundle}
            for number in range(20):
                (await client.post(PATH, api_service(f"v1.a{number}.example.com", **spec))).ok(201)
        hanging = True
        # No check ends by itself from now on.
        monkeypatch.setattr("registry.aggregation.availability.CHECK_SECONDS", 3600.0)
        async with serving(api_database, tmp_path, **placed(behind)) as client:

            async def is_current() -> bool:
                return bool((await freshness(client))["freshness"] == "Current")

            await eventually(is_current)
            items = (await client.get("/apis", accept=AGGREGATED)).ok(200)["items"]
            others = [item for item in items if item["metadata"]["name"].startswith("a")]
            stale = [item for item in others if item["versions"][0]["freshness"] == "Stale"]
            assert len([item for item in stale if item["metadata"]["name"].endswith(".example.com")]) == 20


async def test_one_success_of_five_requests_is_enough(api_database: str, tmp_path: Path) -> None:
    requests = 0

    async def fifth(request: Request) -> None:
        nonlocal requests
        requests += 1
        if requests < 3:
            await asyncio.sleep(NEVER)
        elif requests < 5:
            await request.answer_json({}, 500)
        else:
            await request.answer_json(RESOURCES)

    async with backend(tmp_path / "server") as behind, serving(api_database, tmp_path, **placed(behind)) as client:
        behind.discovery = fifth
        spec = {"service": {"namespace": "kube-system", "name": "metrics"}, "caBundle": behind.bundle}
        (await client.post(PATH, api_service(NAME, **spec))).ok(201)

        async def first_condition() -> Any:
            return (await client.get(f"{PATH}/{NAME}")).ok(200).get("status", {}).get("conditions")

        [condition] = await eventually(first_condition)
        assert condition["reason"] == "Passed"


async def test_discovery_follows_the_server(api_database: str, tmp_path: Path) -> None:
    first: dict[str, Any] = {"name": "metrics", "kind": "Metric", "namespaced": True, "verbs": ["get"]}
    resources = [first]

    async def discovery(request: Request) -> None:
        await request.answer_json({**RESOURCES, "resources": resources})

    async with backend(tmp_path / "server") as behind, serving(api_database, tmp_path, **placed(behind)) as client:
        behind.discovery = discovery
        await register(client, behind)

        async def lists_all() -> bool:
            # Discovery does not wait for a server that is slow: its resources come later.
            return len((await freshness(client)).get("resources", ())) == len(resources)

        await eventually(lists_all)
        etag = (await client.get("/apis", accept=AGGREGATED)).header("etag")
        known = {"accept": AGGREGATED, "if-none-match": etag}
        assert (await client.request("GET", "/apis", headers=known)).code == 304
        resources.append({**first, "name": "others"})
        (await client.patch(f"{PATH}/{NAME}", {"metadata": {"labels": {"a": "b"}}})).ok(200)
        await eventually(lists_all)
        assert (await client.request("GET", "/apis", headers=known)).code == 200
