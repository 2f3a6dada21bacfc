"""For which tenant a request waits: that of its user, or the one that it names; strangers wait as one tenant."""

from __future__ import annotations

import asyncio
from pathlib import Path
from unittest import mock

import pytest

from registry.authentication.authenticator import Rejected
from registry.authentication.tokens.bearer import BearerTokens
from registry.flowcontrol.fair_permits import set_owner
from registry.flowcontrol.fair_queue import FairQueue
from registry.store.store import Store
from tests.api.client import Client, eventually
from tests.application import serving
from tests.tenancy.tenants import CONFIG_MAPS, make, token_of

# Digits that base32 has.
LETTERS = str.maketrans("0189", "bcde")
GET = "/api/v1/namespaces/default"
HOSTS = "{tenant}.example.com"


async def seats(client: Client, path: str, **headers: str) -> set[str]:
    """The tenants for which two equal requests took their seats, by the second: the first makes them known."""
    code = (await client.get(path, headers=headers)).code
    found = set()
    real = FairQueue.try_acquire

    def recorded(queue: FairQueue, name: str, now: float, *more: float) -> object:
        found.add(queue.owner(name))
        return real(queue, name, now, *more)

    with mock.patch.object(FairQueue, "try_acquire", recorded):
        assert (await client.get(path, headers=headers)).code == code
    assert code < 500
    return found


async def test_requests_wait_for_their_own_tenant(api_database: str, tmp_path: Path) -> None:
    async with serving(api_database, tmp_path, tenant_host_pattern=HOSTS) as api:
        system = api.of_tenant("system")
        for name in ("acme", "other"):
            await make(system, name)
        tokens = {name: api.with_token(await token_of(api, name, "system:masters")) for name in ("acme", "other")}
        assert await seats(api, GET) == {"default"}
        assert await seats(api, f"/clusters/acme{GET}") == {"acme"}
        for name, client in tokens.items():
            assert await seats(client, GET) == {name}
            assert await seats(client, f"/clusters/default{GET}") == {name}, "refused, but at whose cost?"
        assert await seats(api, GET, host="other.example.com:6443") == {"other"}
        for stranger in ("", "nobody has issued this", "registry.acme.aaaaaaaaaaaaaaaa." + "A" * 43):
            assert await seats(api.with_token(stranger), f"/clusters/acme{GET}") == {"?"}
        assert await seats(api, "/readyz") == {"?"}


async def test_lists_of_one_tenant_that_wait_for_connections_do_not_delay_another(api: Client) -> None:
    other = await make(api.of_tenant("system"), "other")
    (await other.get(CONFIG_MAPS)).ok()
    store: Store = api._app.state.backend.store  # type: ignore[attr-defined]
    pool, free, ended = store._pool, asyncio.Event(), 0

    async def hold() -> None:
        nonlocal ended
        set_owner("flood")
        async with pool.connection():
            await free.wait()
            await asyncio.sleep(0.01)  # as a list takes
        ended += 1

    flood = [asyncio.create_task(hold()) for _ in range(400)]
    await asyncio.sleep(0)
    store.tenancy.forget_name("other")
    request = asyncio.create_task(other.get(CONFIG_MAPS))
    for _ in range(10):
        await asyncio.sleep(0)
    free.set()
    (await request).ok()
    assert ended < 200, "it waited for the queue of the other tenant"

    async def over() -> bool:
        return all(task.done() for task in flood)

    await eventually(over)


async def test_look_ups_of_strangers_tokens_do_not_delay_others(api: Client) -> None:
    name, ended = "acme", 0
    await make(api.of_tenant("system"), name)
    token = await token_of(api, name, "system:masters")
    tokens: BearerTokens = next(
        one
        for one in api._app.state.backend.authentication._authenticators  # type: ignore[attr-defined]
        if isinstance(one, BearerTokens)
    )

    async def ask(number: int) -> None:
        nonlocal ended
        with pytest.raises(Rejected):
            await tokens.identify(f"registry.{name}.{'a' * 13}{number:03}.{'A' * 43}".translate(LETTERS))
        ended += 1

    async with asyncio.TaskGroup() as group:
        for number in range(300):
            group.create_task(ask(number))
        await asyncio.sleep(0)
        set_owner(name)
        assert await tokens.identify(token) is not None
        assert ended < 100


@pytest.mark.parametrize("host", ["acme.example.com", ""], ids=["with host", "without"])
async def test_the_host_of_another_tenant_is_refused(api_database: str, tmp_path: Path, host: str) -> None:
    async with serving(api_database, tmp_path, tenant_host_pattern=HOSTS) as api:
        await make(api.of_tenant("system"), "acme")
        answer = await api.get(f"/clusters/default{GET}", headers={"host": host})
        assert answer.code == (404 if host else 200)
