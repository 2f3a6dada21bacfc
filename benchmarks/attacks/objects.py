"""Objects whose form makes a step expensive: long sets, lists as maps, labels, histories, strategic merge patches."""

from __future__ import annotations

import json
from itertools import count, cycle
from typing import Any

from benchmarks.attacks.attacker import ANYTHING, MAPS, MERGE_PATCH, TENANT, Attacker, an_object

STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


async def histories(attacker: Attacker) -> None:
    """Histories with differences of objects of a megabyte, past states, lists of the past and what was deleted."""
    path = await attacker.define("states", ANYTHING)
    for i in range(12):
        items = [{"name": f"n{j}", "value": j * i} for j in range(40_000)]
        if i == 0:
            await attacker.ask("POST", path, an_object(path, "large", {"items": items}))
        else:
            await attacker.ask("PATCH", f"{path}/large", {"spec": {"items": items}}, kind=MERGE_PATCH)
        await attacker.ask("POST", path, an_object(path, f"gone{i}", {"items": items}))
        await attacker.ask("DELETE", f"{path}/gone{i}")
    paths = cycle(
        [
            f"{path}/large/history?diff=json",
            f"{path}/large/history?diff=text",
            f"{path}?deleted=true",
            f"{path}/large/history?limit=500",
            f"{path}?deleted=true&fieldSelector=metadata.name%3Dgone3",
        ]
    )

    async def work(one: Attacker) -> None:
        await one.ask("GET", next(paths))
        await one.ask("POST", f"{path}/gone1/undelete?dryRun=All", {})

    await attacker.parallel(16, work)


async def sets(attacker: Attacker) -> None:
    """Sets and lists as maps of tens of thousands of items, nearly equal, created, applied and patched."""
    item: dict[str, Any] = {"type": "object", "properties": {k: {"type": "string"} for k in ("a", "b", "c")}}
    keys = ["a", "b", "c"]
    spec = {
        "type": "object",
        "properties": {
            "texts": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "objects": {
                "type": "array",
                "items": {**item, "x-kubernetes-map-type": "atomic"},
                "x-kubernetes-list-type": "set",
            },
            "maps": {
                "type": "array",
                "items": {**item, "required": keys},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": keys,
            },
        },
    }
    path = await attacker.define("sets", spec)
    texts = ["x" * 20 + str(i) for i in range(80_000)]
    objects = [{"a": "x", "b": "y", "c": str(i)} for i in range(45_000)]
    bodies = [{"texts": texts}, {"objects": objects}, {"maps": objects}, {"objects": objects[:20_000] * 2}]
    bodies += [{"maps": objects[:1000] * 40}, {"texts": texts[:40_000] * 2}]
    numbers = count()

    async def work(one: Attacker) -> None:
        i = next(numbers)
        body = an_object(path, f"o{i % 5}", bodies[i % len(bodies)])
        await one.ask("PATCH", f"{path}/o{i % 5}?fieldManager=m{i % 7}&force=true", body, kind=APPLY)
        await one.ask("POST", path, {**body, "metadata": {"generateName": "x-"}} if i % 9 else body)

    await attacker.parallel(8, work)


async def strategic(attacker: Attacker) -> None:
    """Strategic merge patches of long lists with keys, with orders and deletions of each of their elements."""
    services = f"{TENANT}/api/v1/namespaces/default/services"
    ports = [{"name": f"p{i}", "port": i % 65_535 + 1, "protocol": "TCP"} for i in range(20_000)]
    await attacker.ask("POST", services, {"metadata": {"name": "s"}, "spec": {"ports": ports[:3_000]}})
    await attacker.ask(
        "POST", MAPS, {"metadata": {"name": "patched", "finalizers": [f"a.b/{i}" for i in range(3_000)]}}
    )
    order = [{"port": port["port"], "protocol": "TCP"} for port in reversed(ports)]
    bodies = cycle(
        [
            (f"{services}/s", {"spec": {"ports": ports, "$setElementOrder/ports": order}}),
            (f"{services}/s", {"spec": {"ports": [{"$patch": "delete", "port": i + 1} for i in range(20_000)]}}),
            (f"{MAPS}/patched", {"metadata": {"finalizers": [f"b.c/{i}" for i in range(30_000)]}}),
            (
                f"{MAPS}/patched",
                {"metadata": {"$deleteFromPrimitiveList/finalizers": [f"a.b/{i}" for i in range(30_000)]}},
            ),
            (
                f"{MAPS}/patched",
                {"metadata": {"$setElementOrder/finalizers": [f"a.b/{i}" for i in range(30_000)], "finalizers": []}},
            ),
            (f"{MAPS}/patched", {"metadata": {"ownerReferences": [{"uid": f"u{i}"} for i in range(30_000)]}}),
        ]
    )

    async def work(one: Attacker) -> None:
        path, body = next(bodies)
        await one.ask("PATCH", f"{path}?dryRun=All", body, kind=STRATEGIC_PATCH)

    await attacker.parallel(8, work)


async def labels(attacker: Attacker) -> None:
    """Objects of 100,000 labels and 20,000 annotations; lists, watches and selectors that look at them."""
    many = {f"l{i}": "x" for i in range(60_000)}
    noted = {f"a{i}": "" for i in range(20_000)}
    for i in range(20):
        await attacker.ask("POST", MAPS, {"metadata": {"name": f"labelled{i}", "labels": many, "annotations": noted}})
    selector = ",".join(f"l{i}=x" for i in range(400))
    absent = ",".join(f"!o{i}" for i in range(400))
    compared = ",".join(f"l{i}>{i}" for i in range(400))
    few = ",".join(f"l{i}%20in%20({','.join('abcdefgx')})" for i in range(8))
    paths = cycle(
        [
            f"{MAPS}?labelSelector={selector}",
            f"{MAPS}?labelSelector={selector}&watch=true&timeoutSeconds=1",
            f"{MAPS}?labelSelector=l1%20notin%20({','.join(str(i) for i in range(5_000))})",
            f"{MAPS}?labelSelector={absent}",
            f"{MAPS}?labelSelector={compared}",
            f"{MAPS}?labelSelector={few}",
        ]
    )

    async def work(one: Attacker) -> None:
        await one.ask("GET", next(paths))
        await one.ask("PATCH", f"{MAPS}/labelled1", {"metadata": {"labels": {"l5": "y"}}}, kind=MERGE_PATCH)

    await attacker.parallel(8, work)


async def labelled(attacker: Attacker) -> None:
    """Objects of 60,000 labels, many of which change at the same moment, while somebody watches."""
    labels = {f"l{j}": "x" for j in range(60_000)}
    for i in range(16):
        await attacker.ask("POST", MAPS, {"metadata": {"name": f"together{i}", "labels": labels}})
    numbers = count()

    async def work(one: Attacker) -> None:
        n = next(numbers)
        if n == 0:
            await one.ask("GET", f"{MAPS}?labelSelector=l1!=y&watch=true&timeoutSeconds=60")
        change = {"metadata": {"labels": {"l5": f"y{n}"}}}
        await one.ask("PATCH", f"{MAPS}/together{n % 16}", change, kind=MERGE_PATCH)

    await attacker.parallel(17, work)


async def selections(attacker: Attacker) -> None:
    """Many watches with long selectors, of objects that have many labels and change."""
    for i in range(4):
        labels = {f"l{j}": "x" for j in range(60_000)}
        await attacker.ask("POST", MAPS, {"metadata": {"name": f"selected{i}", "labels": labels}})
    absent = ",".join(f"!o{i}" for i in range(400))
    numbers = count()

    async def work(one: Attacker) -> None:
        n = next(numbers)
        if n % 8 == 0:
            change = {"metadata": {"labels": {"l5": f"y{n}"}}}
            await one.ask("PATCH", f"{MAPS}/selected{n // 8 % 4}", change, kind=MERGE_PATCH)
        else:
            await one.ask("GET", f"{MAPS}?labelSelector={absent},!a{n}&watch=true&resourceVersion=0&timeoutSeconds=3")

    await attacker.parallel(200, work)


async def issued(attacker: Attacker) -> None:
    """Tokens of many service accounts, each signed on demand, and requests and reviews by each of them."""
    accounts = f"{TENANT}/api/v1/namespaces/default/serviceaccounts"
    for i in range(50):
        await attacker.ask("POST", accounts, {"metadata": {"name": f"a{i}"}})
    numbers = count()
    wanted = {"spec": {"audiences": [f"audience-{i}" for i in range(2_000)]}}

    async def work(one: Attacker) -> None:
        await one.ask("POST", f"{accounts}/a{next(numbers) % 50}/token", wanted if next(numbers) % 3 == 0 else {})

    await attacker.parallel(32, work)


async def impersonations(attacker: Attacker) -> None:
    """Requests in the name of users of 1,500 groups and as many extra keys, each another user."""
    numbers = count()
    groups = "".join(f"Impersonate-Group: group-{i}\r\n" for i in range(1_500))
    extra = "".join(f"Impersonate-Extra-key{i}: value\r\n" for i in range(1_500))

    async def work(one: Attacker) -> None:
        reader, writer = await one.open()
        head = one.head("GET", f"{MAPS}?limit=1", 0)[:-2].decode()
        user = f"Connection: close\r\nImpersonate-User: user-{next(numbers)}\r\n"
        writer.write(f"{head}{user}{groups}{extra}\r\n".encode())
        answer = await reader.read(4096)
        one.answers[answer.split()[1].decode() if answer else "closed"] += 1
        writer.transport.abort()

    await attacker.parallel(16, work)


async def pipelines(attacker: Attacker) -> None:
    """A thousand requests in one write, on a hundred connections, whose answers are read, or not."""
    await attacker.ask("POST", MAPS, {"metadata": {"name": "piped"}, "data": {"a": "x" * 2_000}})
    batch = attacker.head("GET", f"{MAPS}/piped", 0) * 1_000
    made = json.dumps({"metadata": {"generateName": "x-"}}).encode()
    writes = (attacker.head("POST", f"{MAPS}?dryRun=All", len(made)) + made) * 300
    batches = cycle([batch, writes, b"GET /version HTTP/1.1\r\nHost: a\r\n\r\n" * 3_000])

    async def work(one: Attacker) -> None:
        reader, writer = await one.open()
        writer.write(next(batches))
        seen = 0
        while seen < 300_000 and (piece := await reader.read(65_536)):
            seen += len(piece)
        one.answers["read"] += 1
        writer.transport.abort()

    await attacker.parallel(100, work)
