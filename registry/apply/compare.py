"""The changes between two states of an object, as two sets of fields.

Walks both values at once; identical objects, and those that are equal where Python's `==` is exact, are skipped.
Follows structured-merge-diff typed/compare.go, with Added and Modified in one set, since no caller distinguishes them.
"""

from __future__ import annotations

from typing import NamedTuple

from registry.apply.fieldsets import FieldSet
from registry.apply.owned import Untypable, added_fields, fields_within, item_element, member
from registry.apply.types import UNTYPED, Items, MergeType
from registry.apply.values import equal
from registry.schema.model import Json


class FieldChanges(NamedTuple):
    """`changed` are the fields that were added or modified, `removed` those that no longer exist."""

    changed: FieldSet
    removed: FieldSet


NOTHING = FieldChanges({}, {})
_ABSENT = object()


def changes(old: dict[str, Json], new: dict[str, Json], node: MergeType) -> FieldChanges:
    """The changes from one object to another of the same type. Raises Untypable if new values do not fit the type.

    `{"spec": {"a": 1, "b": 2}}` and `{"spec": {"a": 3, "c": 2}}` give `{"f:spec": {"f:a": {}, "f:c": {}}}` and
    `{"f:spec": {"f:b": {}}}`.
    """
    changed: FieldSet = {}
    removed: FieldSet = {}
    shared = 0
    for name, value in new.items():
        other = old.get(name, _ABSENT)
        kind = type(value)
        if other is value or (kind is type(other) and kind is not dict and kind is not list and other == value):
            shared += 1
            continue
        element, type_, accepts = node.fields.get(name) or member(name, node)
        if other is _ABSENT:
            changed[element] = {} if kind in accepts else added_fields(value, type_)
            continue
        shared += 1
        if kind in accepts and type(other) is not dict and type(other) is not list:
            if other != value or (kind is bool) is not (type(other) is bool):
                changed[element] = {}
        elif kind in accepts or not type_.exact or value != other:
            _put(changed, removed, element, _changes(other, value, type_))
    if shared < len(old):
        removed |= _removed_members(old, new, node)
    return FieldChanges(changed, removed) if changed or removed else NOTHING


def _put(changed: FieldSet, removed: FieldSet, element: str, below: FieldChanges | None) -> None:
    if below is None:
        changed[element] = {}
        return
    if below.changed:
        changed[element] = {} if len(below.changed) == 1 and "." in below.changed else below.changed
    if below.removed:
        removed[element] = below.removed


def _changes(old: Json, new: Json, node: MergeType) -> FieldChanges | None:
    """The changes between two present values; None means that the field as such is modified.

    Null equals an empty map or list when compared to a non-empty one, and differs from an empty one.
    """
    kind = type(new)
    if kind is dict and type(old) is dict:
        if not node.is_map:
            raise Untypable("unexpected map")
        if node.map_atomic or not (old or new):
            return NOTHING if equal(old, new) else None
        return changes(old, new, node)
    if kind is list and type(old) is list:
        if not node.is_list:
            raise Untypable("unexpected list")
        # Finding the path elements of items is expensive; most lists are unchanged.
        if equal(old, new):
            return NOTHING
        return None if node.items is Items.ATOMIC or not (old or new) else _item_changes(old, new, node)
    return _changes_of_kind(old, new, node)


def _changes_of_kind(old: Json, new: Json, node: MergeType) -> FieldChanges | None:
    """The same where a value has changed its kind (scalar, list or map)."""
    try:
        before = fields_within(old, node)
    except Untypable:
        before = fields_within(old, UNTYPED)
    after = fields_within(new, node)
    if (old is None and after) or (new is None and before):
        return FieldChanges(after, before)
    if not before and not after:
        return NOTHING if equal(old, new) else None
    # The value as a whole has changed, and so have its parts.
    return FieldChanges({".": {}, **after}, before)


def _removed_members(old: dict[str, Json], new: dict[str, Json], node: MergeType) -> FieldSet:
    removed: FieldSet = {}
    for name, value in old.items():
        if name not in new:
            field = node.fields.get(name)
            element, type_ = (f"f:{name}", node.element or UNTYPED) if field is None else field[:2]
            removed[element] = _removed_fields(value, type_)
    return removed


def _removed_fields(value: Json, node: MergeType) -> FieldSet:
    """The fields removed with an old value. It need not fit the type: the schema may have changed since."""
    try:
        return added_fields(value, node)
    except Untypable:
        return added_fields(value, UNTYPED)


def _item_changes(old: list[Json], new: list[Json], node: MergeType) -> FieldChanges:
    """Matches items by their path elements; their order has no owner."""
    after = _by_element(new, node)
    try:
        before = _by_element(old, node)
    except Untypable:
        before = {}  # duplicate items have no owners
    item_type = node.item
    assert item_type is not None
    changed: FieldSet = {}
    removed: FieldSet = {}
    for element, items in after.items():
        others = before.get(element)
        if others is None:
            changed[element] = added_fields(items[0], item_type) if len(items) == 1 else {}
        elif len(items) == 1 and len(others) == 1:
            item, other = items[0], others[0]
            if item is other:
                continue
            _put(changed, removed, element, _changes(other, item, item_type))
        elif len(items) > 1 and len(others) > 1:
            if not equal(items, others):
                changed[element] = {}
        elif len(items) == 1:
            # A duplicate has become a single item: the item is new, the duplicate is removed.
            changed[element] = added_fields(items[0], item_type)
            removed[element] = {}
        else:
            removed[element] = _removed_fields(others[0], item_type)
            changed[element] = {}
    for element, others in before.items():
        if element not in after:
            removed[element] = _removed_fields(others[0], item_type) if len(others) == 1 else {}
    return FieldChanges(changed, removed) if changed or removed else NOTHING


def _by_element(items: list[Json], node: MergeType) -> dict[str, list[Json]]:
    result: dict[str, list[Json]] = {}
    for item in items:
        result.setdefault(item_element(item, node), []).append(item)
    return result
