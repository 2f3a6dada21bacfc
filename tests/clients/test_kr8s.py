"""kr8s: objects that know how to refresh, patch, scale, wait and watch."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.clients.kinds import Kind
from tests.running import RunningServer

kr8s: Any = pytest.importorskip("kr8s", reason="kr8s is not installed")
aio: Any = pytest.importorskip("kr8s.asyncio", reason="kr8s is not installed")


async def connect(server: RunningServer, kind: Kind) -> tuple[Any, Any]:
    api = await aio.api(kubeconfig=str(server.kubeconfig), namespace=kind.namespace)
    gadgets = aio.objects.new_class(
        kind="Gadget", version=kind.api_version, namespaced=True, scalable=True, plural=kind.plural
    )
    return api, gadgets


async def test_life_of_an_object(server: RunningServer, kind: Kind) -> None:
    api, gadgets = await connect(server, kind)
    gadget = await gadgets(kind.gadget("a", size=1, replicas=1), api=api)
    await gadget.create()
    assert await gadget.exists()
    await gadget.patch({"spec": {"size": 5}})
    await gadget.patch(
        {"status": {"phase": "Up", "conditions": [{"type": "Ready", "status": "True"}]}}, subresource="status"
    )
    await gadget.label(tier="gold")
    await gadget.annotate({"note": "kept"})
    await gadget.refresh()
    assert (gadget.spec.size, gadget.status.phase, gadget.labels["tier"]) == (5, "Up", "gold")
    assert gadget.annotations["note"] == "kept"
    await gadget.wait(["condition=Ready", "jsonpath='{.status.phase}'=Up"], timeout=60)
    found = [g.name async for g in api.get(gadgets, label_selector={"tier": "gold"})]
    assert found == ["a"]
    await gadget.delete()
    await gadget.wait("delete", timeout=60)
    assert not await gadget.exists()
    with pytest.raises(kr8s.NotFoundError):
        await gadgets.get("a", api=api)


async def test_pages_of_a_hundred(server: RunningServer, kind: Kind) -> None:
    """kr8s lists by hundreds and follows the continue token."""
    api, gadgets = await connect(server, kind)
    made = [await gadgets(kind.gadget(f"g{number:03}", size=1), api=api) for number in range(105)]
    await asyncio.gather(*(gadget.create() for gadget in made))
    assert [g.name async for g in api.get(gadgets)] == [f"g{number:03}" for number in range(105)]


async def test_watch_without_a_revision(server: RunningServer, kind: Kind) -> None:
    api, gadgets = await connect(server, kind)
    await (await gadgets(kind.gadget("a", size=1), api=api)).create()
    seen = []
    async with asyncio.timeout(60):
        async for event, gadget in api.watch(gadgets):
            seen.append((event, gadget.name))
            if event == "ADDED":
                await gadget.delete()
            else:
                break
    assert seen == [("ADDED", "a"), ("DELETED", "a")]


async def test_discovery(server: RunningServer, kind: Kind) -> None:
    api, _ = await connect(server, kind)
    resources = {r["name"]: r for r in await api.api_resources() if r.get("version") == kind.api_version}
    assert resources["gadgets"]["kind"] == "Gadget"
    assert (await api.version())["major"] == "1"
