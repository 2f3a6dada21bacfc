"""Watches over several tenants: each event once, in the order of revisions, across reconnects."""

from __future__ import annotations

import asyncio
import random

from tests.api.client import Client, eventually
from tests.api.widgets import ALL_WIDGETS, WIDGETS, define, widget
from tests.tenancy.sharing import BINDINGS, consumer, shared_definition
from tests.tenancy.tenants import make, token_of

TENANTS = ("one", "two", "three")
WRITES = 30


async def _write(client: Client, tenant: str, log: list[tuple[int, str, str]], seed: int) -> None:
    chosen = random.Random(seed)
    there: set[str] = set()
    for _ in range(WRITES):
        name = chosen.choice("abc")
        if name in there and chosen.random() < 0.4:
            # A deletion does not tell its revision: the watch must.
            (await client.delete(f"{WIDGETS}/{name}")).ok()
            there.discard(name)
            log.append((0, tenant, name))
        elif name in there:
            answer = await client.patch(f"{WIDGETS}/{name}", {"spec": {"color": str(chosen.random())}})
            log.append((int(answer.ok()["metadata"]["resourceVersion"]), tenant, name))
        else:
            answer = await client.post(WIDGETS, widget(name))
            log.append((int(answer.ok(201)["metadata"]["resourceVersion"]), tenant, name))
            there.add(name)


async def test_each_event_once_in_the_order_of_revisions(api: Client, provider: Client) -> None:
    clients = {name: await consumer(api, name, domain="shop") for name in TENANTS}
    stranger = await make(api.of_tenant("system"), "own", domain="shop")
    await define(stranger, shared_definition())
    across = api.with_token(await token_of(api, "provider", "system:masters")).of_tenant("*")
    position = (await across.get(ALL_WIDGETS)).ok()["metadata"]["resourceVersion"]
    logs: dict[str, list[tuple[int, str, str]]] = {name: [] for name in (*TENANTS, "own")}
    writers = [
        asyncio.create_task(_write(c, n, logs[n], s)) for s, (n, c) in enumerate([*clients.items(), ("own", stranger)])
    ]
    wanted = len(TENANTS) * WRITES
    seen: list[tuple[int, str, str, str]] = []
    chosen = random.Random(7)
    while len(seen) < wanted:
        async with across.watch(f"{ALL_WIDGETS}?watch=true&resourceVersion={position}") as watch:
            for event in await watch.events(min(chosen.randint(1, 12), wanted - len(seen))):
                metadata = event["object"]["metadata"]
                position = metadata["resourceVersion"]
                tenant = metadata["annotations"]["tenancy.registry/tenant"]
                seen.append((int(position), tenant, metadata["name"], event["type"]))
    await asyncio.gather(*writers)
    revisions = [revision for revision, *_ in seen]
    assert revisions == sorted(set(revisions))
    for name in TENANTS:
        mine = [
            (0 if kind == "DELETED" else revision, tenant, key)
            for revision, tenant, key, kind in seen
            if tenant == name
        ]
        assert mine == logs[name]
    assert not [event for event in seen if event[1] == "own"]


async def test_bindings_created_and_deleted_during_a_watch(api: Client, provider: Client) -> None:
    across = api.with_token(await token_of(api, "provider", "system:masters")).of_tenant("*")
    async with across.watch(f"{ALL_WIDGETS}?watch=true") as watch:
        one = await consumer(api, "one", domain="shop")
        (await one.post(WIDGETS, widget("a"))).ok(201)
        assert (await watch.event())["type"] == "ADDED"
        (await one.delete(f"{BINDINGS}/b")).ok()
        gone = await watch.event()
        assert (gone["type"], gone["object"]["metadata"]["name"]) == ("DELETED", "a")

        async def unbound() -> bool:
            return (await one.get(f"{BINDINGS}/b")).code == 404

        await eventually(unbound)
        # Now a definition of the tenant's own: not the provider's business.
        await define(one, shared_definition())
        (await one.post(WIDGETS, widget("secret"))).ok(201)
        two = await consumer(api, "two", domain="shop")
        (await two.post(WIDGETS, widget("b"))).ok(201)
        assert (await watch.event())["object"]["metadata"]["name"] == "b"
