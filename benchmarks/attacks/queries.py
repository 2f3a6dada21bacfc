"""Queries, and encodings other than JSON, at their worst."""

from __future__ import annotations

import asyncio
import contextlib
import json
from itertools import cycle
from typing import Any
from urllib.parse import quote

from benchmarks.attacks.attacker import ANYTHING, MAPS, MERGE_PATCH, TENANT, Attacker, an_object
from benchmarks.client import JSON

CBOR = "application/cbor"
PROTOBUF = "application/vnd.kubernetes.protobuf"
NESTED = "object.spec.list.all(x, object.spec.list.exists(y, y == x + 1 || y == 1999))"


NUMBERS = {
    "type": "object",
    "properties": {"list": {"type": "array", "items": {"type": "integer"}}, "text": {"type": "string"}},
}


async def _numbers(attacker: Attacker, plural: str, count: int) -> str:
    """The path of objects that each hold 2,000 numbers, of types that filters can be checked against."""
    path = await attacker.define(plural, NUMBERS)
    for i in range(count):
        await attacker.ask("POST", path, an_object(path, f"n{i}", {"list": [*range(2000)], "text": "ab" * 20_000}))
    return path


async def filters(attacker: Attacker) -> None:
    """Filters that take long for each object: nested comprehensions, and patterns."""
    path = await _numbers(attacker, "filtered", 40)
    expressions = cycle(
        [
            NESTED,
            "object.spec.text.matches('[ab]*a[ab]{500}c')",
            "object.spec.text.findAll('[a-z]').size() == 1",
            "object.spec.list.map(x, object.spec.list.map(y, [x, y])).size() == 0",
        ]
    )

    async def work(one: Attacker) -> None:
        await one.ask("GET", f"{path}?filter={quote(next(expressions))}")

    await attacker.parallel(4, work)


async def long_filters(attacker: Attacker) -> None:
    """Filters that are long, wide and deep."""
    path = await _numbers(attacker, "longfilter", 4)
    expressions = cycle(
        [
            "||".join(["object.spec.text=='1'"] * 1_500),
            "(" * 4_000 + "true" + ")" * 4_000,
            "!" * 10_000 + "true",
            "object.spec.list.size() in [" + ",".join(map(str, range(5_000))) + "]",
            "object" + ".a" * 10_000,
            "object.spec.list" + ".map(x, x)" * 1_000 + ".size() == 0",
        ]
    )

    async def work(one: Attacker) -> None:
        await one.ask("GET", f"{path}?filter={quote(next(expressions), safe='().,[]=|!')}")

    await attacker.parallel(4, work)


async def orders(attacker: Attacker) -> None:
    """Sorted and counted lists of all that may be looked into."""
    path = await attacker.define(
        "sorted", {"type": "object", "properties": {f"f{i}": {"type": "string"} for i in range(60)}}
    )
    spec = {f"f{i}": "x" * 180 for i in range(60)}
    for i in range(1_500):
        await attacker.ask("POST", path, an_object(path, f"o{i}", {**spec, "f59": str(i)}))
    order = quote(",".join(f"spec.f{i} desc" for i in range(60)))
    lists = cycle([f"{path}?orderBy={order}&limit=1", f"{path}?orderBy=spec.f59&offset=1400&limit=1&count=exact"])

    async def work(one: Attacker) -> None:
        await one.ask("GET", next(lists))

    await attacker.parallel(4, work)


async def questions(attacker: Attacker) -> None:
    """Queries that group, count distinct values, take percentiles, join each with each, and evaluate long rows."""
    fields = {name: {"type": "string"} for name in ("group", "value")} | {"size": {"type": "integer"}}
    path = await attacker.define("asked", {"type": "object", "properties": fields})
    owner = await attacker.owner("asked")
    for i in range(1_500):
        spec = {"group": f"{i % 2}", "value": f"{i}" * 300, "size": i}
        await attacker.ask("POST", path, an_object(path, f"q{i}", spec, ownerReferences=[owner]))
    resource: dict[str, Any] = {"group": "asked.example.com", "resource": "asked"}
    count = {"name": "n", "function": "Count"}
    asked: cycle[dict[str, Any]] = cycle(
        [
            {"groupBy": [{"field": "spec.value"}, {"field": "spec.size"}], "aggregates": [count]},
            {
                "groupBy": [{"field": "spec.group"}],
                "aggregates": [
                    {"name": f"a{i}", "function": name, "field": "spec.value", **more}
                    for i in range(5)
                    for name, more in (("CountDistinct", {}), ("Percentile", {"percentile": 50}), ("Max", {}))
                ],
            },
            {"join": {**resource, "by": "Owner", "type": "Left"}, "groupBy": [{"field": "spec.value"}]},
            {"filter": "object.spec.value.matches('[0-9]*1[0-9]{300}x')", "aggregates": [count]},
            {
                "groupBy": [{"field": "spec.value", "name": "v"}],
                "aggregates": [count],
                "having": " || ".join(["row.v.matches('(1*)*2')"] * 50),
                "orderBy": "v desc,n",
            },
        ]
    )

    async def work(one: Attacker) -> None:
        query = {"apiVersion": "query.registry/v1", "kind": "Query", "spec": {**resource, **next(asked)}}
        await one.ask("POST", f"{TENANT}/apis/query.registry/v1/queries", query)

    await attacker.parallel(4, work)


async def statistics(attacker: Attacker) -> None:
    """Figures over every write of a long history, and what belongs to an object that owns a thousand."""
    owner = await attacker.owner("owner")
    for i in range(1_000):
        await attacker.ask("POST", MAPS, {"metadata": {"name": f"owned{i}", "ownerReferences": [owner]}})
    asked = cycle(
        [f"{MAPS}?statistics=true&conditions=true&buckets=500&sinceSeconds=31622400", f"{MAPS}/owner?dependents=true"]
    )

    async def work(one: Attacker) -> None:
        await one.ask("GET", next(asked))

    await attacker.parallel(4, work)


async def fields(attacker: Attacker) -> None:
    """Answers of as many fields as may be asked for, of thousands, and of deep ones."""
    path = await _numbers(attacker, "kept", 10)
    kept = cycle(["+".join(f"spec.a{i}" for i in range(count)) for count in (50, 7_000)] + ["spec.list" + ".a" * 2_000])

    async def work(one: Attacker) -> None:
        await one.ask("GET", path, accept=f"application/json;keep={next(kept)}")

    await attacker.parallel(4, work)


async def filtered_watches(attacker: Attacker) -> None:
    """100 watches with expensive filters, and writes that each of them has to evaluate."""
    path = await _numbers(attacker, "watched", 4)
    opened = []
    for i in range(100):
        reader, writer = await attacker.open()
        expression = quote(NESTED.replace("1999", str(1999 + i)))
        writer.write(attacker.head("GET", f"{path}?watch=true&filter={expression}", 0))
        opened.append(asyncio.create_task(_read(reader)))
    numbers = iter(range(10**9))

    async def work(one: Attacker) -> None:
        i = next(numbers)
        await one.ask("PATCH", f"{path}/n{i % 4}", {"metadata": {"annotations": {"n": str(i)}}}, kind=MERGE_PATCH)

    await attacker.parallel(2, work)


async def _read(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        while await reader.read(65_536):
            pass


async def cbor(attacker: Attacker) -> None:
    """CBOR that is deep, in a million pieces, a number of a megabyte, and references to itself (with --cbor)."""
    path = await attacker.define("cbors", ANYTHING)
    million = 1_000_000
    bodies = cycle(
        [
            b"\x81" * million + b"\x80",
            b"\x5f" + b"\x40" * million + b"\xff",
            b"\x7f" + b"\x61a" * million + b"\xff",
            b"\xa1\x61a\xc2\x5a\x00\x0f\x42\x40" + b"\xff" * million,
            b"\xd9\xd9\xf7\xa1\x61a" + b"\xd8\x1c\x81" * 30 + b"\xd8\x1d\x00" * 30,
            b"\x9f" + b"\xa0" * million + b"\xff",
            b"\xbf" + b"\x61a\x00" * million + b"\xff",
            b"\xc1" * million + b"\x00",
            b"\x9b\x7f\xff\xff\xff\xff\xff\xff\xff",
            b"\x5b\x7f\xff\xff\xff\xff\xff\xff\xff",
        ]
    )

    async def work(one: Attacker) -> None:
        await one.ask("POST", path, next(bodies), kind=CBOR)

    await attacker.parallel(4, work)


async def merges(attacker: Attacker) -> None:
    """Bodies of 12 kB in YAML that merge a mapping of 300 keys into hundreds of others, and are refused."""
    mapping = "a: &a {" + ", ".join(f"k{i}: 1" for i in range(300)) + "}\n"
    body = (mapping + "b: {<<: *a}\n" * 600).encode()

    async def work(one: Attacker) -> None:
        await one.ask("DELETE", f"{MAPS}/none", body, kind="application/yaml")
        await one.ask("POST", MAPS, body, kind="application/yaml")

    await attacker.parallel(8, work)


async def yaml_bodies(attacker: Attacker) -> None:
    """YAML with 100,000 directives, a prefix of 100 kB for each of 100,000 tags, and bodies that are not UTF-8."""
    path = await attacker.define("yamls", ANYTHING)
    object_head = (
        f"apiVersion: yamls.example.com/v1\nkind: {'yamls'.capitalize()}\nmetadata: {{generateName: x-}}\nspec: "
    )
    bodies = cycle(
        [
            "".join(f"%TAG !e{i}! tag:x,2000:\n" for i in range(100_000)).encode() + f"---\n{object_head}{{}}".encode(),
            f"%TAG ! {'a' * 100_000}\n---\n{object_head}{{a: [{'!b 1,' * 100_000}]}}".encode(),
            f"%TAG ! {'a' * 900}\n---\n{object_head}{{a: [{'!b 1,' * 400_000}]}}".encode(),
            json.dumps(an_object(path, "", {"a": "?"})).encode().replace(b"?", b"\xff" * 2_000_000),
            json.dumps(an_object(path, "", {"a": "?"})).encode().replace(b"?", b"\xed\xa0\x80" * 800_000),
        ]
    )

    async def work(one: Attacker) -> None:
        body = next(bodies)
        await one.ask("POST", f"{path}?dryRun=All", body, kind=JSON if body.startswith(b"{") else "application/yaml")

    await attacker.parallel(4, work)


def _field(number: int, body: bytes) -> bytes:
    length, size = b"", len(body)
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + body


async def protobuf(attacker: Attacker) -> None:
    """Protobuf of a million small fields, deep groups, and long maps."""
    kind = _field(1, _field(1, b"v1") + _field(2, b"ConfigMap"))
    deep = b""
    for _ in range(5_000):
        deep = _field(1, deep)
    bodies = cycle(
        b"k8s\x00" + kind + _field(2, raw)
        for raw in (
            b"\x78\x01" * 1_000_000,
            b"\x7b" * 1_000_000,
            _field(2, b"") * 1_000_000,
            _field(1, _field(11, b"") * 1_000_000),
            _field(1, _field(13, b"") * 500_000),
            deep,
            _field(1, _field(17, _field(7, b"{" * 900_000))),
        )
    )

    async def work(one: Attacker) -> None:
        await one.ask("POST", MAPS, next(bodies), kind=PROTOBUF, accept=PROTOBUF)

    await attacker.parallel(4, work)
