"""Fast path of pruning: is there nothing to prune and no null to drop?

A closure returns True in the ordinary case without allocating. Anything unusual (a list where an object is expected) is
left to the complete algorithms: False only means that pruning.py and `drop_nulls` must run.
"""

from __future__ import annotations

from typing import Any, Final

from registry.schema.checks import ChangesCheck, Check, always, lazily, never
from registry.schema.model import UNSET, Structural
from registry.schema.pruning import META_FIELDS


def compile_fast_prune(schema: Structural, *, is_root: bool = False) -> Check:
    """A check of dicts and lists: True means that pruning and dropping of nulls would change nothing."""
    if (
        schema.preserve_unknown_fields
        and not schema.properties
        and schema.items is None
        and schema.additional_properties is None
    ):
        return always
    if schema.type == "array":
        return _list_check(schema, _object_check(schema, is_root, never))
    return _object_check(schema, is_root, _list_check(schema, never))


def compile_fast_prune_changes(schema: Structural, *, is_root: bool = False) -> ChangesCheck:
    """The same for a value that shares parts with an old one, in which there is nothing to prune."""
    whole = compile_fast_prune(schema, is_root=is_root)
    if schema.type != "object" or not schema.properties or schema.embedded_resource:
        return lambda value, old: whole(value)
    below: dict[str, ChangesCheck] = {}

    def check(value: Any, old: Any) -> bool:
        if value.__class__ is not dict or old.__class__ is not dict:
            return whole(value)
        changed = {name: inner for name, inner in value.items() if old.get(name, _MISSING) is not inner}
        for name in schema.properties.keys() & changed.keys():
            inner = changed[name]
            if inner.__class__ is not dict or (is_root and name in META_FIELDS):
                continue
            if name not in below:
                below[name] = compile_fast_prune_changes(schema.properties[name])
            if not below[name](inner, old.get(name)):
                return False
            del changed[name]
        return whole(changed)

    return check


_MISSING: Final = object()


def _object_check(schema: Structural, is_root: bool, otherwise: Check) -> Check:
    """The check of dicts; `otherwise` is that of lists."""
    additional = schema.additional_properties
    if isinstance(additional, Structural) and not schema.properties and not schema.embedded_resource and not is_root:
        return _map_check(additional, otherwise)
    skipped = META_FIELDS if is_root or schema.embedded_resource else frozenset()
    known = skipped | frozenset(schema.properties)
    keeps = schema.preserve_unknown_fields and additional is None
    null_is_fine = skipped | {
        name for name, inner in schema.properties.items() if inner.nullable or inner.default is not UNSET
    }
    containers = lazily(schema.properties, compile_fast_prune)
    containers.update(dict.fromkeys(skipped, always))
    rest = always if keeps else never
    find = containers.get

    def check(value: Any) -> bool:
        if value.__class__ is not dict:
            return otherwise(value)
        for name, inner in value.items():
            kind = inner.__class__
            if kind is dict or kind is list:
                if not find(name, rest)(inner):
                    return False
            elif name not in known:
                if not keeps:
                    return False
            elif inner is None and name not in null_is_fine:
                return False
        return True

    return check


def _map_check(schema: Structural, otherwise: Check) -> Check:
    null_is_fine = schema.nullable or schema.default is not UNSET
    inner_check: Check | None = None

    def check(value: Any) -> bool:
        nonlocal inner_check
        if value.__class__ is not dict:
            return otherwise(value)
        for inner in value.values():
            kind = inner.__class__
            if kind is dict or kind is list:
                if inner_check is None:
                    inner_check = compile_fast_prune(schema)
                if not inner_check(inner):
                    return False
            elif inner is None and not null_is_fine:
                return False
        return True

    return check


def _list_check(schema: Structural, otherwise: Check) -> Check:
    """The check of lists; `otherwise` is that of dicts."""
    items = schema.items
    if items is None or (schema.preserve_unknown_fields and not items.preserve_unknown_fields):
        return otherwise  # which refuses lists
    inner_check: Check | None = None

    def check(value: Any) -> bool:
        nonlocal inner_check
        if value.__class__ is not list:
            return otherwise(value)
        for item in value:
            if item.__class__ is dict or item.__class__ is list:
                if inner_check is None:
                    inner_check = compile_fast_prune(items)
                if not inner_check(item):
                    return False
        return True

    return check
