"""Merges OpenAPI v2 of other servers into the local document: their paths, and the types that these use.

A different type of the same name gets a suffix: `com.example.Thing_v2`. Pure. Follows kube-openapi
pkg/aggregator/aggregator.go. v3 needs no merging: each group version has its own document.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from registry.aggregation.model import APIServer
from registry.definitions.openapi.types import references
from registry.schema.openapi import V2_PREFIX

Json = dict[str, Any]

# Limit per server; further paths or types are omitted.
_LIMIT: Final = 5000
_DEPTH: Final = 100
# What each value takes in memory, in addition to its text.
_VALUE_BYTES: Final = 64


class ServerDocument(NamedTuple):
    """`serial` identifies the document within this process: different documents have different serials."""

    server: APIServer
    document: Json
    serial: int


def own_part(document: Any, server: APIServer) -> Json:
    """The part of a server's document that its APIService covers: paths of the version, and the types that they use."""
    if not _is_shallow(document):
        return {"paths": {}, "definitions": {}}
    paths, types = _objects(document, "paths"), _objects(document, "definitions")
    beneath = f"{server.path}/"
    own = {path: item for path, item in paths.items() if path == server.path or path.startswith(beneath)}
    own = dict(list(own.items())[:_LIMIT])
    part: Json = {}
    pending = [own]
    while pending and len(part) < _LIMIT:
        for name in references(pending.pop(), V2_PREFIX):
            if name in types and name not in part:
                part[name] = types[name]
                pending.append(types[name])
    return {"paths": own, "definitions": part}


def memory_of(document: Any) -> int:
    """About as many bytes as a decoded document takes: `[[],[]]` takes many more than its text."""
    pending, size = [document], 0
    while pending:
        value = pending.pop()
        size += _VALUE_BYTES
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, dict):
            size += sum(map(len, value)) + _VALUE_BYTES * len(value)
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
    return size


def merge_v2(local: Json, parts: Sequence[ServerDocument]) -> Json:
    """Adds the parts of other servers to `local`, those with the highest priority first. No argument is changed."""
    paths, types = dict(local["paths"]), dict(local["definitions"])
    for part in sorted(parts, key=lambda p: (-p.server.group_priority, p.server.name)):
        beneath = f"{part.server.path}/"
        for path in [p for p in paths if p == part.server.path or p.startswith(beneath)]:
            del paths[path]  # the other server replaces the group version
        names = {name: _free_name(name, schema, types) for name, schema in part.document["definitions"].items()}
        types |= {
            names[name]: _rename_references(schema, names) for name, schema in part.document["definitions"].items()
        }
        paths |= {path: _rename_references(item, names) for path, item in part.document["paths"].items()}
    return {**local, "paths": dict(sorted(paths.items())), "definitions": dict(sorted(types.items()))}


def _free_name(name: str, schema: Any, types: Json) -> str:
    number, candidate = 2, name
    while candidate in types and types[candidate] != schema:
        candidate = f"{name}_v{number}"
        number += 1
    return candidate


def _rename_references(value: Any, names: dict[str, str]) -> Any:
    """Updates references to renamed types."""
    if isinstance(value, dict):
        reference = value.get("$ref")
        if isinstance(reference, str) and reference.startswith(V2_PREFIX):
            name = reference.removeprefix(V2_PREFIX)
            return {**value, "$ref": V2_PREFIX + names.get(name, name)}
        return {key: _rename_references(member, names) for key, member in value.items()}
    return [_rename_references(item, names) for item in value] if isinstance(value, list) else value


def _is_shallow(document: Any) -> bool:
    """Whether a document is nested no deeper than realistic type descriptions."""
    level = [document] if isinstance(document, (dict, list)) else []
    for _ in range(_DEPTH):
        members = (value.values() if isinstance(value, dict) else value for value in level)
        level = [member for container in members for member in container if isinstance(member, (dict, list))]
        if not level:
            return True
    return False


def _objects(document: Any, name: str) -> Json:
    inner = document.get(name) if isinstance(document, dict) else None
    return {key: value for key, value in inner.items() if isinstance(value, dict)} if isinstance(inner, dict) else {}
