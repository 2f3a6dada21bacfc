"""Bearer tokens: made, used, past their end, revoked, and none of another tenant's business."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import AsyncIterator

import pytest

from registry.authentication.authenticator import Rejected
from registry.authentication.tokens import bearer as module
from registry.authentication.tokens.bearer import BadToken, BearerTokens
from registry.store.store import Store
from registry.store.types import TenantName
from tests.api.client import Client
from tests.authentication.identities import eventually, is_refused, who
from tests.store.writes import delete_tenant

DEFAULT = TenantName("default")


@pytest.fixture
async def tokens(api_database: str, api: Client) -> AsyncIterator[tuple[BearerTokens, Store]]:
    """A second process on the database of the application."""
    store = await Store.open(api_database, housekeeping=False)
    yield BearerTokens(store), store
    await store.close()


Fixture = tuple[BearerTokens, Store]


async def test_a_token_identifies_its_user(api: Client, tokens: Fixture) -> None:
    bearer, store = tokens
    tenant = await store.tenant(DEFAULT)
    token, stored = await bearer.create(tenant, "ann", ["dev", "ops"], "for a test", None)
    assert await who(api, token) == {
        "username": "ann",
        "groups": ["dev", "ops", "system:authenticated"],
        "extra": {"authentication.kubernetes.io/credential-id": [f"TOKEN={stored.id}"]},
    }
    assert [(t.id, t.user, t.description) for t in await store.tokens.list(tenant)] == [
        (stored.id, "ann", "for a test")
    ]


async def test_the_database_knows_only_the_hash(tokens: Fixture) -> None:
    bearer, store = tokens
    token, stored = await bearer.create(await store.tenant(DEFAULT), "ann", [], "", None)
    secret = token.rpartition(".")[2]
    assert len(secret) == 43
    assert secret.encode() not in stored.hash
    assert len(stored.hash) == 32
    assert secret not in repr(stored)


async def test_a_revoked_token_is_refused(api: Client, tokens: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once where it is revoked; elsewhere once what is remembered has grown old."""
    monkeypatch.setattr(module, "REVOKED_AFTER_SECONDS", 0.1)
    bearer, store = tokens
    tenant = await store.tenant(DEFAULT)
    token, stored = await bearer.create(tenant, "ann", [], "", None)
    assert await bearer.identify(token) is not None
    assert (await who(api, token))["username"] == "ann"
    revoked = await bearer.revoke(tenant, stored.id)
    assert revoked is not None
    assert revoked.revoked_at is not None
    with pytest.raises(Rejected, match="revoked"):
        await bearer.identify(token)
    await eventually(lambda: is_refused(api, token))
    assert await bearer.revoke(tenant, "none") is None


async def test_a_token_expires(tokens: Fixture) -> None:
    bearer, store = tokens
    tenant = await store.tenant(DEFAULT)
    for seconds in (0.3, 3, 30):
        soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)
        with contextlib.suppress(BadToken):  # the machine was so slow that it would begin past its end
            token, stored = await bearer.create(tenant, "ann", [], "", soon)
            break
    assert stored.is_good(soon - datetime.timedelta(microseconds=1))
    assert not stored.is_good(soon)

    async def is_over() -> bool:
        try:
            await bearer.identify(token)
        except Rejected:
            return True
        return False

    await eventually(is_over)


async def test_home_and_other_tenants(api: Client, tokens: Fixture) -> None:
    bearer, store = tokens
    acme = await store.create_tenant(TenantName("acme"))
    token, _ = await bearer.create(acme, "ann", ["system:masters"], "", None)
    mine = api.with_token(token)
    namespaces = "/api/v1/namespaces"
    (await mine.post(namespaces, {"metadata": {"name": "of-acme"}})).ok(201)
    (await mine.of_tenant("acme").get(f"{namespaces}/of-acme")).ok(200)
    for other in ("default", "system", "nobody"):
        answer = await mine.of_tenant(other).get(f"{namespaces}/of-acme")
        assert answer.code == 403, other
        assert "not found" not in answer.text
    assert (await api.get(f"{namespaces}/of-acme")).code == 404


BAD = {
    "nobody": ("", [], ""),
    "anonymous": ("system:anonymous", [], ""),
    "an account": ("system:serviceaccount:a:b", [], ""),
    "a group without name": ("ann", [""], ""),
    "line feed": ("ann\n", [], ""),
    "too long": ("a" * 1025, [], ""),
    "too many groups": ("a", ["g"] * 65, ""),
    "a stranger's name": ("system:tenant:a:b", [], ""),
    "a stranger's group": ("ann", ["system:tenant:a"], ""),
    "description": ("ann", [], "\x00"),
}


async def test_invalid_users_and_groups_of_tokens(tokens: Fixture) -> None:
    bearer, store = tokens
    for user, groups, description in BAD.values():
        with pytest.raises(BadToken):
            await bearer.create(await store.tenant(DEFAULT), user, groups, description, None)


async def test_a_token_cannot_expire_before_it_is_valid(tokens: Fixture) -> None:
    bearer, store = tokens
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=1)
    with pytest.raises(BadToken):
        await bearer.create(await store.tenant(DEFAULT), "ann", [], "", past)


async def test_tokens_of_a_deleted_tenant(tokens: Fixture) -> None:
    bearer, store = tokens
    acme = await store.create_tenant(TenantName("acme"))
    token, _ = await bearer.create(acme, "ann", [], "", None)
    await delete_tenant(store, acme)
    with pytest.raises(Rejected):
        await BearerTokens(store).identify(token)
    await store.tokens.clean()
    again = await store.create_tenant(TenantName("acme"))
    assert await store.tokens.list(again) == []
    with pytest.raises(Rejected):
        await BearerTokens(store).identify(token)
