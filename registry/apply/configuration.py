"""Apply configurations of mutating admission policies: merged into an object like an apply, without ownership.

Follows apiserver pkg/admission/plugin/policy/mutating/patch/smd.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from registry.apply.errors import TypedError
from registry.apply.fieldtexts import path_text
from registry.apply.merge import merge
from registry.apply.objects import Object
from registry.apply.owned import Untypable
from registry.apply.types import Items, MergeType
from registry.apply.validate import GoValue, TypeMismatch, errors_text, validate
from registry.schema.field import MAX_MESSAGE, below, join_shortened
from registry.schema.model import Json


def apply_configuration(node: MergeType, original: Object, configuration: Object) -> Object:
    """Merges `configuration` into `original`; both are of the type `node`.

    A configuration must not contain atomic lists or maps, which it could only replace as a whole. Raises TypedError,
    whose text follows `error applying patch: `.
    """
    mismatches = validate(configuration, node)
    mismatches.extend(_unfit_anywhere(configuration, node, ""))
    if mismatches:
        raise TypedError(f"failed to convert patch object to typed object: {errors_text(mismatches)}")
    if atomics := _atomics(configuration, node, ()):
        fields = join_shortened(map(path_text, atomics), ", ", MAX_MESSAGE)
        raise TypedError(f"invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {fields}")
    mismatches = validate(original, node, duplicates=True)
    if mismatches:
        raise TypedError(f"failed to convert original object to typed object: {errors_text(mismatches)}")
    try:
        merged: Object = merge(original, configuration, node)
    except Untypable as error:
        raise TypedError(f"failed to merge patch: {error}") from error
    return merged


def _unfit_anywhere(value: Json, node: MergeType, path: str) -> Iterator[TypeMismatch]:
    """The values that are no JSON where anything else is allowed."""
    if type(value) is GoValue:
        if node.anything:
            yield TypeMismatch(path, f"expected map, got &{{{value.plain}}}")
    elif type(value) is dict:
        for name, part in value.items():
            field = node.fields.get(name)
            of_part = node if node.anything else node.element if field is None else field[1]
            if of_part is not None:
                yield from _unfit_anywhere(part, of_part, below(path, f".{name}"))
    elif type(value) is list:
        for index, item in enumerate(value):
            yield from _unfit_anywhere(item, node if node.anything else node.item or node, below(path, f"[{index}]"))


def _atomics(value: Json, node: MergeType, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The atomic lists and maps among the declared fields of a value, and among the items of lists."""
    paths: list[tuple[str, ...]] = []
    if type(value) is dict and node.is_map:
        if node.map_atomic:
            paths.append(path)
        for name, part in value.items():
            field = node.fields.get(name)
            if field is not None:
                paths.extend(_atomics(part, field[1], (*path, field[0])))
    elif type(value) is list and node.is_list and node.item is not None:
        if node.items is Items.ATOMIC:
            paths.append(path)
        for index, item in enumerate(value):
            paths.extend(_atomics(item, node.item, (*path, f"i:{index}")))
    return paths
