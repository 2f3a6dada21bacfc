"""Checks compiled to closures: functions that return whether a value has some property.

The closure of a schema node is compiled when a value first reaches it, so that a large schema only costs what is used
of it. Used by fast_prune.py and fast_validate.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from registry.schema.model import Structural

Check = Callable[[Any], bool]
# Of a new value and the old one: parts that are the same object at the same place in both are not looked at.
ChangesCheck = Callable[[Any, Any], bool]


def always(value: Any) -> bool:
    return True


def never(value: Any) -> bool:
    return False


def lazily(schemas: Mapping[str, Structural], compile_one: Callable[[Structural], Check]) -> dict[str, Check]:
    """The checks of properties by name; each is compiled on its first call and then replaces its placeholder."""
    checks: dict[str, Check] = {}

    def later(name: str, schema: Structural) -> Check:
        def compile_and_check(value: Any) -> bool:
            check = checks[name] = compile_one(schema)
            return check(value)

        return compile_and_check

    for name, schema in schemas.items():
        checks[name] = later(name, schema)
    return checks
