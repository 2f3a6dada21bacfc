"""Generated groups and aggregates over generated objects: what the planner computes, from objects and from the entries
of each index that covers the question, is what an evaluation by the CEL engine, field by field, comes to.

The reference knows neither encodings nor plans: CEL expressions read the values, and lists of them are counted, added
up and sorted by Python's own means.
"""

from __future__ import annotations

import functools
import math
import random
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from registry.cel.checker.checker import check
from registry.cel.checker.schema_types import declare
from registry.cel.common.times import Duration, Timestamp
from registry.cel.common.values import EvalError
from registry.cel.interpreter.compile import Program, compile_program
from registry.cel.interpreter.views import view_of
from registry.cel.syntax.parser import parse
from registry.query.aggregation import SUMMABLE, Aggregate, AggregateError, AggregateFunction, Groups
from registry.query.constraints import Constraints, constraints_of
from registry.query.covering import covering
from registry.query.encoding import invert
from registry.query.fields import nodes_along, query_schema, resolve
from registry.query.language import ROW, Condition, compile_filter
from registry.query.rows import RowColumn, page_of, parse_row_order
from registry.query.values import Reading, ValueType, decode, quantity_text, reading, schema_of, split
from registry.schema.goduration import duration_text
from registry.schema.model import Structural
from tests.query.generated import INDEXES, NOW, STRUCTURAL, objects, term

ROOT = query_schema(STRUCTURAL)
FIELDS = ("size", "ratio", "name", "flag", "seen", "age", "port", "owner.name")
INDEXED = [
    tuple(field.text.removeprefix("spec.") for field in index.fields)
    for index in INDEXES.indexes
    if not any(field.is_array or field.path[0] != "spec" for field in index.fields)
]
# Fields that are read as another type than the schema's.
READ_AS = {
    "size": ["", "Number", "Quantity"],
    "name": ["", "Quantity", "Duration", "Timestamp"],
    "port": ["", "Quantity"],
}
QUANTITIES = ["1Gi", "1024Mi", "500m", "0.5", "3", "-2k", "1e3", "2Ki", "nonsense", "1h", "2026-11-22T11:59:59Z"]


def read(field: str, wanted: str = "") -> Reading:
    path = ("spec", *field.split("."))
    *_, node = nodes_along(ROOT, path)
    return reading(resolve(ROOT, path), node, wanted)


@functools.cache
def program(expression: str) -> Program:
    declared = declare(ROOT, name="object")
    assert declared is not None
    checked = check(parse(expression), {"object": declared.type})
    assert not checked.issues, expression
    return compile_program(checked, {"object": view_of(ROOT)})


CONVERSIONS = {
    "Quantity": "quantity(string({}))",
    "Duration": "duration({})",
    "Timestamp": "timestamp({})",
    "Number": "double({})",
}


def value_of(obj: Any, field: str, wanted: str) -> Any:
    """By the CEL engine; None where it has no value. What has no order of its own in Python gets one."""
    path = f"object.spec.{field}"
    try:
        found = program(CONVERSIONS[wanted].format(path) if wanted else path).evaluate(obj)
    except EvalError:
        return None
    if found is None or isinstance(found, str | int | float):
        return (isinstance(found, str), found) if field == "port" and found is not None else found
    if isinstance(found, Timestamp | Duration):
        return found.nanoseconds
    return Fraction(found.digits) * Fraction(10) ** found.scale


def reference(
    function: AggregateFunction, values: list[Any], count: int, fraction: Fraction, of: ValueType | None
) -> Any:
    """What an aggregate comes to; `values` are those that are there."""
    match function:
        case AggregateFunction.COUNT:
            return count if of is None else len(values)
        case AggregateFunction.COUNT_DISTINCT:
            return len(set(values))
    if not values:
        return None
    match function:
        case AggregateFunction.MIN:
            return min(values)
        case AggregateFunction.MAX:
            return max(values)
        case AggregateFunction.PERCENTILE:
            ordered = sorted(values)
            reached = [v for i, v in enumerate(ordered) if Fraction(i + 1, len(ordered)) >= fraction]
            return reached[0]
    exact = [Fraction(v) for v in values]
    total = sum(exact, Fraction(0)) / (len(exact) if function is AggregateFunction.AVG else 1)
    if of is ValueType.NUMBER or (of is ValueType.INTEGER and function is AggregateFunction.AVG):
        return math.fsum(values) if function is AggregateFunction.SUM else float(total)
    return total if of is ValueType.QUANTITY else round(total)


def question(chance: random.Random) -> tuple[list[tuple[str, str]], list[tuple[AggregateFunction, str, str, Fraction]]]:
    # Those of one index, or any.
    fields = chance.choice([INDEXED, INDEXED, (FIELDS,)])
    pool = chance.choice(fields)

    def field() -> tuple[str, str]:
        found = chance.choice(pool)
        return found, chance.choice(READ_AS.get(found, [""]))

    keys = [field() for _ in range(chance.choice((0, 1, 1, 2)))]
    aggregates: list[tuple[AggregateFunction, str, str, Fraction]] = []
    for _ in range(chance.choice((0, 1, 2, 3)) if keys else chance.choice((1, 2, 3))):
        function = chance.choice(list(AggregateFunction))
        if function is AggregateFunction.COUNT and chance.random() < 0.5:
            aggregates.append((function, "", "", Fraction(0)))
            continue
        name, wanted = field()
        if function in (AggregateFunction.SUM, AggregateFunction.AVG) and read(name, wanted).type not in SUMMABLE:
            function = AggregateFunction.PERCENTILE
        percent = chance.choice(("0", "50", "90", "99.9", "100", "33.3"))
        aggregates.append((function, name, wanted, Fraction(Decimal(percent)) / 100))
    return keys, aggregates


def with_quantities(chance: random.Random) -> list[dict[str, Any]]:
    found = objects(chance)
    # Indexes do not hold texts as long as that.
    too_long = chance.random() < 0.2
    for obj in found:
        if not too_long and len(str(obj.get("spec", {}).get("name"))) > 1000:
            obj["spec"]["name"] = "long"
        if chance.random() < 0.5 and "spec" in obj:
            obj["spec"]["name"] = chance.choice(QUANTITIES)
            obj["spec"]["port"] = chance.choice([*QUANTITIES, 5, 5000])
    return found


@pytest.mark.parametrize("seed", range(20))
def test_groups_equal_those_of_full_evaluation(seed: int) -> None:
    chance = random.Random(seed)
    covered = overflows = 0
    for _ in range(50):
        found = with_quantities(chance)
        keys, aggregates = question(chance)
        text = " && ".join(term(chance) for _ in range(chance.choice((0, 0, 0, 1, 2))))
        wanted = compile_filter(text or "true", STRUCTURAL)
        matching = [obj for obj in found if wanted.matches(obj, NOW)]
        case = (text, keys, aggregates, [obj.get("spec") for obj in found])

        expected: dict[tuple[Any, ...], list[dict[str, Any]]] = {} if keys else {(): []}
        for obj in matching:
            expected.setdefault(tuple(value_of(obj, *key) for key in keys), []).append(obj)
        rows = {
            key: [
                reference(f, [v for o in group if name and (v := value_of(o, name, how)) is not None], len(group), part,
                          read(name, how).type if name else None)
                for f, name, how, part in aggregates
            ]
            for key, group in expected.items()
        }  # fmt: skip

        key_readings = [read(*key) for key in keys]
        made = [
            Aggregate(f"a{i}", f, read(name, how) if name else None, part)
            for i, (f, name, how, part) in enumerate(aggregates)
        ]
        inputs = [one.input for one in made]
        from_objects = Groups(key_readings, made)
        for obj in matching:
            from_objects.add(
                tuple(one.of_object(obj) for one in key_readings),
                [one.of_object(obj) if one is not None else None for one in inputs],
            )
        try:
            assert dict_of(from_objects, len(keys)) == rows, case
        except AggregateError:
            overflows += 1
            assert any(isinstance(v, int) and not -(1 << 63) <= v < 1 << 63 for row in rows.values() for v in row), case
            continue

        read_off = constraints_of(wanted, NOW) if text else Constraints((), True)
        paths = [one.field.path for one in (*key_readings, *inputs) if one is not None]
        of_all = [entry for obj in found for entry in INDEXES.entries(obj)]
        for index in INDEXES.indexes:
            plan = covering([index], read_off.per_field, paths, exact=read_off.exact)
            entries = [entry for entry in of_all if entry.startswith(index.id)]
            if plan is None or plan.overflow in entries:
                continue
            covered += 1
            within = [e for e in entries if any(s.start <= e < s.end for s in plan.segments)]
            from_entries = Groups(key_readings, made)
            for entry, number in Counter(within).items():
                components = plan.components(entry)
                if components is not None:
                    from_entries.add(
                        tuple(one.of_component(components[one.field.path]) for one in key_readings),
                        [one.of_component(components[one.field.path]) if one is not None else None for one in inputs],
                        number,
                    )
            assert dict_of(from_entries, len(keys)) == rows, (index.text, case)
    assert covered


def dict_of(groups: Groups, keys: int) -> dict[tuple[Any, ...], list[Any]]:
    rows = groups.rows()
    found = {row[:keys]: list(row[keys:]) for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("index", INDEXES.indexes, ids=lambda index: index.text)
def test_components_are_split_and_decoded_to_what_was_encoded(index: Any) -> None:
    if any(field.is_array for field in index.fields):
        pytest.skip("entries of arrays are one an element")
    chance = random.Random(index.text)
    for _ in range(20):
        for obj in objects(chance):
            for entry in index_entries(index, obj):
                parts = split(entry, index)
                turned = [invert(p) if t else p for p, t in zip(parts, index.descending, strict=True)]
                assert index.id + b"".join(turned) == entry
                for field, part in zip(index.fields, parts, strict=True):
                    if part != b"\xfe":
                        decode(field.kind, part)


def index_entries(index: Any, obj: Any) -> list[bytes]:
    overflow = index.id + b"\xff"
    return [entry for entry in INDEXES.entries(obj) if entry.startswith(index.id) and entry != overflow]


# --- the rows of an answer

COLUMNS = [RowColumn("team", ValueType.STRING), RowColumn("port", ValueType.INT_OR_STRING), RowColumn("n", ValueType.INTEGER),
           RowColumn("size", ValueType.INTEGER), RowColumn("seen", ValueType.TIMESTAMP), RowColumn("age", ValueType.DURATION)]  # fmt: skip
HAVING: dict[str, Callable[[dict[str, Any]], bool]] = {
    "row.n > 1": lambda row: row["n"] > 1,
    "row.team == 'ä' || row.size < 3": lambda row: row["team"] == "ä" or (row["size"] is not None and row["size"] < 3),
    "has(row.team)": lambda row: row["team"] is not None,
    "!has(row.size)": lambda row: row["size"] is None,
    "row.size + row.n > 5": lambda row: row["size"] is not None and row["size"] + row["n"] > 5,
    "row.seen < timestamp('2026-11-22T12:00:00Z')": lambda row: (
        row["seen"] is not None and row["seen"] < "2026-11-22T12:00:00Z"
    ),
    "row.age >= duration('1h')": lambda row: row["age"] is not None and "h" in row["age"],
    "row.port == 80": lambda row: row["port"] == 80,
}


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_selected_ordered_and_paged(seed: int) -> None:
    chance = random.Random(seed)
    schema = {
        "team": Structural(type="string"), "port": Structural(int_or_string=True), "size": Structural(type="integer"),
        "seen": Structural(type="string", format="date-time"), "age": Structural(type="string", format="duration"),
    }  # fmt: skip
    root = query_schema(Structural(type="object", properties={"spec": Structural(type="object", properties=schema)}))
    inputs = {name: reading(resolve(root, ("spec", name)), schema[name], "") for name in schema}
    for _ in range(100):
        groups = Groups(
            [inputs["team"], inputs["port"]],
            [Aggregate("n", AggregateFunction.COUNT)]
            + [Aggregate(name, AggregateFunction.MAX, inputs[name]) for name in ("size", "seen", "age")],
        )
        given: dict[tuple[Any, Any], dict[str, Any]] = {}
        for _ in range(chance.randrange(12)):
            spec: dict[str, Any] = {
                "team": chance.choice(["a", "ä", "\U0001f600", "\uffff", None]), "port": chance.choice([80, "80", None, 7]),
                "size": chance.choice([1, 2, 3, 7, None]),
                "seen": chance.choice(["2026-11-22T11:00:00Z", "2026-11-22T14:00:00+01:00", None]),
                "age": chance.choice(["1h0m0s", "30m0s", None]),
            }  # fmt: skip
            read = {name: one.of_object({"spec": spec}) for name, one in inputs.items()}
            groups.add((read["team"], read["port"]), (None, read["size"], read["seen"], read["age"]))
            row = given.setdefault((spec["team"], spec["port"]), {"n": 0, "size": None, "seen": None, "age": None})
            row |= {"team": spec["team"], "port": spec["port"], "n": row["n"] + 1}
            seen = spec["seen"] and spec["seen"].replace("14:00:00+01:00", "13:00:00Z")
            # Of these ages the longer one has the lesser text.
            row["age"] = min(filter(None, (row["age"], spec["age"])), default=None)
            row["seen"] = max(filter(None, (row["seen"], seen)), default=None)
            row["size"] = max(filter(None, (row["size"], spec["size"])), default=None)
        text = chance.choice([*HAVING, ""])
        expected = [row for row in given.values() if not text or HAVING[text](row)]
        descending = chance.random() < 0.5
        by = chance.choice(["size", "team", "n"])

        def place(row: dict[str, Any], by: str = by, descending: bool = descending) -> Any:
            value = row[by]
            if isinstance(value, str):
                value = [(-ord(c) if descending else ord(c)) for c in value]
            elif value is not None and descending:
                value = -value
            keys = [(row["team"] is None, row["team"]),
                    (row["port"] is None, isinstance(row["port"], str), row["port"])]  # fmt: skip
            return (value is None, value, keys)

        expected.sort(key=place)
        offset, limit = chance.randrange(3), chance.randrange(1, 5)
        roots = {ROW: Structural(type="object", properties={c.name: schema_of(c.type) for c in COLUMNS})}
        page = page_of(
            groups, COLUMNS, 2, parse_row_order(by + (" desc" if descending else ""), COLUMNS),
            having=Condition(text, roots) if text else None, now=NOW, offset=offset, limit=limit, max_seconds=60,
        )  # fmt: skip
        assert page.total == len(expected), (text, given)
        assert page.rows == [{c.name: row[c.name] for c in COLUMNS} for row in expected[offset : offset + limit]], text


DURATIONS = {
    0: "0s",
    1: "1ns",
    1500: "1.5µs",
    2_000_000: "2ms",
    10**9: "1s",
    90 * 10**9: "1m30s",
    -5400 * 10**9: "-1h30m0s",
}
AMOUNTS: dict[str, tuple[str, bool, str]] = {
    "binary": ("1073741824", True, "1Gi"),
    "binary, not whole": ("1.5", True, "1500m"),
    "small": ("1000", True, "1k"),
    "decimal": ("1073741824", False, "1073741824"),
    "thousands": ("3000", False, "3k"),
    "a third": ("1/3", False, "333333334n"),
    "negative": ("-1/3", False, "-333333334n"),
    "zero": ("0", True, "0"),
}


def test_durations_are_written_as_go_does() -> None:
    assert {nanos: duration_text(nanos) for nanos in DURATIONS} == DURATIONS


@pytest.mark.parametrize("case", AMOUNTS)
def test_quantities_are_written_in_canonical_form(case: str) -> None:
    amount, binary, text = AMOUNTS[case]
    assert quantity_text(Fraction(amount), binary=binary) == text
