"""kubernetes-asyncio: custom objects and watches on aiohttp."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.clients.kinds import Kind
from tests.clients.libraries import library
from tests.running import RunningServer

kubernetes: Any = library("kubernetes_asyncio")


@pytest_asyncio.fixture
async def api(server: RunningServer) -> AsyncIterator[Any]:
    async with await kubernetes.config.new_client_from_config(str(server.kubeconfig)) as api:
        yield api


async def test_custom_objects(api: Any, kind: Kind) -> None:
    objects = kubernetes.client.CustomObjectsApi(api)
    where = (kind.group, kind.version, kind.namespace, kind.plural)
    names = [f"g{number:02}" for number in range(20)]
    await asyncio.gather(*(objects.create_namespaced_custom_object(*where, kind.gadget(n, size=1)) for n in names))
    listed = await objects.list_namespaced_custom_object(*where)
    assert [item["metadata"]["name"] for item in listed["items"]] == names
    revisions = {item["metadata"]["resourceVersion"] for item in listed["items"]}
    assert len(revisions) == len(names)
    changed = await objects.patch_namespaced_custom_object(
        *where, "g00", {"spec": {"size": 2}}, _content_type="application/merge-patch+json"
    )
    assert changed["spec"]["size"] == 2
    with pytest.raises(kubernetes.client.ApiException) as stale:
        await objects.replace_namespaced_custom_object(*where, "g00", listed["items"][0])
    assert stale.value.status == 409
    await objects.delete_collection_namespaced_custom_object(*where)
    assert (await objects.list_namespaced_custom_object(*where))["items"] == []


async def test_watch(api: Any, kind: Kind) -> None:
    objects = kubernetes.client.CustomObjectsApi(api)
    where = (kind.group, kind.version, kind.namespace, kind.plural)
    await objects.create_namespaced_custom_object(*where, kind.gadget("a", size=1))
    seen: list[tuple[str, str]] = []
    async with kubernetes.watch.Watch() as watch:
        stream = watch.stream(objects.list_namespaced_custom_object, *where, timeout_seconds=60)
        async with asyncio.timeout(60):
            async for event in stream:
                seen.append((event["type"], event["object"]["metadata"]["name"]))
                if len(seen) == 1:
                    await objects.create_namespaced_custom_object(*where, kind.gadget("b", size=1))
                elif len(seen) == 2:
                    await objects.delete_namespaced_custom_object(*where, "a")
                else:
                    break
    assert seen == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]


async def test_dynamic_client(api: Any, kind: Kind) -> None:
    dynamic = await kubernetes.dynamic.DynamicClient(api)
    gadgets = await dynamic.resources.get(api_version=kind.api_version, kind="Gadget")
    made = await gadgets.create(body=kind.gadget("a", size=1), namespace=kind.namespace)
    assert made.spec.color == "grey"
    found = await gadgets.get(namespace=kind.namespace, label_selector="size=1")
    assert [item.metadata.name for item in found.items] == ["a"]
