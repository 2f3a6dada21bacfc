"""A process that writes until it is killed, and says what was acknowledged: "<key> <revision>" a line."""

from __future__ import annotations

import asyncio
import sys

from registry.store.errors import StoreError
from registry.store.store import Store
from registry.store.types import TenantName
from tests.store.writes import create


async def main(url: str, tenant_name: str, label: str, count: int) -> None:
    store = await Store.open(url, housekeeping=False)
    tenant = await store.tenant(TenantName(tenant_name))
    numbers = iter(range(count))

    async def write() -> None:
        for number in numbers:
            key = f"{label}/{number}"
            try:
                committed = await store.commit(tenant, create(key))
            except StoreError as error:
                print(f"# {type(error).__name__} {key}", flush=True)
                await asyncio.sleep(0.05)
            else:
                print(f"{key} {committed.revision}", flush=True)

    await asyncio.gather(*(write() for _ in range(16)))
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
