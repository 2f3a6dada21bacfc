"""Metrics of requests by known resources and verbs; clients cannot create new series."""

from __future__ import annotations

import asyncio
import time

import pytest

from registry.flowcontrol.byte_shares import Answers
from registry.http import metrics
from tests.api.client import Client, eventually
from tests.api.widgets import DEFINITIONS, GROUP, WIDGETS, define, definition, make, widget
from tests.http.exposition import exposition
from tests.tenancy.tenants import make as make_tenant
from tests.tenancy.tenants import token_of

RBAC = "/apis/rbac.authorization.k8s.io/v1"


def requests_series(verb: str, code: int, subresource: str = "") -> str:
    return (
        f'apiserver_request_total{{code="{code}",group="{GROUP}",resource="widgets",subresource="{subresource}",'
        f'verb="{verb}"}}'
    )


async def test_requests_are_counted(api: Client) -> None:
    before = await exposition(api)
    await make(api, "a")
    await api.get(f"{WIDGETS}/a")
    await api.get(f"{WIDGETS}/none")
    await api.get(f"{WIDGETS}/a/status")
    after = await exposition(api)
    for name in (
        requests_series("create", 201),
        requests_series("get", 200),
        requests_series("get", 404),
        requests_series("get", 200, "status"),
    ):
        assert after[name] - before.get(name, 0) == 1, name


async def test_watches_and_their_events_are_counted(api: Client) -> None:
    name = f'apiserver_watch_events_total{{group="{GROUP}",resource="widgets"}}'
    before = await exposition(api)
    async with api.watch(f"{WIDGETS}?watch=1") as watch:
        await make(api, "a", "b")
        await watch.events(2)
        during = await exposition(api)
        assert during["apiserver_longrunning_requests"] - before["apiserver_longrunning_requests"] == 1
    after = await exposition(api)
    assert after["apiserver_longrunning_requests"] == before["apiserver_longrunning_requests"]
    assert after[name] - before.get(name, 0) == 2


async def test_requests_in_flight_are_counted_until_they_are_answered(api: Client) -> None:
    """A watch is not in flight; the request for the metrics is."""
    name = "apiserver_current_inflight_requests"
    before = (await exposition(api))[name]
    async with api.watch(f"{WIDGETS}?watch=1"):
        for _ in range(5):
            await api.get(f"{WIDGETS}/none")
        assert (await exposition(api))[name] == before
    assert before >= 1


async def test_unknown_resources_create_no_series(api: Client) -> None:
    stranger = api.with_token("")
    await api.get(f"{WIDGETS}/x")
    await stranger.get(f"{WIDGETS}/x")
    await api.request("M0", "/x")
    await api.get(f"{WIDGETS}/a/sub")
    await stranger.get("/apis/g/v1/r/n/s")
    await api.get("/api/v1/r0")
    await exposition(api)  # reading it has series of its own
    before = await exposition(api)
    for number in range(20):
        await api.get(f"/apis/g{number}.example.com/v1/r{number}")
        await api.get(f"/api/v1/r{number}")
        await api.get(f"{WIDGETS}/a/sub{number}")
        await stranger.get(f"/apis/g{number}/v1/r{number}/n/s{number}")
        await api.request(f"M{number}", "/x")
    after = await exposition(api)
    assert after.keys() == before.keys()


async def test_no_series_names_a_tenant_or_an_object(api: Client) -> None:
    await make(api, "very-special-name")
    assert "very-special-name" not in (await api.get("/metrics")).text


async def use(api: Client, plural: str) -> None:
    """Every verb on the resource of a definition, which is deleted at the end."""
    path = f"/apis/{GROUP}/v1/namespaces/default/{plural}"
    await define(api, definition(plural, plural.capitalize()))
    (await api.post(path, {**widget("a"), "kind": plural.capitalize()})).ok(201)
    (await api.get(f"{path}/a")).ok()
    (await api.get(path)).ok()
    async with api.watch(f"{path}?watch=1") as watch:
        (await api.patch(f"{path}/a", {"spec": {"size": 2}})).ok()
        await watch.events(1)
    (await api.delete(f"{path}/a")).ok()
    (await api.delete(f"{DEFINITIONS}/{plural}.{GROUP}")).ok()

    async def gone() -> bool:
        return (await api.get(path)).code == 404

    await eventually(gone)


async def test_series_of_deleted_definitions_are_removed(api: Client) -> None:
    await exposition(api)  # reading it has series of its own
    before: dict[str, float] = {}
    for plural in ("sprockets", "cogwheels0", "cogwheels1"):
        await use(api, plural)
        assert (await api.get(f"/apis/{GROUP}/v1/namespaces/default/{plural}/a")).code == 404
        before = before or await exposition(api)
    after = await exposition(api)
    assert not [name for name in after if "sprockets" in name or "cogwheels" in name]
    assert after.keys() == before.keys()


async def test_series_of_a_definition_in_another_tenant_are_kept(api: Client) -> None:
    other = await make_tenant(api.of_tenant("system"), "other")
    await define(other, definition())
    await make(other, "a")
    (await other.delete(f"{DEFINITIONS}/widgets.{GROUP}")).ok()

    async def gone() -> bool:
        return (await other.get(WIDGETS)).code == 404

    await make(api, "a")
    await eventually(gone)
    assert requests_series("create", 201) in await exposition(api)


def test_the_number_of_resources_is_bounded() -> None:
    for number in range(metrics.RESOURCES_LIMIT + 20):
        metrics.observe("get", "bounded.example.com", f"r{number}", "", 200, 0.1)
        metrics.observe("get", "bounded.example.com", "r0", "", 200, 0.1)
        metrics.watch_events("bounded.example.com", f"r{number}").inc()
    lines = metrics.exposition().decode().splitlines()
    shown = {line.split('resource="')[1].split('"')[0] for line in lines if "bounded.example.com" in line}
    assert len(shown) <= metrics.RESOURCES_LIMIT
    assert {"r0", f"r{metrics.RESOURCES_LIMIT + 19}"} <= shown
    assert "r1" not in shown
    for resource in shown:
        metrics.forget("bounded.example.com", resource)
    assert "bounded.example.com" not in metrics.exposition().decode()


async def test_reading_many_series_does_not_hold_the_event_loop(api: Client) -> None:
    Answers(1).begin("another", None)  # what the context has of another request is not this one's
    try:
        for number in range(100):
            for verb in ("get", "list", "create", "update", "patch", "delete"):
                metrics.observe(verb, "many.example.com", f"r{number}", "", 200, 0.1)
        reading = asyncio.create_task(api.get("/metrics"))
        turns = 0
        while not reading.done():
            await asyncio.sleep(0)
            turns += 1
        assert (await reading).text.count("many.example.com") > 10_000
        assert turns > 5  # one if the loop makes the text; else thousands, on a busy machine dozens
    finally:
        for number in range(100):
            metrics.forget("many.example.com", f"r{number}")


def test_unusual_codes_of_webhooks_are_counted_together() -> None:
    for code in range(430, 480):
        metrics.observe("create", "codes.example.com", "r", "", code, 0.1)
    codes = [
        line
        for line in metrics.exposition().decode().splitlines()
        if line.startswith("apiserver_request_total{") and "codes.example.com" in line
    ]
    metrics.forget("codes.example.com", "r")
    assert 'code="600"' in "".join(codes)
    assert len(codes) < 5


async def test_a_tenant_has_no_metrics(api: Client) -> None:
    """They are of the process, and say which definitions all tenants have."""
    tenant = await make_tenant(api.of_tenant("system"), "acme")
    grant = {
        "apiVersion": RBAC.removeprefix("/apis/"),
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "all"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
            for kind, name in (
                ("Group", "system:tenant:acme"),
                ("Group", "system:authenticated"),
                ("User", "system:tenant:acme:alice"),
            )
        ],
    }
    (await tenant.post(f"{RBAC}/clusterrolebindings", grant)).ok(201)
    (await api.post(f"{RBAC}/clusterrolebindings", grant)).ok(201)
    of_acme, of_default = await token_of(api, "acme", "system:masters"), await token_of(api, "default")
    assert (await tenant.with_token(of_acme).get("/metrics")).code == 404
    assert (await tenant.with_token(of_acme).get("/metrics/")).code == 404
    assert (await tenant.get("/metrics")).code == 404
    for token in (of_acme, of_default, ""):
        assert (await api.with_token(token).get("/metrics")).code == 403
        assert (await api.with_token(token).get("/metrics/")).code == 403
    above = await token_of(api, "system", "system:masters")
    assert (await api.with_token(above).get("/metrics")).code == 200


async def test_concurrent_scrapes_share_what_is_made(shared_api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each made its own in a thread, six at a time, so that the event loop had a seventh of the interpreter."""
    running, most, count = 0, 0, 0
    made = metrics.exposition

    def slow() -> bytes:
        nonlocal running, most, count
        running, count = running + 1, count + 1
        most = max(most, running)
        time.sleep(0.1)  # as with many tenants
        running -= 1
        return made()

    monkeypatch.setattr(metrics, "exposition", slow)
    answers = await asyncio.gather(*(shared_api.get("/metrics") for _ in range(12)))
    assert {answer.code for answer in answers} == {200}
    assert most == 1
    assert count < 12
    assert (await shared_api.get("/metrics")).code == 200
    assert count > 1
