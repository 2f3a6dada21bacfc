"""Generated schemas: the fields of generated.py under other names and in other places, with other indexes."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from registry.definitions.compiled import compile_definition
from registry.query.indexes import Indexes, indexes_of
from registry.schema.model import Structural
from tests.api.widgets import definition
from tests.query.generated import DECLARED, PROPERTIES

_FIELD = re.compile(r"\bspec\.([a-z]+)")
_PARENTS = ((), (), ("inner",), ("inner", "deep"), ("other",))
_ROOTS = ("spec", "spec", "status", "data")
_SCALARS = ("size", "ratio", "name", "flag", "seen", "age", "port", "owner.name")
# The sixteen that a definition may have: some of those that generated.py declares, and others.
_DECLARED, _OTHERS = 11, 5


@dataclass(frozen=True)
class Shape:
    """`places`: where each field of generated.py is, as a path from the object."""

    definition: dict[str, Any]
    places: Mapping[str, tuple[str, ...]]
    indexes: Indexes
    structural: Structural

    def text(self, text: str) -> str:
        """A filter, order or index over the fields of generated.py, over those of this schema."""
        return _moved(text, self.places)

    def object(self, obj: dict[str, Any]) -> dict[str, Any]:
        """An object of generated.py in this schema."""
        moved = {name: value for name, value in obj.items() if name != "spec"}
        for name, value in obj.get("spec", {}).items():
            *parents, last = self.places[name]
            place = moved
            for parent in parents:
                place = place.setdefault(parent, {})
            place[last] = value
        return moved


def shape_of(chance: random.Random) -> Shape:
    places = {
        name: (chance.choice(_ROOTS), *chance.choice(_PARENTS), f"{chance.choice('abxyz')}{number}")
        for number, name in enumerate(chance.sample(list(PROPERTIES), len(PROPERTIES)))
    }
    schema: dict[str, Any] = {"type": "object"}
    for name, (*parents, last) in places.items():
        node = schema
        for parent in parents:
            node = node.setdefault("properties", {}).setdefault(parent, {"type": "object"})
        node.setdefault("properties", {})[last] = PROPERTIES[name]
    declared = dict.fromkeys(part.strip() for part in chance.sample(DECLARED.split(";"), _DECLARED))
    while len(declared) < _DECLARED + _OTHERS:
        declared[_index(chance)] = None
    made = definition(schema=schema)
    made["metadata"] |= {
        "annotations": {"query.registry/index": _moved(";".join(declared), places)},
        "resourceVersion": "1",
    }
    compiled = compile_definition(made)
    return Shape(made, places, indexes_of(compiled), compiled.versions["v1"].schema().structural)


def _index(chance: random.Random) -> str:
    fields = chance.sample(_SCALARS, chance.choice((1, 2, 2, 3)))
    return ",".join(f"spec.{field}" + chance.choice(("", "", " desc")) for field in fields)


def _moved(text: str, places: Mapping[str, tuple[str, ...]]) -> str:
    return _FIELD.sub(lambda found: ".".join(places[found[1]]), text)
