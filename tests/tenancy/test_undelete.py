"""A tenant that is deleted with a grace period is hidden at once, and can be brought back until that is over."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.api.client import Client, eventually
from tests.api.errors import failure
from tests.tenancy.tenants import CONFIG_MAPS, TENANTS, config_map, make, tenant

KEPT = {"gracePeriodSeconds": 3600}


@pytest.fixture
def system(api: Client) -> Client:
    return api.of_tenant("system")


async def undelete(system: Client, name: str, body: Any = None) -> Any:
    return await system.post(f"{TENANTS}/{name}/undelete", body or {})


async def test_an_undeleted_tenant_has_its_former_state(system: Client) -> None:
    acme = await make(system, "acme", displayName="Acme")
    before = (await acme.post(CONFIG_MAPS, config_map("a"))).ok(201)
    deleted = (await system.delete(f"{TENANTS}/acme", KEPT)).ok()
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 3600
    assert deleted["status"]["phase"] == "Terminating"
    assert (await acme.get(f"{CONFIG_MAPS}/a")).code == 404, "hidden at once"
    back = (await undelete(system, "acme")).ok()
    assert back["metadata"]["uid"] == deleted["metadata"]["uid"]
    assert "deletionTimestamp" not in back["metadata"]
    assert (back["status"]["phase"], back["spec"]) == ("Active", {"displayName": "Acme"})
    assert (await acme.get(f"{CONFIG_MAPS}/a")).ok() == before
    (await acme.post(CONFIG_MAPS, config_map("b"))).ok(201)


async def test_the_name_is_reserved_until_the_removal(system: Client) -> None:
    await make(system, "acme")
    (await system.delete(f"{TENANTS}/acme", KEPT)).ok()
    failure(await system.post(TENANTS, tenant("acme")), 409, "Conflict")


async def test_a_second_deletion_may_only_shorten_the_grace_period(system: Client) -> None:
    await make(system, "acme")
    first = (await system.delete(f"{TENANTS}/acme", KEPT)).ok()
    again = (await system.delete(f"{TENANTS}/acme", {"gracePeriodSeconds": 7200})).ok()
    assert again["metadata"]["deletionTimestamp"] == first["metadata"]["deletionTimestamp"]
    (await system.delete(f"{TENANTS}/acme", {"gracePeriodSeconds": 0})).ok()

    async def gone() -> bool:
        return (await system.get(f"{TENANTS}/acme")).code == 404

    await eventually(gone)
    failure(await undelete(system, "acme"), 404, "NotFound")


@pytest.mark.parametrize("grace", [None, 0, -1])
async def test_without_a_grace_period_it_is_removed_at_once(system: Client, grace: int | None) -> None:
    await make(system, "acme")
    (await system.delete(f"{TENANTS}/acme", {} if grace is None else {"gracePeriodSeconds": grace})).ok()

    async def gone() -> bool:
        return (await system.get(f"{TENANTS}/acme")).code == 404

    await eventually(gone)


async def test_only_deleted_tenants_can_be_undeleted(system: Client) -> None:
    await make(system, "acme")
    failure(await undelete(system, "acme"), 409, "AlreadyExists")
    failure(await undelete(system, "absent"), 404, "NotFound")


async def test_a_tenant_is_not_undeleted_below_a_deleted_parent(system: Client) -> None:
    """Its parent may have gone meanwhile; another may have taken its schema."""
    await make(system, "top")
    await make(system, "acme", parent="top", sqlSchema="shop")
    (await system.delete(f"{TENANTS}/acme", KEPT)).ok()
    (await system.delete(f"{TENANTS}/top", KEPT)).ok()
    failure(await undelete(system, "acme"), 422, "Invalid")
    (await undelete(system, "top")).ok()
    await make(system, "other", sqlSchema="shop")
    failure(await undelete(system, "acme"), 422, "Invalid")


async def test_a_uid_may_be_a_precondition(system: Client) -> None:
    await make(system, "acme")
    (await system.delete(f"{TENANTS}/acme", KEPT)).ok()
    failure(await undelete(system, "acme", {"preconditions": {"uid": "another"}}), 409, "Conflict")


async def test_the_removal_starts_after_the_grace_period(system: Client, api_database: str) -> None:
    """Once it may have begun, the tenant does not come back."""
    acme = await make(system, "acme")
    (await acme.post(CONFIG_MAPS, config_map("a"))).ok(201)
    (await system.delete(f"{TENANTS}/acme", KEPT)).ok()
    with psycopg.connect(api_database, autocommit=True) as connection:
        connection.execute("UPDATE tenants SET deleted_at = now() + interval '30 seconds' WHERE name = 'acme'")
    failure(await undelete(system, "acme"), 409, "Conflict")
    with psycopg.connect(api_database, autocommit=True) as connection:
        connection.execute("UPDATE tenants SET deleted_at = now() WHERE name = 'acme'")
    # A sweep finds it; any write of the object has it looked at now.
    await system.patch(f"{TENANTS}/acme", {"metadata": {"labels": {"a": "b"}}})

    async def gone() -> bool:
        return (await system.get(f"{TENANTS}/acme")).code == 404

    await eventually(gone)


async def test_a_dry_run_does_not_undelete(system: Client) -> None:
    await make(system, "acme")
    (await system.delete(f"{TENANTS}/acme", KEPT)).ok()
    answer = (await system.post(f"{TENANTS}/acme/undelete?dryRun=All", {})).ok()
    assert "deletionTimestamp" not in answer["metadata"]
    assert (await system.get(f"{TENANTS}/acme")).ok()["status"]["phase"] == "Terminating"
