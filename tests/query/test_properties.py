"""Generated filters and orders over generated objects: what the indexes give is what evaluating each object gives.

The index is a sorted list of the entries, read as the store reads it; the reference evaluates the filter on every object
by the CEL engine, and sorts by values rather than by their encodings.
"""

from __future__ import annotations

import datetime
import functools
import random
from typing import Any

import pytest

from registry.cel.common.values import EvalError
from registry.definitions.compiled import compile_definition
from registry.query.constraints import constraints_of
from registry.query.encoding import OVERFLOW
from registry.query.fields import values_at
from registry.query.indexes import indexes_of
from registry.query.language import compile_filter
from registry.query.ordering import Term, parse_order, position
from registry.query.planner import Plan, plans
from registry.schema.model import Structural
from tests.api.widgets import definition

NOW = datetime.datetime(2026, 11, 22, 12, tzinfo=datetime.UTC)
PROPERTIES = {
    "size": {"type": "integer"},
    "ratio": {"type": "number"},
    "name": {"type": "string", "nullable": True},
    "flag": {"type": "boolean"},
    "seen": {"type": "string", "format": "date-time"},
    "age": {"type": "string", "format": "duration"},
    "port": {"x-kubernetes-int-or-string": True},
    "tags": {"type": "array", "items": {"type": "string"}},
    "owner": {"type": "object", "properties": {"name": {"type": "string"}}},
}
SCHEMA = {"type": "object", "properties": {"spec": {"type": "object", "properties": PROPERTIES}}}
TEXTS = [
    "",
    "a",
    "ab",
    "abc",
    "b",
    "B",
    "ä",
    "z\u0000",
    "z",
    "z\u0001",
    "\U0001f600",
    "\uffff",
    "é",
    "a\x00b",
    "x" * 2000,
]
TIMES = ["2026-11-22T11:59:59Z", "2026-11-22T12:00:00+01:00", "2026-11-22T11:00:00Z", "0001-01-01T00:00:00Z"]
VALUES: dict[str, list[Any]] = {
    "size": [0, 1, 2, 3, -1, -5, 1 << 40, (1 << 63) - 1, -(1 << 63)],
    "ratio": [0, -0.0, 0.5, 1, 1.5, -2.25, 1e300, -1e300, 1e-300, 2],
    "name": TEXTS,
    "flag": [True, False],
    "seen": TIMES,
    "age": ["1h", "30m", "90s", "1.5s"],
    "port": [80, "80", "http", 443, ""],
    "tags": [[], ["a"], ["a", "b"], ["b", "a", "a"], ["ä", "z"], ["x" * 2000], [f"t{n}" for n in range(70)]],
    "owner": [{"name": "a"}, {"name": "b"}, {}, {"name": "ä"}],
}
WRONG: list[Any] = [None, 7, "text", True, 1.5, [], {}, [1, "a"], {"name": 3}]
CONSTANTS = {
    "size": ["0", "1", "2", "-1", "3", "1099511627776", "1 + 1"],
    "ratio": ["0.5", "1.0", "0.0", "-2.25", "2.0 * 0.25"],
    "name": ['"a"', '"ab"', '"z"', '"ä"', '""', '"\U0001f600"', '"a" + "b"'],
    "flag": ["true", "false"],
    "seen": ['timestamp("2026-11-22T11:59:59Z")', "now", 'now - duration("1h")'],
    "age": ['duration("1h")', 'duration("90s")'],
    "owner.name": ['"a"', '"b"', '"ä"'],
}
DECLARED = (
    "spec.size; spec.ratio; spec.name; spec.flag,spec.size; spec.seen; spec.age; spec.port; spec.tags[*];"
    "spec.owner.name,spec.name,spec.size; spec.name,spec.tags[*]; metadata.creationTimestamp; spec.size,spec.name;"
    "spec.size desc,spec.name; spec.name,spec.ratio desc; spec.seen desc; spec.owner.name desc,spec.size"
)


def definition_with(index: str) -> dict[str, Any]:
    made = definition(schema=SCHEMA)
    made["metadata"] |= {"annotations": {"query.registry/index": index}, "resourceVersion": "1"}
    return made


DEFINITION = compile_definition(definition_with(DECLARED))
INDEXES = indexes_of(DEFINITION)
STRUCTURAL: Structural = DEFINITION.versions["v1"].schema().structural


def test_all_declared_indexes_are_there() -> None:
    assert INDEXES.errors == ()
    assert len(INDEXES.indexes) == 16


def objects(chance: random.Random) -> list[dict[str, Any]]:
    found = []
    for number in range(chance.randrange(1, 25)):
        spec = {}
        for name, values in VALUES.items():
            which = chance.random()
            if which < 0.7:
                spec[name] = chance.choice(values[: chance.choice((2, 4, 100))])
            elif which < 0.8:
                spec[name] = chance.choice(WRONG)
        metadata = {"name": f"w{number:02}", "creationTimestamp": chance.choice(TIMES)}
        obj: dict[str, Any] = {"apiVersion": "g/v1", "kind": "Widget", "metadata": metadata}
        if chance.random() < 0.95:
            obj["spec"] = spec
        found.append(obj)
    chance.shuffle(found)
    return found


def term(chance: random.Random, depth: int = 0) -> str:
    which = chance.random()
    if which < 0.12 and depth < 3:
        return f"({term(chance, depth + 1)} || {term(chance, depth + 1)})"
    if which < 0.2 and depth < 3:
        return f"!({term(chance, depth + 1)})"
    if which < 0.27 and depth < 3:
        return f"({term(chance, depth + 1)} && {term(chance, depth + 1)})"
    if which < 0.33:
        return chance.choice(('"a" in object.spec.tags', 'object.spec.tags.exists(t, t == "b")', "size(object.spec.tags) > 1",
                              'object.spec.tags.all(t, t < "b")', 'object.spec.tags.exists(t, t.startsWith("ä"))'))  # fmt: skip
    if which < 0.4:
        return chance.choice(("object.spec.flag", "!object.spec.flag", "has(object.spec.name)", "!has(object.spec.size)",
                              "object.spec.port == 80"))  # fmt: skip
    field = chance.choice(list(CONSTANTS))
    path = f"object.spec.{field}"
    if field in ("name", "owner.name") and chance.random() < 0.3:
        return f"{path}.startsWith({chance.choice(CONSTANTS[field])})"
    if chance.random() < 0.25:
        return f"{path} in [{', '.join(chance.choices(CONSTANTS[field], k=chance.randrange(4)))}]"
    operators = ("==", "!=") if field == "flag" else ("==", "==", "!=", "<", "<=", ">", ">=")
    sides = [path, chance.choice(CONSTANTS[field])]
    if field == "ratio" and chance.random() < 0.2:
        operators, sides[1] = ("<", ">="), chance.choice("012")
    if chance.random() < 0.2:
        sides.reverse()
    return f" {chance.choice(operators)} ".join(sides)


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


def value_of(wanted: Term, obj: dict[str, Any]) -> Any:
    """The value by which an object is sorted; None without one."""
    values = values_at(obj, wanted.field.path)
    try:
        found = wanted.field.view.convert(values[0]) if values else None
    except EvalError:
        return None
    if isinstance(found, int | str) and wanted.field.kind.value == "int-or-string":
        return isinstance(found, str), found
    return getattr(found, "nanoseconds", found)


def reference_order(order: tuple[Term, ...], found: list[dict[str, Any]]) -> list[str]:
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


def read(plan: Plan, found: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """As the store reads a plan: its segments one after the other, or merged by their keys; and what the index cannot
    hold."""
    by_name = {obj["metadata"]["name"]: obj for obj in found}
    entries = [
        (entry, name)
        for name, obj in by_name.items()
        for entry in INDEXES.entries(obj)
        if entry.startswith(plan.index.id)
    ]
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
def test_indexes_give_what_evaluation_gives(seed: int) -> None:
    chance = random.Random(seed)
    used = 0
    for _ in range(100):
        found = objects(chance)
        text = " && ".join(term(chance) for _ in range(chance.randrange(0, 4)))
        wanted = compile_filter(text or "true", STRUCTURAL)
        ordering = order_of(chance) if chance.random() < 0.7 else ""
        order = parse_order(ordering, STRUCTURAL) if ordering else None
        matching = [obj for obj in found if wanted.matches(obj, NOW)]
        expected = reference_order(order or (), matching)
        assert [
            o["metadata"]["name"]
            for o in sorted(matching, key=lambda o: (position(order or (), o), o["metadata"]["name"]))
        ] == expected, (text, ordering)
        read_off = constraints_of(wanted, NOW)
        for plan in plans(INDEXES.indexes, read_off.found, order, exact=read_off.exact):
            used += 1
            rows, over = read(plan, found)
            names = [obj["metadata"]["name"] for obj in rows]
            assert len(set(names)) == len(names), (text, plan)
            if not plan.covers:
                rows = [obj for obj in rows if wanted.matches(obj, NOW)]
            over = [obj for obj in over if wanted.matches(obj, NOW)]
            names = [obj["metadata"]["name"] for obj in rows]
            by = plan.order or ()
            case = (text, ordering, plan.index.text, [obj.get("spec") for obj in found])
            if plan.streams and order is not None:
                assert names == reference_order(order, rows), case
            elif plan.streams:
                assert names == reference_order(by, rows), case
            assert sorted(names + [o["metadata"]["name"] for o in over]) == sorted(expected), case
    assert used > 50
