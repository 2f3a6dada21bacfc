"""Sets of fields, in the form of managedFields (FieldsV1).

A set is a dict of path elements: `{"f:spec": {".": {}, "f:size": {}, "f:ports": {'k:{"port":80}': {".": {}}}}}`.
Elements are `f:` and a member's name, `k:` and the keys of a list item as JSON, `v:` and a set item as JSON, `i:` and
an index. A node is itself a member of the set if it is `{}` or has a `.`; else it only leads to members. The text of an
element is canonical (sorted keys, Go's JSON, 1 for 1.0), so that equal elements are equal texts. So nothing needs to be
parsed or printed on a write, and an unchanged entry is stored as it was read.

No function changes a set it is given; results share what they can. The depth of a set is bounded by the types of
types.py, or by fieldtexts.py where a client sends one. Follows structured-merge-diff fieldpath/set.go.
"""

from __future__ import annotations

from typing import Any, Final

from registry.budget import spend

FieldSet = dict[str, Any]  # dict[str, FieldSet]

# A member without any below it: one for all, since an object has a hundred of them.
LEAF: Final[FieldSet] = {}


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """The members of either; the larger set itself if it contains the other."""
    if not left or left is right:
        return right
    if not right:
        return left
    return _union(left, right)


def _union(left: FieldSet, right: FieldSet) -> FieldSet:
    if len(left) < len(right):
        left, right = right, left
    result = left
    for element, node in right.items():
        other = left.get(element)
        if other is None:
            new = node
        elif other is node or element == ".":
            continue
        elif not other or not node:
            # One of them is a leaf, a member: so is the union.
            full = node or other
            new = full if not full or "." in full else {".": {}, **full}
        else:
            new = _union(other, node)
        if new is other:
            continue
        if result is left:
            result = _copy(left)
        result[element] = new
    return result


def _copy(fields: FieldSet) -> FieldSet:
    """A mutable copy. An object may have thousands of owners, each of which derives another large set."""
    spend(len(fields) >> 3)
    return dict(fields)


def _shared(left: FieldSet, right: FieldSet) -> list[str]:
    """The elements of both. Each of thousands of small sets may be compared with the same large one."""
    if len(right) <= len(left):
        return [element for element in right if element in left]
    return [element for element in left if element in right]


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """The members of `left` that are not in `right`; `left` itself if that is all of them."""
    if not left or not right:
        return left
    return _difference(left, right) or {}


def _difference(left: FieldSet, right: FieldSet) -> FieldSet | None:
    """The difference of two nodes that have children: None when no member is left at or below the node."""
    result: FieldSet | None = None
    for element in _shared(left, right):
        rest: FieldSet | None
        node, other = right[element], left[element]
        if element == ".":
            rest = None
        elif not other:
            rest = None if not node or "." in node else other
        elif not node:
            if "." in other:
                rest = {name: child for name, child in other.items() if name != "."} or None
            else:
                rest = other
        else:
            rest = _difference(other, node)
        if rest is other:
            continue
        if result is None:
            result = _copy(left)
        if rest is None:
            del result[element]
        else:
            result[element] = rest
    if result is None:
        return left
    if not result:
        return None
    if len(result) == 1 and "." in result:
        return {}
    return result


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """The members of both."""
    if len(right) < len(left):
        left, right = right, left
    result: FieldSet = {}
    for element, node in left.items():
        other = right.get(element)
        if other is None:
            continue
        if element == ".":
            result["."] = node
            continue
        children = intersection(node, other) if node and other else {}
        if "." not in children and (not node or "." in node) and (not other or "." in other):
            children = {".": {}, **children} if children else children
            result[element] = children
        elif children:
            result[element] = {} if len(children) == 1 and "." in children else children
    return result


def without(left: FieldSet, right: FieldSet) -> FieldSet:
    """`left` without the members of `right` and everything below them."""
    result = left
    for element in _shared(left, right):
        if element == ".":
            continue
        node, other = right[element], left[element]
        if not node or "." in node:
            rest = None
        elif not other:
            continue
        else:
            rest = without(other, node)
            if rest is other:
                continue
        if result is left:
            result = _copy(left)
        if rest:
            result[element] = {} if len(rest) == 1 and "." in rest else rest
        else:
            del result[element]
    return result


def has(fields: FieldSet, path: tuple[str, ...]) -> bool:
    node = fields
    for element in path:
        child = node.get(element)
        if child is None:
            return False
        node = child
    return not node or "." in node


def single(path: tuple[str, ...]) -> FieldSet:
    """The set of one path: `("f:spec", "f:size")` gives `{"f:spec": {"f:size": {}}}`."""
    result: FieldSet = {}
    for element in reversed(path):
        result = {element: result}
    return result
