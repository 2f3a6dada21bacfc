"""Secrets of the type kubernetes.io/service-account-token: filled, and over with their account."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest

from registry.store.store import Store
from registry.store.types import Page, ResourceName, Tenant
from tests.api.client import Client
from tests.application import shares_application
from tests.authentication.identities import ACCOUNTS, SECRETS, account, eventually, is_refused, parts_of, who

pytestmark = shares_application

TYPE = "kubernetes.io/service-account-token"


def secret(name: str, of: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "annotations": {"kubernetes.io/service-account.name": of}},
        "type": TYPE,
        "data": {"more": "eA=="},
    }


async def filled(api: Client, name: str) -> dict[str, Any]:
    async def is_filled() -> bool:
        return "token" in ((await api.get(f"{SECRETS}/{name}")).ok()["data"])

    await eventually(is_filled)
    found: dict[str, Any] = (await api.get(f"{SECRETS}/{name}")).ok()
    return found


async def is_gone(api: Client, path: str) -> None:
    async def gone() -> bool:
        return (await api.get(path)).code == 404

    await eventually(gone)


async def test_it_is_filled_with_a_token(api: Client) -> None:
    made = await account(api, "robot")
    (await api.post(SECRETS, secret("s", "robot"))).ok()
    found = await filled(api, "s")
    assert found["metadata"]["annotations"]["kubernetes.io/service-account.uid"] == made["metadata"]["uid"]
    assert base64.b64decode(found["data"]["namespace"]) == b"default"
    assert found["data"]["more"] == "eA=="
    token = base64.b64decode(found["data"]["token"]).decode()
    assert "exp" not in parts_of(token)[1]
    assert (await who(api, token))["username"] == "system:serviceaccount:default:robot"
    (await api.delete(f"{SECRETS}/s")).ok()
    assert await is_refused(api, token)


async def test_removed_fields_are_restored(api: Client) -> None:
    await account(api, "robot")
    (await api.post(SECRETS, secret("s", "robot"))).ok()
    before = await filled(api, "s")
    (await api.patch(f"{SECRETS}/s", {"data": {"token": None}})).ok()
    after = await filled(api, "s")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


async def test_a_secret_is_deleted_with_its_account(api: Client) -> None:
    await account(api, "robot")
    for name, of in (("mine", "robot"), ("other", "default")):
        (await api.post(SECRETS, secret(name, of))).ok()
        await filled(api, name)
    (await api.delete(f"{ACCOUNTS}/robot")).ok()
    await is_gone(api, f"{SECRETS}/mine")
    assert (await api.get(f"{SECRETS}/other")).code == 200


async def test_secrets_of_many_deleted_accounts_are_looked_for_together(
    api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"robot-{number}" for number in range(40)]
    for name in names:
        await account(api, name)
        (await api.post(SECRETS, secret(name, name))).ok()
    for name in names:
        await filled(api, name)
    scans: list[str] = []
    scan = Store.scan

    def count(self: Store, tenant: Tenant, resource: ResourceName, **options: Any) -> AsyncIterator[Page]:
        scans.append(resource)
        return scan(self, tenant, resource, **options)

    monkeypatch.setattr(Store, "scan", count)
    for answer in await asyncio.gather(*(api.delete(f"{ACCOUNTS}/{name}") for name in names)):
        answer.ok()
    for name in names:
        await is_gone(api, f"{SECRETS}/{name}")
    assert scans.count("secrets") < 10


async def test_a_secret_of_an_account_that_was_made_again_is_deleted_with_those_of_others(api: Client) -> None:
    for name in ("robot", "other"):
        await account(api, name)
        (await api.post(SECRETS, secret(name, name))).ok()
        await filled(api, name)
    (await api.delete(f"{ACCOUNTS}/robot")).ok()
    await account(api, "robot")
    (await api.delete(f"{ACCOUNTS}/other")).ok()
    await is_gone(api, f"{SECRETS}/robot")
    await is_gone(api, f"{SECRETS}/other")


async def test_without_an_account_it_does_not_stay(api: Client) -> None:
    (await api.post(SECRETS, secret("s", "nobody"))).ok()
    await is_gone(api, f"{SECRETS}/s")


async def test_other_secrets_are_left_alone(api: Client) -> None:
    (
        await api.post(SECRETS, {"metadata": {"name": "s", "annotations": {"kubernetes.io/service-account.name": "x"}}})
    ).ok()
    (await api.post(SECRETS, secret("last", "default"))).ok(201)
    await filled(api, "last")
    assert "data" not in (await api.get(f"{SECRETS}/s")).ok()
