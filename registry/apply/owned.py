"""The field sets of values: what an apply owns, what a change adds, what an old entry means under the current type.

All walks follow the type of the value and are at most as deep as the type. Follows structured-merge-diff
typed/{tofieldset,helpers,reconcile_schema}.go and fieldpath/set.go (EnsureNamedFieldsAreMembers).
"""

from __future__ import annotations

from registry.apply.fieldsets import LEAF, FieldSet
from registry.apply.fieldtexts import json_text
from registry.apply.types import Field, Items, MergeType
from registry.schema.model import Json


class Untypable(Exception):
    """A value does not fit its type. The message is for logs; validate.py words the errors for clients."""


class BadItem(Untypable):
    """An item of a set or keyed list that cannot be distinguished from the others."""


def item_element(item: Json, node: MergeType, *, any_key: bool = False) -> str:
    """The path element of an item of a list that is not atomic: `k:{"name":"x"}` or `v:"x"`.

    `any_key` allows documents as keys, for the path of the error that is reported for them.
    """
    if node.items is Items.KEYED:
        if item is None:
            raise BadItem("associative list with keys may not have a null element")
        if type(item) is not dict:
            raise BadItem("associative list with keys may not have non-map elements")
        if node.key is not None and type(key := item.get(node.key[0])) is str:
            return f"{node.key[1]}{json_text(key)}}}"
        parts = []
        for name, beginning, default in node.keys:
            if name in item:
                key = item[name]
                if (type(key) is dict or type(key) is list) and not any_key:
                    # No schema allows this; a path that contains a document is of no use.
                    raise BadItem("associative list with keys has an element whose key is not a scalar")
                parts.append(beginning + json_text(key))
            elif default is not None:
                parts.append(beginning + default)
        if not parts:
            raise BadItem(
                f"associative list with keys has an element that omits all key fields {node.keys_text} "
                "(and doesn't have default values for any key fields)"
            )
        return "k:{" + ",".join(parts) + "}"
    kind = type(item)
    if kind is dict:
        raise BadItem("associative list without keys has an element that's a map type")
    if kind is list:
        raise BadItem("not supported: associative list with lists as elements")
    if item is None:
        raise BadItem("associative list without keys has an element that's an explicit null")
    return "v:" + json_text(item)


def member(name: str, node: MergeType) -> Field:
    """A member of a map. Loops look in `node.fields` first, where most are."""
    field = node.fields.get(name)
    if field is not None:
        return field
    if node.element is None:
        raise Untypable(f"{name}: field not declared in schema")
    return f"f:{name}", node.element, node.element.accepts


def added_fields(value: Json, node: MergeType) -> FieldSet:
    """The fields added or removed with a value: the value itself and everything in it."""
    kind = type(value)
    if kind is dict:
        if not node.is_map:
            raise Untypable("unexpected map")
        if not value or node.map_atomic:
            return LEAF
        return _member_fields(value, node)
    if kind is list:
        if not node.is_list:
            raise Untypable("unexpected list")
        if not value or node.items is Items.ATOMIC:
            return LEAF
        return _item_fields(value, node)
    if kind not in node.accepts:
        raise Untypable(f"unexpected {kind.__name__}")
    return LEAF


def fields_within(value: Json, node: MergeType) -> FieldSet:
    """The fields in a value that are owned separately."""
    return {element: below for element, below in added_fields(value, node).items() if element != "."}


def _member_fields(value: dict[str, Json], node: MergeType) -> FieldSet:
    result: FieldSet = {".": LEAF}
    fields = node.fields
    for name, part in value.items():
        element, type_, accepts = fields.get(name) or member(name, node)
        kind = type(part)
        if kind in accepts:
            result[element] = LEAF
        elif kind is dict and part and type_.is_map and not type_.map_atomic:  # as added_fields, without its call
            result[element] = _member_fields(part, type_)
        else:
            result[element] = added_fields(part, type_)
    return result


def _item_fields(value: list[Json], node: MergeType) -> FieldSet:
    """Duplicate items are owned as a whole, since it is ambiguous which one is meant."""
    result: FieldSet = {".": LEAF}
    item_type = node.item
    assert item_type is not None
    accepts = item_type.accepts
    for item in value:
        element = item_element(item, node)
        kind = type(item)
        if element in result or kind in accepts:
            result[element] = LEAF
        elif kind is dict and item and item_type.is_map and not item_type.map_atomic:
            result[element] = _member_fields(item, item_type)
        else:
            result[element] = added_fields(item, item_type)
    return result


def field_set(value: dict[str, Json], node: MergeType) -> FieldSet:
    """The fields that an apply of `value` owns: leaves, items of lists and members that the schema does not name."""
    result: FieldSet = {}
    fields = node.fields
    for name, part in value.items():
        declared = name in fields
        element, type_, _ = fields.get(name) or member(name, node)
        kind = type(part)
        if kind is dict and not type_.map_atomic and type_.is_map:
            below = field_set(part, type_)
            if not part or not declared:
                result[element] = {".": {}, **below} if below else {}
            elif below:
                result[element] = below
        elif kind is list and type_.items is not Items.ATOMIC and type_.is_list:
            below = _item_set(part, type_)
            if not declared:
                result[element] = {".": {}, **below} if below else {}
            elif below:
                result[element] = below
        else:
            result[element] = {}
    return result


def _item_set(value: list[Json], node: MergeType) -> FieldSet:
    result: FieldSet = {}
    item_type = node.item
    assert item_type is not None
    for item in value:
        element = item_element(item, node)
        if element in result or type(item) is not dict or item_type.map_atomic:
            result[element] = {}
        else:
            below = field_set(item, item_type)
            result[element] = {".": {}, **below} if below else {}
    return result


def with_named(fields: FieldSet, node: MergeType | None) -> FieldSet:
    """`fields` and the declared members above them: a manager that owns `.spec.size` keeps `.spec`."""
    result: FieldSet = {}
    for element, below in fields.items():
        if not below:
            result[element] = below
            continue
        type_, declared = _below(element, node)
        full = with_named(below, type_)
        result[element] = {".": {}, **full} if declared and "." not in full else full
    return result


def _below(element: str, node: MergeType | None) -> tuple[MergeType | None, bool]:
    if node is None:
        return None, False
    if element[0] == "f":
        field = node.fields.get(element[2:])
        return (node.element, False) if field is None else (field[1], True)
    return node.item, False


def reconcile_fields(fields: FieldSet, node: MergeType) -> FieldSet:
    """An entry under the current type: fields below a map or list that has become atomic become that map or list.

    `fields` itself if nothing changed; this runs on each entry at each write, so it only checks where that is possible.
    """
    result = fields
    if node.is_list:
        parts = [(element, node.item) for element, below in fields.items() if below and element != "."]
    elif node.element is not None and node.element.collapses:
        parts = [(element, _below(element, node)[0]) for element, below in fields.items() if below and element != "."]
    else:
        parts = [part for part in node.collapsing if fields.get(part[0])]
    for element, type_ in parts:
        if type_ is None or not type_.collapses:
            continue
        below = fields[element]
        new = {} if type_.is_whole else reconcile_fields(below, type_)
        if new is not below:
            if result is fields:
                result = dict(fields)
            result[element] = new
    return result


def declared_members(value: Json, node: MergeType) -> Json:
    """`value` without the members that its type does not know; `value` itself if it has none."""
    if node.anything:
        return value
    if type(value) is dict and node.is_map:
        members = {
            name: declared_members(part, member(name, node)[1])
            for name, part in value.items()
            if name in node.fields or node.element is not None
        }
        same = len(members) == len(value) and all(part is value[name] for name, part in members.items())
        return value if same else members
    if type(value) is list and node.is_list and node.item is not None:
        items = [declared_members(item, node.item) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    return value
