"""The administrator of a tenant is one in the tenants below it, and nowhere else."""

from __future__ import annotations

from tests.api.client import Client
from tests.api.errors import failure
from tests.tenancy.tenants import CONFIG_MAPS, TENANTS, change, config_map, make, token_of


async def test_only_parents_administer_their_tenants(api: Client) -> None:
    system = api.of_tenant("system")
    await make(system, "corp")
    await make(system, "team", parent="corp")
    await make(system, "squad", parent="team")
    await make(system, "other")
    above = api.with_token(await token_of(api, "corp", "system:masters"))
    for name in ("corp", "team", "squad"):
        (await above.of_tenant(name).post(CONFIG_MAPS, config_map("a"))).ok(201)
    for name in ("other", "system", "default"):
        failure(await above.of_tenant(name).get(CONFIG_MAPS), 403, "Forbidden")
    # Its Tenant objects are the business of `system`.
    failure(await above.of_tenant("system").get(f"{TENANTS}/team"), 403, "Forbidden")
    below = api.with_token(await token_of(api, "squad", "system:masters"))
    (await below.get(CONFIG_MAPS)).ok()
    for name in ("team", "corp"):
        failure(await below.of_tenant(name).get(CONFIG_MAPS), 403, "Forbidden")
    plain = api.with_token(await token_of(api, "corp", "dev"))
    failure(await plain.of_tenant("team").get(CONFIG_MAPS), 403, "Forbidden")
    # What is below no longer is no longer his.
    (await change(system, "team", {"parent": None})).ok()
    failure(await above.of_tenant("squad").get(CONFIG_MAPS), 403, "Forbidden")
