"""What controllers and the garbage collector do with owners, finalizers and deleted namespaces by the thousand."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

from benchmarks.attacks.attacker import MERGE_PATCH, TENANT, Attacker

NAMESPACES = f"{TENANT}/api/v1/namespaces"
_WRITERS = 32


def _references(many: int, number: int, *, blocking: bool = True) -> list[dict[str, Any]]:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "blockOwnerDeletion": blocking}
    return [{**reference, "name": f"o{i}", "uid": f"00000000-0000-4000-8000-{number:04x}{i:08x}"} for i in range(many)]


async def _fill(attacker: Attacker, path: str, bodies: list[dict[str, Any]]) -> None:
    async def some(part: list[dict[str, Any]]) -> None:
        another = Attacker(attacker.target)
        for body in part:
            await another.ask("POST", path, body)

    await asyncio.gather(*(some(bodies[i::_WRITERS]) for i in range(_WRITERS)))


async def blocked_owners(attacker: Attacker) -> None:
    """Collections of objects of 8,000 owners each, which do not exist, deleted at once."""
    owned = {"apiVersion": "v1", "kind": "Secret"}
    numbers = count()
    path = f"{NAMESPACES}/default/secrets"

    async def work(one: Attacker) -> None:
        number = next(numbers)
        metadata = {"name": f"blocked{number}", "finalizers": ["example.com/kept"]}
        await one.ask("POST", path, {**owned, "metadata": {**metadata, "ownerReferences": _references(8_000, number)}})
        await one.ask("PATCH", f"{path}/blocked{number}", {"metadata": {"finalizers": None}}, kind=MERGE_PATCH)
        await one.ask("DELETE", f"{path}/blocked{number}")

    await attacker.parallel(8, work)


async def held_namespaces(attacker: Attacker) -> None:
    """Deleted namespaces of 2,000 objects, which finalizers hold, with long metadata."""
    for n in range(4):
        await attacker.ask("POST", NAMESPACES, {"metadata": {"name": f"held{n}"}})
        finalizers = [f"example.com/f{i:03}" + "x" * 40 for i in range(100)]
        await _fill(
            attacker,
            f"{NAMESPACES}/held{n}/configmaps",
            [{"metadata": {"name": f"m{i}", "finalizers": finalizers}} for i in range(2_000)],
        )
        await attacker.ask("DELETE", f"{NAMESPACES}/held{n}")

    async def work(one: Attacker) -> None:
        await one.ask("GET", f"{NAMESPACES}/held0")
        await asyncio.sleep(1)

    await attacker.parallel(1, work)


async def large_held(attacker: Attacker) -> None:
    """As above, few objects of a megabyte of metadata."""
    for n in range(4):
        await attacker.ask("POST", NAMESPACES, {"metadata": {"name": f"large{n}"}})
        metadata = {"finalizers": ["example.com/a"], "ownerReferences": _references(5_000, n, blocking=False)}
        bodies = [{"metadata": {"name": f"m{i}", **metadata}} for i in range(40)]
        await _fill(attacker, f"{NAMESPACES}/large{n}/configmaps", bodies)
        await attacker.ask("DELETE", f"{NAMESPACES}/large{n}")

    async def work(one: Attacker) -> None:
        await one.ask("GET", f"{NAMESPACES}/large0")
        await asyncio.sleep(1)

    await attacker.parallel(1, work)


async def large_namespaces(attacker: Attacker) -> None:
    """Creates in a namespace of a megabyte of metadata, with a quota of as much, both of which each create reads."""
    metadata = {"finalizers": ["example.com/a"], "ownerReferences": _references(8_000, 9, blocking=False)}
    path = f"{NAMESPACES}/large"
    await attacker.ask("POST", NAMESPACES, {"metadata": {"name": "large", **metadata}})
    quota = {"metadata": {"name": "large", **metadata}, "spec": {"hard": {"configmaps": "1000000"}}}
    await attacker.ask("POST", f"{path}/resourcequotas", quota)
    await attacker.policy("large", "namespaceObject.metadata.name != 'none'", "configmaps")
    numbers = count()

    async def work(one: Attacker) -> None:
        name = f"m{next(numbers)}"
        await one.ask("POST", f"{path}/configmaps", {"metadata": {"name": name}})
        await one.ask("DELETE", f"{path}/configmaps/{name}")
        await one.ask("PATCH", path, {"metadata": {"labels": {"a": name}}}, kind=MERGE_PATCH)

    await attacker.parallel(8, work)
