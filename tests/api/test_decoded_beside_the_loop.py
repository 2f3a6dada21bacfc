"""Large objects that requests and controllers read are decoded beside the event loop: each megabyte holds it for 30 ms."""

from __future__ import annotations

import threading
import traceback
from typing import Any

import pytest

from registry.codec import json_pieces, stored
from registry.controllers import quota as quota_controller
from registry.flowcontrol import time_slice
from tests.api.client import PARTIAL_LIST, TABLE, Client, eventually
from tests.api.widgets import NAMESPACES, WIDGETS, widget
from tests.application import has_own_application, shares_application

pytestmark = shares_application

DEFAULT = f"{NAMESPACES}/default"
QUOTAS = f"{DEFAULT}/resourcequotas"
CONFIG_MAPS = f"{DEFAULT}/configmaps"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
# Above what is decoded on the event loop.
OWNERS = [
    {"apiVersion": "v1", "kind": "Unknown", "name": f"o{i}", "uid": f"00000000-0000-4000-8000-{i:012}"}
    for i in range(1_000)
]
LARGE = {"ownerReferences": OWNERS, "finalizers": ["example.com/hold"]}


@pytest.fixture
def decoded_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where large texts were decoded by the thread of the event loop."""
    places: list[str] = []
    loads, loop = json_pieces.loads, threading.get_ident()

    def record(text: str) -> Any:
        if threading.get_ident() == loop and len(text) > 64 * 1024:
            places.append("".join(traceback.format_stack(limit=8)))
        return loads(text)

    def record_value(text: str) -> Any:
        if threading.get_ident() == loop and len(text) > 64 * 1024:
            places.append("".join(traceback.format_stack(limit=8)))
        return first_value(text)

    first_value = stored._first_value
    monkeypatch.setattr(stored, "loads", record)
    monkeypatch.setattr(stored, "_first_value", record_value)
    return places


async def test_of_quotas(api: Client, decoded_on_the_loop: list[str]) -> None:
    quota = {"metadata": {"name": "q", **LARGE}, "spec": {"hard": {"configmaps": "9", "services.nodeports": "9"}}}
    (await api.post(QUOTAS, quota)).ok(201)

    async def look() -> Any:
        return (await api.get(QUOTAS + "?fieldSelector=metadata.name=q")).ok()["items"][0].get("status")

    await eventually(look)
    service = {"metadata": {"name": "s", **LARGE}, "spec": {"ports": [{"port": 80}], "type": "NodePort"}}
    (await api.post(f"{DEFAULT}/services", service)).ok(201)
    (await api.post(CONFIG_MAPS, {"metadata": {"name": "counted"}})).ok(201)
    used = (await api.get(f"{QUOTAS}/q")).ok()["status"]["used"]
    assert (used["configmaps"], used["services.nodeports"]) == ("2", "1")
    (await api.delete(f"{CONFIG_MAPS}/counted")).ok()

    async def released() -> bool:
        return bool((await api.get(f"{QUOTAS}/q")).ok()["status"]["used"]["configmaps"] == "1")

    await eventually(released)
    assert decoded_on_the_loop == []


async def test_of_quotas_of_many_resources(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing 40,000 amounts held it for 0.3 s."""
    threads: set[int] = set()
    compare = quota_controller._compare

    def record(*arguments: Any) -> Any:
        threads.add(threading.get_ident())
        return compare(*arguments)

    monkeypatch.setattr(quota_controller, "_compare", record)
    hard = {f"count/resources-of-some-long-name-{i}.example.com": "1" for i in range(1_500)}
    (await api.post(QUOTAS, {"metadata": {"name": "many"}, "spec": {"hard": hard}})).ok(201)

    async def look() -> Any:
        return (await api.get(f"{QUOTAS}/many")).ok().get("status")

    await eventually(look)
    assert threads
    assert threading.get_ident() not in threads


async def test_of_namespaces(api: Client, decoded_on_the_loop: list[str]) -> None:
    (await api.post(NAMESPACES, {"metadata": {"name": "large", **LARGE}})).ok(201)
    path = f"{NAMESPACES}/large/configmaps"

    async def completed() -> bool:
        return (await api.get(f"{path}/kube-root-ca.crt")).code == 200

    await eventually(completed)
    (await api.post(path, {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}})).ok(201)
    (await api.delete(f"{NAMESPACES}/large")).ok()
    assert (await api.post(path, {"metadata": {"name": "late"}})).code == 403

    async def reported() -> Any:
        return (await api.get(f"{NAMESPACES}/large")).ok()["status"].get("conditions")

    await eventually(reported)
    assert decoded_on_the_loop == []


async def test_of_accounts_and_their_secrets(api: Client, decoded_on_the_loop: list[str]) -> None:
    (await api.post(f"{DEFAULT}/serviceaccounts", {"metadata": {"name": "robot", **LARGE}})).ok(201)
    annotations = {"kubernetes.io/service-account.name": "robot"}
    secret = {
        "metadata": {"name": "token", "annotations": annotations, **LARGE},
        "type": "kubernetes.io/service-account-token",
    }
    (await api.post(f"{DEFAULT}/secrets", secret)).ok(201)

    async def filled() -> Any:
        return (await api.get(f"{DEFAULT}/secrets/token")).ok().get("data")

    await eventually(filled)
    (await api.patch(f"{CONFIG_MAPS}/kube-root-ca.crt", {"data": {"more": "x" * 100_000}})).ok()

    async def reverted() -> bool:
        return list((await api.get(f"{CONFIG_MAPS}/kube-root-ca.crt")).ok()["data"]) == ["ca.crt"]

    await eventually(reverted)
    assert decoded_on_the_loop == []


async def test_of_lists_and_watches_that_are_authorized_for_one_name(
    api: Client, decoded_on_the_loop: list[str]
) -> None:
    (await api.post(CONFIG_MAPS, {"metadata": {"name": "one", **LARGE}})).ok(201)
    rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["one"], "verbs": ["list", "watch"]}
    (await api.post(f"{RBAC}/clusterroles", {"metadata": {"name": "reads-one"}, "rules": [rule]})).ok(201)
    binding = {
        "metadata": {"name": "reads-one"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reads-one"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    }
    (await api.post(f"{RBAC}/clusterrolebindings", binding)).ok(201)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = (await api.post(f"{DEFAULT}/serviceaccounts/default/token", asked)).ok(201)["status"]["token"]
    user, selected = api.with_token(token), f"{CONFIG_MAPS}?fieldSelector=metadata.name%3Done"
    assert [item["metadata"]["name"] for item in (await user.get(selected)).ok()["items"]] == ["one"]
    watched = await user.get(f"{selected}&watch=true&resourceVersion=0&timeoutSeconds=1")
    assert watched.text.startswith('{"type":"ADDED"')
    assert decoded_on_the_loop == []


@pytest.mark.parametrize("accept", [TABLE, PARTIAL_LIST])
async def test_of_lists_that_begin_with_small_objects(
    api: Client, accept: str, decoded_on_the_loop: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_slice, "SLICE_SECONDS", 10.0)
    monkeypatch.setattr(time_slice, "SHARED_SLICE_SECONDS", 10.0)
    (await api.post(WIDGETS, widget("a"))).ok(201)
    (await api.post(WIDGETS, widget("b", metadata=LARGE))).ok(201)
    (await api.get(WIDGETS, accept=accept)).ok()
    assert decoded_on_the_loop == []


@has_own_application
async def test_of_lists_over_several_tenants(api: Client, decoded_on_the_loop: list[str]) -> None:
    annotations = {"tenancy.registry/tenant": "mine"}
    (await api.post(CONFIG_MAPS, {"metadata": {"name": "b", **LARGE, "annotations": annotations}})).ok(201)
    found = (await api.of_tenant("*").get("/api/v1/configmaps")).ok()["items"]
    tenants = [o["metadata"]["annotations"]["tenancy.registry/tenant"] for o in found if o["metadata"]["name"] == "b"]
    assert tenants == ["default"]
    assert decoded_on_the_loop == []
