"""Definitions as large as real ones: views are made, stay what they are, and show random objects as they are.

The real ones are not ours to keep here; where they stand in ../shared/crds, they are tried too.
"""

from __future__ import annotations

import datetime
import json
import random
from pathlib import Path
from typing import Any

import pytest

from registry.reporting.fields import kind_of
from registry.reporting.report import report_of
from registry.schema.model import Structural, from_json
from registry.store.reporting.model import Child, ReportColumn, ReportKind
from tests.reporting.reports import Ask, Object, Reports, definition

SHARED = Path(__file__).parents[3] / "shared" / "crds"


def large(seed: int) -> Object:
    """A definition of our own in the spirit of the real ones: nested, wide, with arrays in arrays and maps."""
    dice = random.Random(seed)

    def random_schema(depth: int) -> dict[str, Any]:
        choice = dice.choice(["object", "object", "array", "map", "leaf", "leaf", "leaf"]) if depth < 6 else "leaf"
        if choice == "object":
            return {
                "type": "object",
                "description": f"Level {depth}; it's 'quoted'",
                "nullable": dice.random() < 0.1,
                "properties": {
                    dice.choice(_WORDS) + str(n) * dice.randint(0, 1): random_schema(depth + 1)
                    for n in range(dice.randint(1, 8))
                },
            }
        if choice == "array":
            return {"type": "array", "items": random_schema(depth + 1)}
        if choice == "map":
            return {"type": "object", "additionalProperties": {"type": "string"}}
        return dict(dice.choice(_LEAVES))

    spec = {"type": "object", "properties": {f"{dice.choice(_WORDS)}{n}": random_schema(1) for n in range(20)}}
    tops = {word: random_schema(4) for word in dice.sample(_WORDS, 6)}
    return definition(
        f"larges{seed}",
        {**tops, "spec": spec, "status": random_schema(1)},
        scope=dice.choice(["Namespaced", "Cluster"]),
    )


_WORDS = [
    "replicas",
    "podTemplate",
    "imagePullSecrets",
    "x-forwarded.for",
    "select",
    "clusterIPs",
    "TLS",
    "größe",
    "x" * 190,
    "ab",
    "aB",
    "a_b",
    "A B",
    "'; DROP TABLE objects; --",
    'quo"te',
    "日本",
    "name",
    "ctid",
    "0",
    "uid",
    "%s",
    "$1",
    "\\",
    "valid_from",
]
_LEAVES: list[dict[str, Any]] = [
    {"type": "string"},
    {"type": "integer"},
    {"type": "number"},
    {"type": "boolean"},
    {"x-kubernetes-int-or-string": True},
    {"type": "string", "format": "date-time"},
    {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    {"x-kubernetes-preserve-unknown-fields": True},
    {"type": "object"},
    {"type": "string", "format": "byte"},
    {"type": "string", "format": "duration"},
    {"type": "string", "format": "date"},
    {"type": "integer", "format": "int64"},
    {"type": "integer", "format": "int32", "nullable": True},
    {"type": "number", "format": "double", "description": "*/ $$ '; \\ \x00"},
    {"type": "string", "nullable": True},
    {"type": "string", "enum": ["", "x", "'; DROP TABLE objects; --"], "default": "'"},
    {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}},
    },
    {
        "type": "object",
        "additionalProperties": {
            "type": "array",
            "items": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
    },
    {"type": "array", "items": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}},
    {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    {"type": "array", "nullable": True, "items": {"type": "object", "properties": {"b": {"type": "integer"}}}},
]


def real_definitions() -> list[Path]:
    return sorted(SHARED.rglob("*.json")) if SHARED.is_dir() else []


async def check(reports: Reports, crds: list[Object]) -> None:
    names = {}
    for crd in crds:
        outcome = await reports.define("acme", crd)
        assert outcome.state == "ready", crd["metadata"]["name"]
        names[crd["metadata"]["name"]] = (outcome.view, reports.columns(outcome.view))
    with reports.asking("acme") as ask:
        for crd in crds:
            report = report_of(crd)
            view = names[report.resource][0]
            schema = _schema(crd)
            every_leaf_has_a_column(schema, report.shape.columns)
            dice = random.Random(report.resource)
            objects = {f"o{n}": _content(schema, dice) for n in range(2)}
            for name, content in objects.items():
                await reports.put("acme", crd, name, content)
            for row in ask(f'SELECT * FROM "{view}"'):
                for column in report.shape.columns:
                    expected = _at(objects[row["name"]], column)
                    assert _same(row[column.name], expected, column.kind), (report.resource, column, expected)
            history = ask(f'SELECT * FROM "{view}_history"')
            assert len(history) == len(objects)
            for row in history:
                for column in report.shape.columns:
                    expected = _at(objects[row["name"]], column)
                    assert _same(row[column.name], expected, column.kind), (report.resource, column)
            for row in ask(f'SELECT name, object FROM "{view}_raw"'):
                shown = {key: value for key, value in row["object"].items() if key != "metadata"}
                assert shown == objects[row["name"]] or report.shape.redacted
            relations = {
                row["part"]: row["relation"]
                for row in ask("SELECT DISTINCT part, relation FROM catalogue WHERE definition = %s", report.resource)
            }
            for child in report.shape.children:
                if child.name in relations:  # Without columns it is not in the catalogue.
                    elements_read_back(ask, relations[child.name], child, objects)
    # As a second start would: everything is created again, and is the same.
    for crd in crds:
        outcome = await reports.define("acme", crd)
        assert names[crd["metadata"]["name"]] == (outcome.view, reports.columns(outcome.view))


def elements_read_back(ask: Ask, relation: str, child: Child, objects: dict[str, Object]) -> None:
    order = "parent_position, position" if len(child.path) > 1 else "position"
    rows = ask(f'SELECT * FROM "{relation}" ORDER BY name, {order}')
    # An array in an array in an array has no position of its first: such rows are compared where it is one.
    expected = [
        (name, element) for name, content in sorted(objects.items()) for element in _elements(content, child.path)
    ]
    assert len(rows) == len(expected), relation
    for row, (name, element) in zip(rows, expected, strict=True):
        assert row["name"] == name
        for column in child.columns:
            value = _at(element, column) if isinstance(element, dict) else None
            assert _same(row[column.name], value, column.kind), (relation, column, value)


def every_leaf_has_a_column(schema: Structural, columns: tuple[ReportColumn, ...]) -> None:
    known = {column.path for column in columns}

    def walk(node: Structural, path: tuple[str, ...]) -> None:
        if node.properties and not node.int_or_string and len(path) < 16:
            for name, below in node.properties.items():
                walk(below, (*path, name))
        elif not (node.type == "array" and node.items is not None and node.items.properties):
            assert node.format == "password" or path in known, path

    for name, node in schema.properties.items():
        if name not in ("apiVersion", "kind", "metadata"):
            walk(node, (name,))


def _schema(crd: Object) -> Structural:
    version = next(v for v in crd["spec"]["versions"] if v["storage"])
    return from_json(version["schema"]["openAPIV3Schema"])


def _content(schema: Structural, dice: random.Random) -> Object:
    return {
        name: _value(node, dice, 0)
        for name, node in schema.properties.items()
        if name not in ("apiVersion", "kind", "metadata")
    }


def _value(schema: Structural, dice: random.Random, depth: int) -> Any:
    if schema.nullable and dice.random() < 0.5:
        return None
    if schema.int_or_string:
        return dice.choice([dice.randint(0, 9), "50%"])
    if schema.properties:
        return {n: _value(s, dice, depth + 1) for n, s in schema.properties.items() if depth < 3 or dice.random() < 0.4}
    if schema.type == "array" and schema.items is not None:
        return [_value(schema.items, dice, depth + 1) for _ in range(dice.randint(0, 2))]
    match kind_of(schema):
        case ReportKind.INTEGER:
            return dice.randint(-1 << 63, (1 << 63) - 1)
        case ReportKind.NUMBER:
            return dice.choice([0.1, -1.5e20, 5e-324, 3])
        case ReportKind.BOOLEAN:
            return dice.random() < 0.5
        case ReportKind.TIME:
            return dice.choice(["2026-02-28T01:02:03Z", "0001-01-01T00:00:00Z", "2026-01-01T00:00:00.123456-05:30"])
        case ReportKind.DATE:
            return "2024-02-29"
        case ReportKind.TEXT:
            return dice.choice(["", "x", 'it\'s "ö" \\', "'; DROP TABLE objects; --", "日本"])
    return dice.choice([{"key": [1, "two", None]}, {}]) if schema.type == "object" else [1, {"two": None}]


def _at(content: Object, column: ReportColumn) -> Any:
    value: Any = content
    for step in column.path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _elements(content: Any, path: tuple[tuple[str, ...], ...]) -> list[Any]:
    found = [content]
    for part in path:
        below = []
        for value in found:
            for step in part:
                value = value.get(step) if isinstance(value, dict) else None
            below += value if isinstance(value, list) else []
        found = below
    return found


def _same(shown: Any, expected: Any, kind: ReportKind) -> bool:
    if kind is ReportKind.TIME and expected is not None:
        expected = datetime.datetime.fromisoformat(expected)
    elif kind is ReportKind.DATE and expected is not None:
        expected = datetime.date.fromisoformat(expected)
    elif kind is ReportKind.TEXT and isinstance(expected, int):
        expected = str(expected)
    return bool(shown == expected)


@pytest.mark.slow
async def test_large_definitions(reports: Reports) -> None:
    await check(reports, [large(seed) for seed in range(4)])


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the real definitions are not here")
async def test_real_definitions(reports: Reports) -> None:
    crds: list[Object] = []
    for path in real_definitions():
        crd = json.loads(path.read_text())
        # Some are there in two flavours of one name.
        if crd.get("kind") == "CustomResourceDefinition" and crd["metadata"]["name"] not in {
            c["metadata"]["name"] for c in crds
        }:
            crds.append(crd)
    assert len(crds) > 50
    await check(reports, crds)
