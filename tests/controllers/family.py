"""Objects with owner references, and waiting for what happens to them."""

from __future__ import annotations

from typing import Any

from tests.api.client import Client, eventually
from tests.api.widgets import GROUP, WIDGETS, widget

HOLD = "example.com/hold"
NOBODY = "00000000-0000-4000-8000-000000000001"


def reference(owner: dict[str, Any], *, blocks: bool | None = None, **changed: Any) -> dict[str, Any]:
    made = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    if blocks is not None:
        made["blockOwnerDeletion"] = blocks
    return made | changed


def absent(name: str = "never-was") -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "name": name, "uid": NOBODY}


async def born(
    api: Client, name: str, *owners: dict[str, Any], held: bool = False, path: str = WIDGETS, blocks: bool | None = None
) -> dict[str, Any]:
    """A widget with these owners: references, or objects that are referred to."""
    metadata: dict[str, Any] = {}
    if owners:
        metadata["ownerReferences"] = [o if "uid" in o else reference(o, blocks=blocks) for o in owners]
    if held:
        metadata["finalizers"] = [HOLD]
    made: dict[str, Any] = (await api.post(path, widget(name, metadata=metadata))).ok(201)
    return made


async def gone(api: Client, *names: str, path: str = WIDGETS) -> None:
    """Returns when there are none of these."""
    for name in names:

        async def lost(name: str = name) -> bool:
            return (await api.get(f"{path}/{name}")).code == 404

        await eventually(lost)


async def marked(api: Client, name: str, path: str = WIDGETS) -> dict[str, Any]:
    """The object, when its deletion has begun."""

    async def look() -> dict[str, Any] | None:
        found: dict[str, Any] = (await api.get(f"{path}/{name}")).ok()
        return found if found["metadata"].get("deletionTimestamp") else None

    found: dict[str, Any] = await eventually(look)
    return found


async def wait_until_idle(api: Client, path: str = WIDGETS) -> None:
    """Returns when the collector has come past what was written before: it has taken an object without owners."""
    await born(api, "canary", absent())
    await gone(api, "canary", path=path)


async def there(api: Client, name: str, path: str = WIDGETS) -> dict[str, Any]:
    """The metadata of an object."""
    found: dict[str, Any] = (await api.get(f"{path}/{name}")).ok(200)["metadata"]
    return found


async def released(api: Client, name: str, path: str = WIDGETS) -> None:
    (await api.patch(f"{path}/{name}", {"metadata": {"finalizers": None}})).ok(200)
