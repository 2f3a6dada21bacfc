"""What the definitions of a tenant may take of a process's memory."""

from __future__ import annotations

from typing import Any

import pytest

from registry.api.strategies import definition
from tests.api.client import MERGE, Client, eventually
from tests.api.widgets import DEFINITIONS, GROUP
from tests.api.widgets import definition as a_definition

# Two of these fit beside the definition that the tests have, three do not.
LIMIT = 150_000


def large(kind: str, characters: int = 100_000) -> dict[str, Any]:
    """A definition that takes half as many bytes as it has characters."""
    schema = {"type": "object", "description": "x" * characters}
    return a_definition(f"{kind.lower()}s", kind, schema=schema)


async def create(api: Client, kind: str) -> None:
    (await api.post(DEFINITIONS, large(kind))).ok(201)

    async def is_served() -> bool:
        return (await api.get(f"/apis/{GROUP}/v1/{kind.lower()}s")).code == 200

    await eventually(is_served)


async def test_they_take_bounded_memory(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definition, "TENANT_BYTES", LIMIT)
    monkeypatch.setattr(definition, "_LARGEST_BYTES", LIMIT)
    await create(api, "First")
    await create(api, "Second")
    refused = await api.post(DEFINITIONS, large("Third"))
    assert refused.code == 403
    assert f"its definitions may take {LIMIT} bytes of memory, used: 1" in refused.json["message"]
    path = f"{DEFINITIONS}/seconds.{GROUP}"
    larger = (await api.get(path)).ok()
    larger["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] *= 2
    assert (await api.put(path, larger)).code == 403
    (await api.patch(path, {"metadata": {"labels": {"a": "b"}}}, MERGE)).ok()
    larger["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "short"
    del larger["metadata"]["resourceVersion"]
    (await api.patch(path, {"spec": larger["spec"]}, MERGE)).ok()
    await create(api, "Third")
