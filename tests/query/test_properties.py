"""Generated filters and orders over generated schemas and objects: what the indexes give is what evaluating each object
gives.

The index is a sorted list of the entries, read as the store reads it; the reference evaluates the filter on every object
by the CEL engine, and sorts by values rather than by their encodings.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from registry.query.constraints import constraints_of
from registry.query.encoding import OVERFLOW
from registry.query.indexes import Indexes
from registry.query.language import compile_filter
from registry.query.ordering import parse_order, position
from registry.query.planner import Plan, plans
from tests.query.generated import INDEXES, NOW, objects, term
from tests.query.orders import order_of, reference_order
from tests.query.shapes import shape_of


def test_all_declared_indexes_exist() -> None:
    assert INDEXES.errors == ()
    assert len(INDEXES.indexes) == 16


def entries_by_name(indexes: Indexes, found: list[dict[str, Any]]) -> list[tuple[bytes, str]]:
    """The entries of all indexes, each with the name of its object."""
    return [(entry, obj["metadata"]["name"]) for obj in found for entry in indexes.entries(obj)]


def read(
    plan: Plan, stored: list[tuple[bytes, str]], found: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """As the store reads a plan from the entries that it has `stored`: its segments one after the other, or merged by
    their keys; and what the index cannot hold."""
    by_name = {obj["metadata"]["name"]: obj for obj in found}
    entries = [(entry, name) for entry, name in stored if entry.startswith(plan.index.id)]
    rows: list[str] = []
    for segment in plan.segments:
        within = sorted((e, n) for e, n in entries if segment.start <= e < segment.end)
        if segment.descending:
            within.sort(key=lambda pair: pair[0], reverse=True)
        rows += [name for _, name in within]
    if plan.streams and plan.order is None:
        rows.sort()
    over = [name for entry, name in entries if entry == plan.index.id + OVERFLOW]
    return [by_name[name] for name in rows], [by_name[name] for name in over]


@pytest.mark.parametrize("seed", range(20))
def test_indexes_agree_with_full_evaluation(seed: int) -> None:
    chance = random.Random(seed)
    shape = shape_of(chance)
    assert shape.indexes.errors == ()
    used = 0
    for _ in range(100):
        found = [shape.object(obj) for obj in objects(chance)]
        text = shape.text(" && ".join(term(chance) for _ in range(chance.randrange(0, 4))))
        wanted = compile_filter(text or "true", shape.structural)
        ordering = shape.text(order_of(chance)) if chance.random() < 0.7 else ""
        order = parse_order(ordering, shape.structural) if ordering else None
        matching = [obj for obj in found if wanted.matches(obj, NOW)]
        expected = reference_order(order or (), matching)
        assert [
            o["metadata"]["name"]
            for o in sorted(matching, key=lambda o: (position(order or (), o), o["metadata"]["name"]))
        ] == expected, (text, ordering)
        read_off = constraints_of(wanted, NOW)
        stored = entries_by_name(shape.indexes, found)
        for plan in plans(shape.indexes.indexes, read_off.per_field, order, exact=read_off.exact):
            used += 1
            rows, over = read(plan, stored, found)
            names = [obj["metadata"]["name"] for obj in rows]
            assert len(set(names)) == len(names), (text, plan)
            if not plan.covers:
                rows = [obj for obj in rows if wanted.matches(obj, NOW)]
            over = [obj for obj in over if wanted.matches(obj, NOW)]
            names = [obj["metadata"]["name"] for obj in rows]
            by = plan.order or ()
            case = (text, ordering, plan.index.text, found)
            if plan.streams and order is not None:
                assert names == reference_order(order, rows), case
            elif plan.streams:
                assert names == reference_order(by, rows), case
            assert sorted(names + [o["metadata"]["name"] for o in over]) == sorted(expected), case
    assert used > 50
