"""isGreaterThan, isLessThan and compareTo, shared by quantities and versions.

Follows apiserver pkg/cel/library/{quantity,semverlib}.go.
"""

from __future__ import annotations

from registry.cel.common.values import Value
from registry.cel.ext.quantity import Quantity
from registry.cel.ext.semver import Semver
from registry.cel.ext.table import member, mismatch


@member("isGreaterThan", 2)
def is_greater_than(left: Value, right: Value) -> bool:
    return _compare(left, right, "isGreaterThan") > 0


@member("isLessThan", 2)
def is_less_than(left: Value, right: Value) -> bool:
    return _compare(left, right, "isLessThan") < 0


@member("compareTo", 2)
def compare_to(left: Value, right: Value) -> int:
    """-1, 0 or 1"""
    return _compare(left, right, "compareTo")


def _compare(left: Value, right: Value, name: str) -> int:
    kind = type(left)
    if kind is not type(right) or (kind is not Quantity and kind is not Semver):
        raise mismatch(name, left, right)
    return int(left.compare(right))
