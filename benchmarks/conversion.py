"""Compares lists through conversion rules with plain lists: `python -m benchmarks.conversion`.

Objects are stored at v1 and listed whole at v1 (plain) and at v1beta1, alternately in one run. `first` is a list at
v1beta1 when nothing has been converted yet (the rules are written again before each); `changed` is one after a
hundredth of the objects has been written. `rules` moves, renames and maps; `expressions` does so and has three in CEL:
one on the way of the list, two on the way back, which say whether anything is to be kept.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import server
from benchmarks.client import JSON, MERGE_PATCH, Connection, Failed, Target, served, spread
from benchmarks.report import keep, machine

GROUP = "conversion.example.com"
RULES = """
conversions:
- from: v1beta1
  to: v1
  rules:
  - move: {from: spec.size, to: spec.scaling.replicas}
  - rename: {path: "spec.ports[*].num", to: number}
  - map: {path: spec.mode, values: {fast: Fast, slow: Slow}}
"""
EXPRESSIONS = (
    RULES
    + """
  - set: {path: spec.length, cel: "has(self.spec.text) ? optional.of(size(self.spec.text)) : optional.none()"}
  - set: {path: spec.secure, cel: "has(self.spec.ports) && self.spec.ports.exists(p, p.num == 443)"}
  back:
  - move: {from: spec.scaling.replicas, to: spec.size}
  - rename: {path: "spec.ports[*].number", to: num}
  - map: {path: spec.mode, values: {Fast: fast, Slow: slow}}
  - set: {path: spec.address, cel: "has(self.spec.text) ? self.metadata.name + ':443' : 'none'"}
  loss: Keep
"""
)
KINDS = {"rules": RULES, "expressions": EXPRESSIONS}


def definition(plural: str = "rules") -> dict[str, Any]:
    def version(name: str, storage: bool, port: str, modes: list[str], **more: Any) -> dict[str, Any]:
        ports = {"type": "array", "items": {"type": "object", "properties": {port: {"type": "integer"}}}}
        spec = {"mode": {"type": "string", "enum": modes}, "text": {"type": "string"}, "ports": ports, **more}
        schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
        return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}}

    scaling = {"type": "object", "properties": {"replicas": {"type": "integer"}}}
    seen: dict[str, Any] = {}
    address: dict[str, Any] = {}
    if plural == "expressions":
        seen, address = {"length": {"type": "integer"}, "secure": {"type": "boolean"}}, {"address": {"type": "string"}}
    versions = [
        version("v1", True, "number", ["Fast", "Slow"], scaling=scaling, **seen),
        version("v1beta1", False, "num", ["fast", "slow"], size={"type": "integer"}, **address),
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}", "annotations": {"conversion.registry/rules": KINDS[plural]}},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.capitalize()},
            "versions": versions,
        },
    }


def collection(version: str, plural: str) -> str:
    return f"/apis/{GROUP}/{version}/namespaces/default/{plural}"


def thing(i: int, plural: str = "rules", text: int = 200) -> bytes:
    spec: dict[str, Any] = {
        "scaling": {"replicas": i % 10},
        "mode": "Fast",
        "ports": [{"number": 80}, {"number": 443}],
        "text": "x" * text,
    }
    if plural == "expressions":
        spec |= {"length": text, "secure": True}
    return json.dumps(
        {"apiVersion": f"{GROUP}/v1", "kind": plural.capitalize(), "metadata": {"name": f"t{i:06}"}, "spec": spec}
    ).encode()


async def measure(target: Target, plural: str, objects: int, rounds: int, text: int) -> dict[str, Any]:
    connection = await Connection.open(target)
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await connection.json("POST", definitions, definition(plural))
    await served(target, collection("v1", plural))
    await spread(target, [("POST", collection("v1", plural), thing(i, plural, text), JSON) for i in range(objects)])

    async def listed(version: str) -> float:
        began = time.perf_counter()
        status, body = await connection.request("GET", collection(version, plural))
        took = time.perf_counter() - began
        if status != 200 or body.count(f'"kind":"{plural.capitalize()}"'.encode()) != objects:
            raise Failed(f"a list at {version} is not whole: {status}, {len(body)} bytes")
        return took

    await listed("v1")
    plain, first, converted = [], [], []
    for i in range(rounds):
        rules = {"conversion.registry/rules": f"# {i}\n{KINDS[plural]}"}  # other rules: what is converted is not reused
        note = json.dumps({"metadata": {"annotations": rules}}).encode()
        await connection.request("PATCH", f"{definitions}/{plural}.{GROUP}", note, MERGE_PATCH)
        await asyncio.sleep(1)  # until the definition that is served is the one that was written
        plain.append(await listed("v1"))
        first.append(await listed("v1beta1"))
        converted.append(await listed("v1beta1"))
    patch = b'{"spec":{"text":"other"}}'
    await spread(
        target, [("PATCH", f"{collection('v1', plural)}/t{i:06}", patch, MERGE_PATCH) for i in range(0, objects, 100)]
    )
    changed = await listed("v1beta1")
    await connection.close()
    middle = statistics.median(plain)
    seconds = {
        "plain": middle,
        "first": statistics.median(first),
        "converted": statistics.median(converted),
        "changed": changed,
    }
    return {
        "objects": objects,
        "seconds": {k: round(v, 4) for k, v in seconds.items()},
        "of_plain_speed": {k: round(middle / v, 3) for k, v in seconds.items()},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.conversion", description=__doc__)
    parser.add_argument("--objects", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--text", type=int, default=200, help="characters of a text in each object, beside 500 bytes; 2500 for 3 kB"
    )
    parser.add_argument("--database-url")
    parser.add_argument("--keep", action="store_true", help="write the result to benchmarks/results")
    options = parser.parse_args(arguments)
    with server.folder() as data:
        figures = _run(data, options)
        print(json.dumps(figures, indent=1))
        if options.keep:
            print(f"kept in {keep('conversion', {'machine': machine(), **figures})}")
    return 0


def _run(data: Path, options: argparse.Namespace) -> dict[str, Any]:
    with server.running(data, 1, options.database_url) as one:
        return {
            plural: asyncio.run(measure(one.target, plural, options.objects, options.rounds, options.text))
            for plural in KINDS
        }


if __name__ == "__main__":
    raise SystemExit(main())
