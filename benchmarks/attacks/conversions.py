"""Conversions of a tenant: webhooks that never answer, and rules that make short objects long."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
from itertools import cycle
from typing import Any

from benchmarks.attacks.attacker import ANYTHING, DEFINITIONS, MERGE_PATCH, Attacker, a_definition, an_object
from benchmarks.attacks.found import tls_server


async def hanging_conversions(attacker: Attacker) -> None:
    """Lists and watches of objects of a megabyte, and writes, all of which need a webhook that never answers."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ssl.SSLError, asyncio.CancelledError):
            while await reader.read(1 << 16):
                pass
        writer.close()

    async with tls_server(answer) as (port, authority):
        path = await attacker.define("converted", ANYTHING)
        for i in range(20):
            await attacker.ask("POST", path, an_object(path, f"large{i}", {"list": [{"k": j} for j in range(90_000)]}))
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": ANYTHING}}}
        version: dict[str, Any] = {"served": True, "schema": schema}
        client = {"url": f"https://127.0.0.1:{port}/", "caBundle": base64.b64encode(authority).decode()}
        webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
        versions = [{"name": "v1", "storage": True, **version}, {"name": "v2", "storage": False, **version}]
        spec = {"versions": versions, "conversion": {"strategy": "Webhook", "webhook": webhook}}
        await attacker.ask("PATCH", f"{DEFINITIONS}/converted.converted.example.com", {"spec": spec}, kind=MERGE_PATCH)
        await asyncio.sleep(1)
        other = path.replace("/v1/", "/v2/")
        ways = cycle([f"{other}?limit=20", f"{other}?watch=true", f"{other}/large1", other])

        async def work(one: Attacker) -> None:
            await one.ask("GET", next(ways))

        await attacker.parallel(150, work)


async def long_rules(attacker: Attacker) -> None:
    """Gets and lists of short objects, each of whose 20,000 elements gets a default or a value of 60 kB by rules."""
    text = {"type": "string"}
    items = {"type": "array", "items": {"type": "object", "properties": {"a": text, "b": text}}}
    schema = {"type": "object", "properties": {"items": items}}
    ways = []
    for plural, rule in (
        ("defaulted", {"default": {"path": "spec.items[*].a", "value": "x" * 60_000}}),
        ("mapped", {"map": {"path": "spec.items[*].b", "values": [{"from": "b", "to": "x" * 60_000}]}}),
    ):
        definition = a_definition(plural, schema)
        version = definition["spec"]["versions"][0]
        definition["spec"]["versions"].append({**version, "name": "v2", "storage": False})
        rules = {"conversions": [{"from": "v1", "to": "v2", "loss": "Drop", "rules": [rule], "back": []}]}
        definition["metadata"]["annotations"] = {"conversion.registry/rules": json.dumps(rules)}
        await attacker.ask("POST", DEFINITIONS, definition)
        path = await attacker.define(plural, schema)
        await attacker.ask("POST", path, an_object(path, "a", {"items": [{"b": "b"}] * 20_000}))
        ways += [f"{path}/a".replace("/v1/", "/v2/"), path.replace("/v1/", "/v2/")]
    paths = cycle(ways)

    async def work(one: Attacker) -> None:
        await one.ask("GET", next(paths))

    await attacker.parallel(4, work)
