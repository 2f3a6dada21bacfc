"""The initial contents of a tenant are created once for all requests that wait for them."""

from __future__ import annotations

import asyncio
from typing import Any

from registry.api.tenant_bootstrap import TenantBootstrapper
from registry.flowcontrol.time_slice import ClientGone, TimeSlice
from registry.store.types import DomainId, Guards, Tenant, TenantId, TenantName

ACME = Tenant(TenantId(3), TenantName("acme"), DomainId(3), Guards(0, 0))


class Bootstrapper(TenantBootstrapper):
    """Counts how often contents are created, in the context of the request that begins it."""

    begun = 0

    async def _create_defaults(self, tenant: Tenant) -> None:
        self.begun += 1
        await asyncio.sleep(0)
        TimeSlice.current().raise_if_gone()


async def _request(bootstrapper: Bootstrapper, tenant: Tenant, *, is_gone: bool) -> str:
    TimeSlice(is_gone=lambda: is_gone).begin()
    try:
        await bootstrapper.ensure(tenant)
    except ClientGone:
        return "gone"
    return "served"


async def test_a_client_that_leaves_does_not_take_other_requests_along() -> None:
    backend: Any = None
    bootstrapper = Bootstrapper(backend)
    leaving = asyncio.create_task(_request(bootstrapper, ACME, is_gone=True))
    staying = [asyncio.create_task(_request(bootstrapper, ACME, is_gone=False)) for _ in range(3)]
    assert [await task for task in (leaving, *staying)] == ["gone", "served", "served", "served"]
    assert bootstrapper.begun == 2
