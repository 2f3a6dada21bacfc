"""Objects made from a schema: what the schema says they may hold, at random.

Good enough for the schemas that people write: types, bounds, enums, patterns, formats, required fields and the usual
junctors. What comes out is offered to the validation, not promised to pass.
"""

from __future__ import annotations

import random
import string
from collections.abc import Mapping
from typing import Any

import hypothesis.strategies as st
import re2

Json = Any
_MAX_DEPTH = 12

_FORMATS = {
    "date-time": "2026-01-31T12:00:00Z",
    "date": "2026-01-31",
    "duration": "1h30m",
    "byte": "aGVsbG8=",
    "uri": "https://example.com/a",
    "email": "a@example.com",
    "hostname": "example.com",
    "ipv4": "10.0.0.1",
    "ipv6": "fd00::1",
    "cidr": "10.0.0.0/8",
    "uuid": "7a1c3e9a-3f0b-4d55-8a2e-1f2f3a4b5c6d",
    "password": "secret",
    "mac": "00:11:22:33:44:55",
}


def instance(schema: Mapping[str, Any], rng: random.Random, depth: int = 0) -> Json:
    """One value of `schema`."""
    schema = _branched(schema, rng)
    if schema.get("enum"):
        return rng.choice([value for value in schema["enum"] if value is not None])
    if schema.get("x-kubernetes-int-or-string"):
        return _number(schema, rng, whole=True)
    match schema.get("type"):
        case "object":
            return _object(schema, rng, depth)
        case "array":
            return _array(schema, rng, depth)
        case "string":
            return _text(schema, rng)
        case "integer":
            return _number(schema, rng, whole=True)
        case "number":
            return _number(schema, rng, whole=False)
        case "boolean":
            return rng.random() < 0.5
        case _:
            return {}


def _branched(schema: Mapping[str, Any], rng: random.Random) -> dict[str, Any]:
    """The schema with one branch of its junctors taken into it; of a oneOf, what the others demand is left out."""
    merged = dict(schema)
    for word in ("allOf", "anyOf", "oneOf"):
        branches = merged.get(word) or []
        if not branches:
            continue
        chosen = branches if word == "allOf" else [rng.choice(branches)]
        for branch in chosen:
            merged = _merge(merged, branch)
        if word == "oneOf":
            forbidden = {name for b in branches for name in b.get("required") or () if b not in chosen}
            forbidden -= set(merged.get("required") or ())
            merged["properties"] = {k: v for k, v in (merged.get("properties") or {}).items() if k not in forbidden}
    refused = (merged.get("not") or {}).get("required") or ()
    for junctor in (merged.get("not") or {}).get("anyOf") or ():
        refused = [*refused, *(junctor.get("required") or ())]
    if refused:
        merged["properties"] = {k: v for k, v in (merged.get("properties") or {}).items() if k not in refused}
    return merged


def _merge(schema: dict[str, Any], branch: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**schema, **{k: v for k, v in branch.items() if k not in ("properties", "required", "anyOf", "oneOf")}}
    merged["required"] = [*(schema.get("required") or ()), *(branch.get("required") or ())]
    properties = dict(schema.get("properties") or {})
    for name, inner in (branch.get("properties") or {}).items():
        properties[name] = {**properties.get(name, {}), **inner}
    merged["properties"] = properties
    return merged


def _object(schema: Mapping[str, Any], rng: random.Random, depth: int) -> dict[str, Json]:
    properties = schema.get("properties") or {}
    required = set(schema.get("required") or ())
    chance = 0.6 if depth < 3 else 0.25
    obj = {}
    for name, inner in properties.items():
        if name in required or (depth < _MAX_DEPTH and rng.random() < chance):
            obj[name] = instance(inner, rng, depth + 1)
    for name in required - properties.keys():
        obj[name] = "x"
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        for position in range(max(schema.get("minProperties") or 0, rng.randint(0, 2))):
            obj[f"key-{position}"] = instance(additional, rng, depth + 1)
    if schema.get("x-kubernetes-embedded-resource"):
        obj |= {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a"}}
    for name in list(properties):
        if len(obj) >= (schema.get("minProperties") or 0):
            break
        obj.setdefault(name, instance(properties[name], rng, depth + 1))
    for name in list(obj):
        if len(obj) <= (schema["maxProperties"] if schema.get("maxProperties") is not None else len(obj)):
            break
        if name not in required:
            del obj[name]
    return obj


def _array(schema: Mapping[str, Any], rng: random.Random, depth: int) -> list[Json]:
    items = schema.get("items") or {}
    fewest = schema.get("minItems") or 0
    wanted = max(fewest, rng.randint(0, 2 if depth < 4 else 1))
    if schema.get("maxItems") is not None:
        wanted = min(wanted, schema["maxItems"])
    values: list[Json] = []
    for _ in range(wanted * 10):
        if len(values) == wanted:
            break
        value = instance(items, rng, depth + 1)
        if _fits(schema, values, value):
            values.append(value)
    return values


def _fits(schema: Mapping[str, Any], values: list[Json], value: Json) -> bool:
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return value not in values
        case "map":
            keys = schema["x-kubernetes-list-map-keys"]
            mine = [value.get(k) for k in keys]
            return all([other.get(k) for k in keys] != mine for other in values)
        case _:
            return True


def _text(schema: Mapping[str, Any], rng: random.Random) -> str:
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    fewest, most = schema.get("minLength") or 0, schema.get("maxLength")
    if schema.get("pattern"):
        return _matching(schema["pattern"], fewest, most, rng)
    length = max(fewest, 3)
    if most is not None:
        length = min(length, most)
    return "".join(rng.choice(string.ascii_lowercase) for _ in range(length))


# What many patterns of names, quantities, times and addresses let pass.
_CANDIDATES = (
    "a",
    "abc",
    "A",
    "1",
    "10",
    "1h",
    "30s",
    "100m",
    "1Gi",
    "example.com",
    "a.example.com/b",
    "https://example.com",
    "/a/b",
    "v1",
    "Abc",
    "key",
    "sha256:" + "0" * 64,
    "10.0.0.1",
    "a=b",
    "*",
    "a-b",
    "user:abc",
    "0",
    "5m0s",
)


def _matching(pattern: str, fewest: int, most: int | None, rng: random.Random) -> str:
    compiled = re2.compile(pattern)

    def good(text: str) -> bool:
        return len(text) >= fewest and (most is None or len(text) <= most) and compiled.search(text) is not None

    candidates = [c for c in _CANDIDATES if good(c)]
    if candidates:
        return rng.choice(candidates)
    found: str = st.from_regex(pattern, fullmatch=True).filter(good).example()
    return found


def _number(schema: Mapping[str, Any], rng: random.Random, *, whole: bool) -> int | float:
    lowest = schema.get("minimum", -5 if schema.get("maximum", 1) < 1 else 1)
    highest = schema.get("maximum", lowest + 100)
    if schema.get("exclusiveMinimum"):
        lowest += 1
    if schema.get("exclusiveMaximum"):
        highest -= 1
    step = schema.get("multipleOf")
    if step:
        return int(-(-lowest // step) * step) if whole else -(-lowest // step) * step
    if whole:
        return rng.randint(int(-(-lowest // 1)), max(int(lowest), int(min(highest, lowest + 1000))))
    return float(lowest)
