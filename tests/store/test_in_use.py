"""Write.unless_used: a write is refused while certain objects exist."""

from __future__ import annotations

from dataclasses import replace

import pytest

from registry.store.errors import InUse
from registry.store.store import Store
from registry.store.types import Contents, Tenant, TenantName
from tests.store.writes import GADGETS, WIDGETS, commit_all, create, delete, update

EXCEPTED: dict[str, list[str] | None] = {GADGETS: None, WIDGETS: ["ns/own"]}


@pytest.mark.parametrize(
    "keys, contents, used",
    [
        pytest.param([], Contents(resource=WIDGETS), False, id="no-objects-of-a-resource"),
        pytest.param([(WIDGETS, "ns/a")], Contents(resource=WIDGETS), True, id="an-object-of-a-resource"),
        pytest.param([(GADGETS, "ns/a")], Contents(resource=WIDGETS), False, id="an-object-of-another"),
        pytest.param([(WIDGETS, "ns/a")], Contents(prefix="ns/"), True, id="an-object-in-a-namespace"),
        pytest.param([(GADGETS, "a"), (WIDGETS, "ns/a")], Contents(prefix="ns/"), True, id="of-the-last-resource"),
        pytest.param([(WIDGETS, "n/a"), (WIDGETS, "ns0/a"), (WIDGETS, "ns")], Contents(prefix="ns/"), False,
                     id="in-namespaces-beside-it"),
        pytest.param([(GADGETS, "ns/a")], Contents(prefix="ns/", excepted=EXCEPTED), False, id="an-excepted-resource"),
        pytest.param([(WIDGETS, "ns/own")], Contents(prefix="ns/", excepted=EXCEPTED), False, id="an-excepted-key"),
        pytest.param([(WIDGETS, "ns/own"), (WIDGETS, "ns/p")], Contents(prefix="ns/", excepted=EXCEPTED), True,
                     id="a-key-beside-an-excepted-one"),
    ],
)  # fmt: skip
async def test_a_write_is_refused_while_there_are_such_objects(
    store: Store, tenant: Tenant, keys: list[tuple[str, str]], contents: Contents, used: bool
) -> None:
    neighbour = await store.create_tenant(TenantName("neighbour"))
    await commit_all(store, neighbour, [create("ns/a"), create("ns/b", resource=GADGETS)])
    held = "definitions.example.com"
    await commit_all(store, tenant, [create(key, resource=resource) for resource, key in keys])  # type: ignore[arg-type]
    await store.commit(tenant, create("it", resource=held))  # type: ignore[arg-type]
    assert await store.lookups.in_use(tenant, contents) is used
    for write in (update("it", resource=held), delete("it", resource=held)):  # type: ignore[arg-type]
        write = replace(write, unless_used=contents)
        if used:
            with pytest.raises(InUse):
                await store.commit(tenant, write)
        else:
            await store.commit(tenant, write)
