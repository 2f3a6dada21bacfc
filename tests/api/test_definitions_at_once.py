"""Many definitions at the same time: all are served, and a name that two ask for is given to one."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.api.client import Client, eventually
from tests.api.widgets import DEFINITIONS, definition, established


async def test_all_are_established(api: Client) -> None:
    made = [definition(f"many{n}s", f"Many{n}", group="many.example.com") for n in range(12)]
    answers = await asyncio.gather(*[api.post(DEFINITIONS, one) for one in made])
    assert [a.code for a in answers] == [201] * len(made)
    await asyncio.gather(*[established(api, one["metadata"]["name"]) for one in made])
    for one in made:
        (await api.get(f"/apis/many.example.com/v1/{one['spec']['names']['plural']}")).ok(200)


async def test_a_kind_is_given_to_one(api: Client) -> None:
    made = [definition(f"rival{n}s", "Rival", group="rivals.example.com") for n in range(6)]
    await asyncio.gather(*[api.post(DEFINITIONS, one) for one in made])

    async def look() -> list[str] | None:
        found = [await accepted(api, one["metadata"]["name"]) for one in made]
        return found if "" not in found else None

    statuses: list[str] = await eventually(look)
    assert sorted(statuses) == ["False"] * 5 + ["True"]


async def accepted(api: Client, name: str) -> str:
    """The status of NamesAccepted, empty before names are accepted or refused."""
    found: dict[str, Any] = (await api.get(f"{DEFINITIONS}/{name}")).ok()
    return next((c["status"] for c in found["status"].get("conditions") or [] if c["type"] == "NamesAccepted"), "")
