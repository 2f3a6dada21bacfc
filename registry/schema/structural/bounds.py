"""Bounds on the size of a schema.

kube-apiserver has none but the size of a request, which is enough for a schema that takes minutes to compile. Real
definitions have at most some 20,000 nodes and 25 levels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from registry.schema.field import FieldError, forbidden, too_many

Schema = Mapping[str, Any]

# Algorithms on schemas use two or three stack frames per level, and Python allows 1,000.
MAX_DEPTH = 100
MAX_NODES = 60_000
MAX_ENUM_VALUES = 20_000
# Errors name their path, and each node may have one: the names on a path must not be too long, either.
MAX_PATH_LENGTH = 2_000
# An error about the keys of a list prints all of them, and there may be one for each key.
MAX_LIST_MAP_KEYS_LENGTH = 2_000

_ONE = ("items", "additionalProperties", "not", "additionalItems")
_SEVERAL = ("allOf", "anyOf", "oneOf", "items")
_NAMED = ("properties", "patternProperties", "definitions", "dependencies")
_WORDS = frozenset((*_ONE, *_SEVERAL, *_NAMED))


def validate_bounds(schema: Schema, path: str) -> list[FieldError]:
    """The errors of a `schema` that is too large, at most one. Does not recurse."""
    count = 0
    level: list[tuple[Schema, int]] = [(schema, 0)]
    for _ in range(MAX_DEPTH):
        below: list[tuple[Schema, int]] = []
        for node, length in level:
            enum, keys = node.get("enum"), node.get("x-kubernetes-list-map-keys")
            if enum is not None and len(enum) > MAX_ENUM_VALUES:
                return [too_many(f"{path}...enum", len(enum), MAX_ENUM_VALUES)]
            if keys is not None and sum(map(len, keys)) + len(keys) > MAX_LIST_MAP_KEYS_LENGTH:
                why = f"must not have more than {MAX_LIST_MAP_KEYS_LENGTH} characters in all"
                return [forbidden(f"{path}...x-kubernetes-list-map-keys", why)]
            if not _WORDS.isdisjoint(node):  # most nodes are leaves
                below.extend([(child, length + len(name)) for name, child in _named_children(node)])
        count += len(level)
        if count + len(below) > MAX_NODES:
            return [forbidden(path, f"must not have more than {MAX_NODES} nodes")]
        if max([length for _, length in below], default=0) > MAX_PATH_LENGTH:
            return [forbidden(path, f"must not have paths of more than {MAX_PATH_LENGTH} characters")]
        if not below:
            return []
        level = below
    return [forbidden(path, f"must not be nested more than {MAX_DEPTH} levels deep")]


def children(schema: Schema) -> list[Schema]:
    """The direct child schemas of a node, under any keyword."""
    return [child for _, child in _named_children(schema)]


def _named_children(schema: Schema) -> list[tuple[str, Schema]]:
    pairs: list[tuple[str, Schema]] = []
    for word in _ONE:
        child = schema.get(word)
        if type(child) is dict:
            pairs.append((word, child))
    for word in _SEVERAL:
        several = schema.get(word)
        if type(several) is list:
            pairs += [(word, child) for child in several]
    for word in _NAMED:
        named = schema.get(word)
        if named:
            pairs += [(name, child) for name, child in named.items() if type(child) is dict]
    return pairs


def nodes(schema: Schema) -> Iterator[Schema]:
    """All nodes of a schema whose depth has been bounded, in preorder."""
    pending = [schema]
    while pending:
        node = pending.pop()
        yield node
        if not _WORDS.isdisjoint(node):
            pending.extend(children(node))
