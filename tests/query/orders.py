"""Generated orders, and a reference implementation that sorts by values rather than by encoded keys."""

from __future__ import annotations

import functools
import random
from typing import Any

from registry.cel.common.values import EvalError
from registry.query.fields import values_at
from registry.query.ordering import OrderTerm

ORDERS = ["spec.size desc,spec.name", "spec.name,spec.ratio desc", "spec.owner.name desc,spec.size", "spec.ratio desc",
          "spec.seen desc", "spec.seen", "spec.size desc"]  # fmt: skip


def order_of(chance: random.Random) -> str:
    if chance.random() < 0.3:
        return chance.choice(ORDERS)
    fields = ["spec.size", "spec.ratio", "spec.name", "spec.flag", "spec.seen", "spec.age", "spec.port", "spec.owner.name",
              "metadata.creationTimestamp", "metadata.name"]  # fmt: skip
    return ",".join(
        field + chance.choice(("", " desc")) for field in chance.sample(fields, chance.choice((1, 1, 1, 2, 3)))
    )


def value_of(wanted: OrderTerm, obj: dict[str, Any]) -> Any:
    """The value by which an object is sorted; None without one."""
    values = values_at(obj, wanted.field.path)
    try:
        found = wanted.field.view.convert(values[0]) if values else None
    except EvalError:
        return None
    if isinstance(found, int | str) and wanted.field.kind.value == "int-or-string":
        return isinstance(found, str), found
    return getattr(found, "nanoseconds", found)


def reference_order(order: tuple[OrderTerm, ...], found: list[dict[str, Any]]) -> list[str]:
    def compare(left: dict[str, Any], right: dict[str, Any]) -> int:
        for one in order:
            a, b = value_of(one, left), value_of(one, right)
            if a is None or b is None:
                if (a is None) != (b is None):
                    return 1 if a is None else -1
            elif a != b:
                return (1 if a > b else -1) * (-1 if one.descending else 1)
        return -1 if left["metadata"]["name"] < right["metadata"]["name"] else 1

    return [obj["metadata"]["name"] for obj in sorted(found, key=functools.cmp_to_key(compare))]
