"""When two decoded values are the same to Kubernetes: 1 and 1.0 are, 1 and true are not.

Follows structured-merge-diff value/value.go (Equals). Safe at any depth.
"""

from __future__ import annotations

from registry.schema.model import Json


def equal(left: Json, right: Json) -> bool:
    """Python's `==` gives a first answer fast; where it says yes, numbers still have to be told from booleans."""
    if left is right:
        return True
    kind = type(left)
    if kind is str:
        return bool(left == right)
    if kind is dict or kind is list:
        if kind is not type(right) or len(left) != len(right):
            return False
        return _equal_containers(left, right)
    return bool(left == right) and (kind is bool) is (type(right) is bool)


def _equal_containers(left: Json, right: Json) -> bool:
    stack: list[tuple[Json, Json]] = [(left, right)]
    while stack:
        left, right = stack.pop()
        if type(left) is dict:
            for key, one in left.items():
                if key not in right:
                    return False
                other = right[key]
                if one is other:
                    continue
                kind = type(one)
                if kind is dict or kind is list:
                    if kind is not type(other) or len(one) != len(other):
                        return False
                    stack.append((one, other))
                elif one != other or (kind is bool) is not (type(other) is bool):
                    return False
        else:
            for one, other in zip(left, right, strict=True):
                if one is other:
                    continue
                kind = type(one)
                if kind is dict or kind is list:
                    if kind is not type(other) or len(one) != len(other):
                        return False
                    stack.append((one, other))
                elif one != other or (kind is bool) is not (type(other) is bool):
                    return False
    return True
