"""Paging during concurrent writes: all pages equal the filtered and sorted list at the first page's revision."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from tests.api.client import Client
from tests.api.widgets import WIDGETS, widget
from tests.query.lists import INDEX, answers_by, declare, query, text_of

WRITERS = 3
WALKS = 24
SHAPES: list[tuple[dict[str, str], Callable[[Any], bool], bool]] = [
    ({"filter": "object.spec.size > 2", "orderBy": "spec.size"}, lambda s: s.get("size", 0) > 2, False),
    ({"filter": "object.spec.size > 2", "orderBy": "spec.size desc"}, lambda s: s.get("size", 0) > 2, True),
    ({"orderBy": "spec.size"}, lambda s: True, False),
    ({"filter": 'object.spec.color == "a"', "orderBy": "spec.size"}, lambda s: s.get("color") == "a", False),
    ({"filter": 'object.spec.color in ["a", "b"] && object.spec.size == 1', "orderBy": "metadata.name"},
     lambda s: s.get("color") in ("a", "b") and s.get("size") == 1, False),
    ({"filter": '"x" in object.spec.parts && object.spec.size < 4', "orderBy": "spec.size desc"},
     lambda s: "x" in s.get("parts", ()) and s.get("size", 9) < 4, True),
]  # fmt: skip


async def write(api: Client, seed: int, done: asyncio.Event) -> None:
    chance = random.Random(seed)
    while not done.is_set():
        name = f"w{chance.randrange(25):02}"
        spec: dict[str, Any] = {"color": chance.choice("abc"), "parts": chance.choices("xyz", k=chance.randrange(3))}
        if chance.random() < 0.9:
            spec["size"] = chance.randrange(6)
        match chance.randrange(5):
            case 0:
                await api.delete(f"{WIDGETS}/{name}")
            case 1 | 2:
                await api.post(WIDGETS, widget(name, **spec))
            case _:
                await api.patch(f"{WIDGETS}/{name}", {"spec": spec})
        await asyncio.sleep(0)


def expected(items: list[Any], matches: Callable[[Any], bool], order: str, downwards: bool) -> list[Any]:
    found = [item for item in items if matches(item.get("spec") or {})]
    found.sort(key=lambda item: item["metadata"]["name"])
    if not order.startswith("spec.size"):
        return found
    there = [item for item in found if "size" in (item.get("spec") or {})]
    there.sort(key=lambda item: item["spec"]["size"], reverse=downwards)
    return there + [item for item in found if item not in there]


async def walk(api: Client, parameters: dict[str, str], limit: int) -> tuple[str, list[Any], int]:
    found: list[Any] = []
    token, at, total = "", "", -1
    while True:
        more = {"continue": token} if token else {"count": "exact"}
        answer = await api.get(f"{WIDGETS}?{text_of({**parameters, **more, 'limit': limit})}")
        page = answer.ok()
        if not token:
            at, total = page["metadata"]["resourceVersion"], int(answer.header("x-total-count"))
        assert page["metadata"]["resourceVersion"] == at
        found += page["items"]
        token = page["metadata"]["continue"]
        if not token:
            return at, found, total
        await asyncio.sleep(0.01)


async def test_each_walk_is_the_list_at_its_revision(api: Client) -> None:
    chance = random.Random(11)
    done = asyncio.Event()
    await write_some(api)
    await declare(api, INDEX)
    before = answers_by("index")
    writers = [asyncio.create_task(write(api, seed, done)) for seed in range(WRITERS)]
    try:
        for number in range(WALKS):
            parameters, matches, downwards = SHAPES[number % len(SHAPES)]
            at, found, total = await walk(api, parameters, chance.choice((1, 2, 5)))
            plain = await query(api, resourceVersion=at, resourceVersionMatch="Exact")
            wanted = expected(plain["items"], matches, parameters["orderBy"], downwards)
            assert (found, total) == (wanted, len(wanted)), (parameters, at)
    finally:
        done.set()
        await asyncio.gather(*writers)
    assert answers_by("index") > before + WALKS


async def write_some(api: Client) -> None:
    for number in range(15):
        (await api.post(WIDGETS, widget(f"w{number:02}", size=number % 6, color="abc"[number % 3]))).ok(201)
