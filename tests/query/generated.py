"""Generated objects and terms of filters, over a definition with indexes of every kind."""

from __future__ import annotations

import datetime
import random
from typing import Any

from registry.definitions.compiled import compile_definition
from registry.query.indexes import indexes_of
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
