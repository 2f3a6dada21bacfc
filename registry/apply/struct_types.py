"""Merge types of Go structs: for parts of built-in kinds that no structural schema describes, as none is recursive.

Only `validate` uses them, below lists that are owned as a whole. Types that decode themselves have no type in OpenAPI,
and so may hold anything. Follows what kube-openapi generates of the structs, and structured-merge-diff
schema/elements.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from registry.apply.types import UNTYPED, Items, MergeType, Scalar, key_items
from registry.codec.structs.base import GoType
from registry.codec.structs.scalars import Bytes, GoScalar, Integer, Number
from registry.codec.structs.structs import GoMap, GoSlice, Pointer, Struct


def struct_type(go_type: GoType, keys: Mapping[str, str]) -> MergeType:
    """The merge type of a Go type. `keys` are the key fields of keyed lists by their types: all others are atomic.

    A key field that is missing counts as the empty text: OpenAPI has that as the default of each text in Go that is
    always there.
    """
    return _compile(go_type, keys, {})


def _compile(go_type: GoType, keys: Mapping[str, str], known: dict[GoType, MergeType]) -> MergeType:
    if isinstance(go_type, Pointer):
        return _compile(go_type.element, keys, known)
    node = known.get(go_type)
    if node is not None:
        return node
    match go_type:
        case Struct(fields=fields):
            node = known[go_type] = MergeType()
            node.is_map = True
            node.declare({field.name: _compile(field.type, keys, known) for field in fields})
            node.element = None if fields else UNTYPED
        case GoMap(element=element):
            node = known[go_type] = MergeType()
            node.is_map = True
            node.element = _compile(element, keys, known)
        case GoSlice(element=element):
            node = known[go_type] = MergeType()
            node.is_list, node.items = True, Items.ATOMIC
            node.item = _compile(element, keys, known)
            if go_type.go in keys:
                key_items(node, {keys[go_type.go]: ""})
        case GoScalar(json_type=json_type):
            node = MergeType(Scalar.BOOLEAN if json_type is bool else Scalar.STRING)
        case Integer() | Number():
            node = MergeType(Scalar.NUMERIC)
        case Bytes():
            node = MergeType(Scalar.STRING)
        case _:
            node = UNTYPED
    return node
