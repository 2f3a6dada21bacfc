"""The catalog of a tenant does not depend on earlier requests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from registry.api.catalog import CatalogEntry, TenantCatalog
from registry.api.catalogs import Catalogs
from registry.api.strategies import strategy_for
from registry.definitions.compiled import compile_definition
from registry.definitions.naming import HeldNames
from registry.store.types import Guards, ObjectKey, TenantName
from tests.databases import open_store
from tests.definitions.crds import crd, established, version

WIDGETS = compile_definition(established(crd(versions=[version("v1"), version("v2", storage=False, served=False)])))
KEY = (WIDGETS.group, WIDGETS.names.plural)


@pytest.mark.parametrize("asked", [(), ("v1",), ("v2",), ("v2", "v1")], ids=lambda asked: "-".join(asked) or "none")
def test_a_version_that_is_not_served_is_not_found(asked: tuple[str, ...]) -> None:
    catalog = TenantCatalog(Guards(1, 1), {KEY: WIDGETS}, {}, strategy_for)
    for name in asked:  # as controllers do, which read objects at whatever version they are stored at
        assert catalog.at_version(WIDGETS, WIDGETS.versions[name]).version.name == name
    assert catalog.served(WIDGETS.group, "v2", WIDGETS.names.plural) is None
    served = catalog.served(WIDGETS.group, "v1", WIDGETS.names.plural)
    assert served is not None
    assert served.version.name == "v1"


class Unread(dict[ObjectKey, CatalogEntry]):
    """Entries of which single ones may be looked up."""

    def __iter__(self) -> Iterator[ObjectKey]:
        raise AssertionError("every definition is looked at")

    keys = values = items = __iter__  # type: ignore[assignment]


def test_a_catalog_is_built_without_decoding_each_definition() -> None:
    """It is made again whenever one of a tenant's definitions changes, and a tenant may have thousands."""
    entry = CatalogEntry(
        1, WIDGETS, HeldNames(WIDGETS.name, WIDGETS.group, frozenset(), frozenset()), False, "", 10_000
    )
    catalog = TenantCatalog(Guards(1, 1), {}, Unread({ObjectKey(WIDGETS.name): entry}), strategy_for)
    assert catalog.definition(*KEY) is WIDGETS
    assert catalog.served(WIDGETS.group, "v1", WIDGETS.names.plural) is not None
    assert catalog.definition(WIDGETS.group, "others") is None


async def test_nobody_replaces_the_catalog_of_a_tenant_while_another_does(database_url: str) -> None:
    """The third arrives when the first has left, and the second, which had waited for it, is within the block."""
    async with open_store(database_url) as store:
        catalogs, tenant, within = Catalogs(store, (), strategy_for), await store.create_tenant(TenantName("acme")), 0

        async def replace() -> None:
            nonlocal within
            async with catalogs.writing(tenant):
                within += 1
                assert within == 1
                for _ in range(10):
                    await asyncio.sleep(0)  # lets the others run
                within -= 1

        first, second = asyncio.create_task(replace()), asyncio.create_task(replace())
        await first
        await asyncio.gather(second, replace())
