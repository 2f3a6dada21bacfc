"""How new a policy is: at once in the process that has written, within a bound in the others; and strangers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from registry.authentication.user import ADMINISTRATORS, AUTHENTICATED, User
from registry.authorization.authorizer import CHECK_SECONDS, Authorizer, user_in_tenant
from registry.authorization.rbac.stored import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from registry.store.store import Store
from registry.store.types import Actor, ObjectKey, ResourceName, Tenant, TenantName, Uid, Write, WriteOperation
from tests.authorization.rbac.build import attributes_of, known
from tests.databases import open_store

JANE = known("jane")
PODS = attributes_of("get pods")
ROLE = {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}
BINDING = {"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "User", "name": "jane"}]}


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    async with open_store(database_url) as store:
        yield store


@pytest.fixture
async def tenant(store: Store) -> Tenant:
    return await store.create_tenant(TenantName("acme"))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


async def write(
    store: Store,
    tenant: Tenant,
    resource: ResourceName,
    body: Mapping[str, object],
    operation: WriteOperation = WriteOperation.CREATE,
    name: str = "r",
) -> None:
    text = json.dumps({"name": name, "namespace": ""})[1:] + "," + json.dumps(body)[1:]
    await store.commit(
        tenant,
        Write(
            operation,
            resource,
            ObjectKey(name),
            Actor("t", "t", "t"),
            uid=Uid(f"{name}-uid"),
            version="v1",
            schema=1,
            body=text,
        ),
    )


async def grant(store: Store, tenant: Tenant) -> None:
    await write(store, tenant, CLUSTER_ROLES, ROLE)
    await write(store, tenant, CLUSTER_ROLE_BINDINGS, BINDING)


async def test_a_tenant_without_roles_has_the_defaults(store: Store, tenant: Tenant) -> None:
    policies = Authorizer(store)
    assert (await policies.decide(tenant, JANE, attributes_of("get /apis"))).allowed
    assert not (await policies.decide(tenant, JANE, PODS)).allowed
    assert not await policies.entries_of(tenant)
    # Nothing has been written by looking.
    assert await store.lookups.newest_of(tenant, (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)) == (0, 0)


async def test_roles_alone_leave_the_defaults_bindings_replace_them(store: Store, tenant: Tenant) -> None:
    policies = Authorizer(store)
    await write(store, tenant, CLUSTER_ROLES, ROLE)
    assert (await policies.decide(tenant, JANE, attributes_of("get /apis"))).allowed
    await write(store, tenant, CLUSTER_ROLE_BINDINGS, BINDING)
    policies.invalidate(tenant)
    assert not (await policies.decide(tenant, JANE, attributes_of("get /apis"))).allowed
    assert (await policies.decide(tenant, JANE, PODS)).allowed


async def test_a_policy_applies_at_once_in_the_process_that_wrote_it(store: Store, tenant: Tenant) -> None:
    policies = Authorizer(store, clock=Clock())
    assert not (await policies.decide(tenant, JANE, PODS)).allowed
    await grant(store, tenant)
    policies.invalidate(tenant)
    assert (await policies.decide(tenant, JANE, PODS)).allowed
    await write(store, tenant, CLUSTER_ROLES, {"rules": None}, WriteOperation.UPDATE)
    policies.invalidate(tenant)
    assert not (await policies.decide(tenant, JANE, PODS)).allowed


@pytest.mark.parametrize("how", ["updated", "deleted", "deleted and another made"])
async def test_a_policy_applies_in_another_process_after_its_next_load(store: Store, tenant: Tenant, how: str) -> None:
    await grant(store, tenant)
    clock = Clock()
    other = Authorizer(store, clock=clock)
    assert (await other.decide(tenant, JANE, PODS)).allowed
    match how:
        case "updated":
            await write(store, tenant, CLUSTER_ROLES, {"rules": None}, WriteOperation.UPDATE)
        case "deleted":
            await write(store, tenant, CLUSTER_ROLES, {}, WriteOperation.DELETE)
        case _:
            await write(store, tenant, CLUSTER_ROLES, {}, WriteOperation.DELETE)
            await write(store, tenant, CLUSTER_ROLES, ROLE, name="other")
    clock.now += CHECK_SECONDS / 2
    assert (await other.decide(tenant, JANE, PODS)).allowed
    clock.now += CHECK_SECONDS / 2
    assert not (await other.decide(tenant, JANE, PODS)).allowed


async def test_nothing_is_compiled_where_nothing_has_changed(store: Store, tenant: Tenant) -> None:
    await grant(store, tenant)
    clock = Clock()
    policies = Authorizer(store, clock=clock)
    before = await policies.of(tenant)
    clock.now += 10 * CHECK_SECONDS
    assert await policies.of(tenant) is before


async def test_rules_of_a_tenant_do_not_apply_to_another(store: Store, tenant: Tenant) -> None:
    other = await store.create_tenant(TenantName("globex"))
    await grant(store, tenant)
    policies = Authorizer(store)
    assert (await policies.decide(tenant, JANE, PODS)).allowed
    assert not (await policies.decide(other, JANE, PODS)).allowed


async def test_a_write_is_noted_while_a_policy_is_read_by_one_that_has_waited(
    store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is being read must not pass for fresh, also after the one that read it first is gone."""
    policies = Authorizer(store, clock=Clock())
    newest_of, has_read, may_end = store.lookups.newest_of, asyncio.Event(), asyncio.Event()

    async def read(*arguments: Any) -> tuple[int, int]:
        found = await newest_of(*arguments)
        has_read.set()
        await may_end.wait()
        return found

    monkeypatch.setattr(store.lookups, "newest_of", read)
    first, second = (asyncio.create_task(policies.of(tenant)) for _ in range(2))
    await has_read.wait()
    has_read.clear()
    first.cancel()
    await has_read.wait()
    await grant(store, tenant)
    policies.invalidate(tenant)
    may_end.set()
    await second
    assert (await policies.decide(tenant, JANE, PODS)).allowed


MASTER = User("root", (ADMINISTRATORS, AUTHENTICATED), tenant="acme")
SEEN = {
    "at home": (User("a", ("dev",), tenant="acme"), "acme", User("a", ("dev",), tenant="acme")),
    "of the platform": (User("a", ("dev",)), "acme", User("a", ("dev",))),
    "a stranger": (
        User("a", ("dev", AUTHENTICATED), tenant="globex"),
        "acme",
        User(
            "system:tenant:globex:a",
            ("system:tenant:globex", "system:tenant:globex:dev", "system:tenant:globex:system:authenticated"),
            tenant="globex",
        ),
    ),
    "an administrator at home": (MASTER, "acme", MASTER),
    "an administrator of the platform": (
        User("root", (ADMINISTRATORS,), tenant="system"),
        "acme",
        User("root", (ADMINISTRATORS,), tenant="system"),
    ),
    "somebody else of the platform's tenant": (
        User("a", (), tenant="system"),
        "acme",
        User("system:tenant:system:a", ("system:tenant:system",), tenant="system"),
    ),
}


@pytest.mark.parametrize("user, tenant, seen", SEEN.values(), ids=SEEN)
def test_users_of_other_tenants(user: User, tenant: str, seen: User) -> None:
    assert user_in_tenant(user, tenant) == seen


def test_an_administrator_has_no_rights_in_other_tenants() -> None:
    assert not user_in_tenant(MASTER, "globex").is_administrator
    assert not user_in_tenant(User("root", (ADMINISTRATORS,), tenant="globex"), "system").is_administrator
