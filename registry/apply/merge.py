"""Merging an applied object into a live one, and removing fields from an object.

Results share unchanged parts with their inputs, which are not changed. Follows structured-merge-diff
typed/{merge,remove}.go (v6.4.0: a container that is emptied is kept empty).
"""

from __future__ import annotations

from operator import is_

from registry.apply.fieldsets import FieldSet
from registry.apply.owned import item_element, member
from registry.apply.types import Items, MergeType
from registry.apply.values import equal
from registry.schema.model import Json

_ABSENT = object()
_CONTAINERS = (dict, list)


def merge(live: Json, applied: Json, node: MergeType) -> Json:
    """`applied` merged into `live`.

    Both must fit the type. `{"a": 1, "b": {"c": 1}}` and `{"b": {"d": 2}}` give `{"a": 1, "b": {"c": 1, "d": 2}}`; an
    atomic value is replaced. Null replaces a scalar and an atomic list, while a map or list with parts stays. Equal
    values are not replaced, so that `live` itself is returned when nothing changes.
    """
    if live is applied:
        return live
    if type(applied) is dict and _has_members(live, node):
        return live if node.exact and live == applied else _merge_members(live, applied, node)
    if type(applied) is list and _has_items(live, node):
        return live if node.exact and live == applied else _merge_items(live, applied, node)
    # An untyped null is treated as a map, and so does not preserve a list.
    if applied is None and (_has_members(live, node) or (_has_items(live, node) and not node.is_map)):
        return live
    return live if equal(live, applied) else applied


def _has_members(value: Json, node: MergeType) -> bool:
    """Whether a value is a map whose members are owned separately."""
    return type(value) is dict and bool(value) and node.is_map and not node.map_atomic


def _has_items(value: Json, node: MergeType) -> bool:
    """Whether a value is a list whose items are owned separately."""
    return type(value) is list and bool(value) and node.is_list and node.items is not Items.ATOMIC


def _merge_members(live: dict[str, Json], applied: dict[str, Json], node: MergeType) -> dict[str, Json]:
    result = live
    for name, value in applied.items():
        old = live.get(name, _ABSENT)
        if old is value or (type(old) is type(value) and type(old) not in _CONTAINERS and old == value):
            continue
        new = value if old is _ABSENT else merge(old, value, member(name, node)[1])
        if new is not old:
            if result is live:
                result = dict(live)
            result[name] = new
    return result


def _merge_items(live: list[Json], applied: list[Json], node: MergeType) -> list[Json]:
    """Applied items are in the applied order; the others keep their position among their neighbours.

    Both lists are walked in parallel. `shared` are the items of both, in the applied order: one that the live list
    reaches too early is skipped, since it is placed when the applied list reaches it.
    """
    item_type = node.item
    assert item_type is not None
    left = [item_element(item, node) for item in live]
    right = [item_element(item, node) for item in applied]
    live_items: dict[str, Json] = {}
    for element, item in zip(left, live, strict=True):
        # Which of several equal items is meant is ambiguous: the applied one replaces them all.
        live_items[element] = None if element in live_items else item
    applied_items = dict(zip(right, applied, strict=True))
    shared = iter([element for element in right if element in live_items])
    next_shared = next(shared, None)
    placed: set[str] = set()
    result: list[Json] = []
    i = j = 0
    while i < len(left) or j < len(right):
        both = i < len(left) and j < len(right)
        if i < len(left) and not (both and left[i] == right[j]):
            if both and left[i] in applied_items and next_shared not in (None, left[i]):
                i += 1
                continue
            if left[i] not in applied_items:
                result.append(live[i])
                i += 1
                continue
            if left[i] in placed:
                i += 1
                if j == len(right):
                    continue
        elif both:
            i += 1
        element = right[j]
        j += 1
        placed.add(element)
        result.append(merge(live_items.get(element), applied_items[element], item_type))
        if element == next_shared:
            next_shared = next(shared, None)
    same = len(result) == len(live) and all(map(is_, result, live))
    return live if same else result


def remove(value: Json, fields: FieldSet, node: MergeType) -> Json:
    """`value` without the members of `fields`; `value` itself if it has none of them."""
    if _has_members(value, node):
        return _remove_members(value, fields, node)
    if _has_items(value, node):
        return _remove_items(value, fields, node)
    return value


def _remove_members(value: dict[str, Json], fields: FieldSet, node: MergeType) -> dict[str, Json]:
    result = value
    for element, below in fields.items():
        name = element[2:]
        if element[0] != "f" or name not in value:
            continue
        if result is value:
            result = dict(value)
        if not below or "." in below:
            del result[name]
        else:
            result[name] = remove(value[name], below, member(name, node)[1])
    return result


def _remove_items(value: list[Json], fields: FieldSet, node: MergeType) -> list[Json]:
    item_type = node.item
    assert item_type is not None
    result: list[Json] = []
    for item in value:
        below = fields.get(item_element(item, node))
        if below is None:
            result.append(item)
        elif below and "." not in below:
            result.append(remove(item, below, item_type))
    return result
