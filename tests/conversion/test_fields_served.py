"""Field selectors see objects at the version that is asked for, whichever version they were written at; pages are filled."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.api.client import Client
from tests.api.errors import failure
from tests.api.widgets import define
from tests.conversion.gateways import BETA, V1, definition, gateway

pytestmark = pytest.mark.slow  # a server and a database for each

HOOK = "/apis/net.example.com/{}/namespaces/default/endpoints"


async def names(api: Client, path: str) -> list[str]:
    return [item["metadata"]["name"] for item in (await api.get(path)).ok()["items"]]


@pytest.fixture
async def defined(api: Client) -> Client:
    crd = definition()
    for version, path in zip(crd["spec"]["versions"], (".spec.size", ".spec.tier"), strict=True):
        version["selectableFields"] = [{"jsonPath": ".spec.mode"}, {"jsonPath": path}]
    await define(api, crd)
    return api


async def test_lists_select_by_fields_of_the_requested_version(defined: Client) -> None:
    (await defined.post(V1, gateway("a", "v1", mode="Fast"))).ok(201)
    (await defined.post(BETA, gateway("b", mode="fast"))).ok(201)
    (await defined.post(BETA, gateway("c", mode="slow"))).ok(201)
    assert await names(defined, f"{V1}?fieldSelector=spec.mode=Fast") == ["a", "b"]
    assert await names(defined, f"{V1}?fieldSelector=spec.mode=fast") == []
    assert await names(defined, f"{BETA}?fieldSelector=spec.mode=fast") == ["a", "b"]
    assert await names(defined, f"{BETA}?fieldSelector=spec.mode!=fast") == ["c"]
    assert await names(defined, f"{BETA}?fieldSelector=spec.mode=fast,metadata.name=b") == ["b"]


async def test_pages_are_filled_to_their_limit(defined: Client) -> None:
    for i in range(6):
        (await defined.post(V1, gateway(f"g{i}", "v1", mode="Slow" if i in (1, 2) else "Fast"))).ok(201)
    path, found = f"{BETA}?fieldSelector=spec.mode=fast&limit=3", []
    first = (await defined.get(path)).ok()
    found.append([item["metadata"]["name"] for item in first["items"]])
    second = (await defined.get(f"{path}&continue={first['metadata']['continue']}")).ok()
    found.append([item["metadata"]["name"] for item in second["items"]])
    assert found == [["g0", "g3", "g4"], ["g5"]]
    assert not second["metadata"].get("continue")
    assert len((await defined.delete(f"{BETA}?fieldSelector=spec.mode=slow")).ok()["items"]) == 2
    assert await names(defined, V1) == ["g0", "g3", "g4", "g5"]


async def test_wildcard_lists_cannot_select_by_converted_fields(defined: Client) -> None:
    (await defined.post(V1, gateway("a", "v1", mode="Slow"))).ok(201)
    across = defined.of_tenant("*")
    assert await names(across, BETA) == ["a"]
    for watch in ("", "&watch=1"):
        failure(await across.get(f"{BETA}?fieldSelector=spec.mode=fast{watch}"), 400, "BadRequest")


async def test_objects_enter_and_leave_a_watch(defined: Client) -> None:
    (await defined.post(V1, gateway("there", "v1", mode="Fast"))).ok(201)
    async with defined.watch(f"{BETA}?watch=1&fieldSelector=spec.mode=fast") as watch:
        (await defined.post(V1, gateway("a", "v1", mode="Slow"))).ok(201)
        (await defined.patch(f"{V1}/a", {"spec": {"mode": "Fast"}})).ok()
        (await defined.patch(f"{V1}/a", {"spec": {"scaling": {"replicas": 2}}})).ok()
        (await defined.patch(f"{V1}/a", {"spec": {"mode": "Slow"}})).ok()
        (await defined.delete(f"{V1}/a")).ok()
        (await defined.delete(f"{V1}/there")).ok()
        events = await watch.events(5)
    assert [(e["type"], e["object"]["metadata"]["name"], e["object"]["spec"]["mode"]) for e in events] == [
        ("ADDED", "there", "fast"),
        ("ADDED", "a", "fast"),
        ("MODIFIED", "a", "fast"),
        ("DELETED", "a", "fast"),
        ("DELETED", "there", "fast"),
    ]


async def test_selection_uses_objects_converted_by_a_webhook(api: Client, definition: dict[str, Any]) -> None:
    """The webhook's versions have the fields under other names; v1beta1 has one that v1 has not."""
    crd: dict[str, Any] = yaml.safe_load(yaml.safe_dump(definition))
    paths = {"v1": ".spec.host", "v1beta1": ".spec.hostPort"}
    for version in crd["spec"]["versions"]:
        version["selectableFields"] = [{"jsonPath": paths[version["name"]]}]
    await define(api, crd)
    v1, beta = HOOK.format("v1"), HOOK.format("v1beta1")
    for name, at in (("a", "h:1"), ("b", "k:2")):
        (
            await api.post(
                beta,
                {
                    "apiVersion": "net.example.com/v1beta1",
                    "kind": "Endpoint",
                    "metadata": {"name": name},
                    "spec": {"hostPort": at},
                },
            )
        ).ok(201)
    assert await names(api, f"{v1}?fieldSelector=spec.host=k") == ["b"]
    assert await names(api, f"{beta}?fieldSelector=spec.hostPort=h:1") == ["a"]
    assert (await api.get(f"{v1}?fieldSelector=spec.hostPort=h:1")).code == 400
    async with api.watch(f"{beta}?watch=1&resourceVersion=0&fieldSelector=spec.hostPort=k:2") as watch:
        (await api.patch(f"{v1}/a", {"spec": {"host": "k", "port": 2}})).ok()
        events = await watch.events(2)
    assert [(e["type"], e["object"]["metadata"]["name"]) for e in events] == [("ADDED", "b"), ("ADDED", "a")]
