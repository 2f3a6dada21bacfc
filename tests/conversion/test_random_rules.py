"""Conversion rules between random schemas, on random objects: nothing is lost in either direction."""

from __future__ import annotations

import copy
import random
from functools import partial

import pytest

from registry.codec.json_encode import encode_canonical
from registry.conversion.declarative.check import validate_rules
from registry.conversion.declarative.plan import ConversionPlan
from registry.schema.compiled import compile_schema
from registry.schema.model import KEEPS_ALL
from tests.conversion.plans import (
    INT,
    TEXT,
    Json,
    Schema,
    definition,
    link,
    list_of,
    obj,
    plan,
    root,
    there_and_back,
    thing,
)


def _schema(chance: random.Random, depth: int = 0) -> Schema:
    kind = chance.choice(["text", "int", "object", "list"] if depth < 3 else ["text", "int"])
    if kind == "object" or depth == 0:
        return obj(**{f"f{i}": _schema(chance, depth + 1) for i in range(chance.randint(1, 4))})
    if kind == "list":
        return list_of(_schema(chance, depth + 1))
    return dict(TEXT, enum=["a", "b", "c"]) if kind == "text" else dict(INT)


def _value(chance: random.Random, schema: Schema) -> Json:
    if schema["type"] == "object":
        return {n: _value(chance, s) for n, s in schema["properties"].items() if chance.random() < 0.7}
    if schema["type"] == "array":
        return [_value(chance, schema["items"]) for _ in range(chance.randint(0, 3))]
    return chance.choice(schema["enum"]) if schema["type"] == "string" else chance.randint(0, 3)


def _changed(chance: random.Random, schema: Schema, path: str, rules: list[Json], top: Schema) -> None:
    """Changes a schema in place, and adds the rules that lead to it, children before their parents."""
    if schema["type"] == "array":
        _changed(chance, schema["items"], f"{path}[*]", rules, top)
        return
    if schema["type"] != "object":
        return
    for name, inner in list(schema["properties"].items()):
        _changed(chance, inner, f"{path}.{name}", rules, top)
        chosen, where = chance.random(), f"{path}.{name}"
        if chosen < 0.25:
            rules.append({"rename": {"path": where, "to": f"{name}x"}})
            schema["properties"][f"{name}x"] = schema["properties"].pop(name)
        elif chosen < 0.5 and "[*]" not in where:
            place = f"m{len(rules)}"
            rules.append({"move": {"from": where, "to": f"spec.{place}.in"}})
            top["properties"][place] = obj(**{"in": schema["properties"].pop(name)})
        elif chosen < 0.7 and inner["type"] == "string":
            rules.append({"map": {"path": where, "values": {"a": "X", "b": "Y", "c": "Z"}}})
            inner["enum"] = ["X", "Y", "Z"]


@pytest.mark.parametrize("seed", range(40))
def test_random_rules_that_are_found_lossless_lose_nothing(seed: int) -> None:
    chance = random.Random(seed)
    old = _schema(chance)
    new = copy.deepcopy(old)
    rules: list[Json] = []
    _changed(chance, new, "spec", rules, new)
    links = [link(*rules)]
    assert validate_rules(definition(links, v1=old, v2=new)) == []
    by = plan(links, v1=old, v2=new)
    for _ in range(20):
        there_and_back(by, _value(chance, old))
        there_and_back(by, _value(chance, new), source="v2", target="v1")


@pytest.mark.parametrize("seed", range(20))
def test_the_complement_keeps_lost_fields_between_random_schemas(seed: int) -> None:
    chance = random.Random(seed)
    old, new = _schema(chance), _schema(chance)
    by = plan([link(loss="Keep")], v1=old, v2=new)
    for _ in range(20):
        there_and_back(by, _value(chance, old))
        there_and_back(by, _value(chance, new), source="v2", target="v1")


# -- random expressions beside random rules
# Fields of some kinds: schema, expressions without a condition, values of objects.
VALUES: dict[str, tuple[Schema, list[str], list[Json]]] = {
    "text": (dict(TEXT, enum=["v", "vw", "x"]), ["'v'", "'v' + 'w'"], ["v", "vw", "x"]),
    "int": (INT, ["1", "size('ab')"], [1, 2, 3]),
    "list": (list_of(INT), ["[1, 2]", "[1].map(n, n + 1)"], [[1, 2], [2], []]),
    "map": (obj(p=dict(TEXT, enum=["v", "x"])), ["{'p': 'v'}", "{'p': 'v', 'q': 'w'}"], [{"p": "v"}, {}, {"p": "x"}]),
}
# Whether a field is in the old version, in the new one, and has an expression on the way there, and back.
FIELDS = [
    (False, True, True, False),
    (True, False, False, True),
    (True, True, True, True),
    (True, True, True, False),
    (True, True, False, True),
    (True, False, False, False),
    (True, True, False, False),
]


def _turned(rule: Json) -> Json:
    [(kind, body)] = rule.items()
    if kind == "move":
        return {"move": {"from": body["to"], "to": body["from"]}}
    if kind == "rename":
        above, _, name = body["path"].rpartition(".")
        return {"rename": {"path": f"{above}.{body['to']}", "to": name}}
    return {"map": {"path": body["path"], "values": {new: old for old, new in body["values"].items()}}}


def _holders(old: Schema, new: Schema, path: str) -> list[tuple[str, Schema, Schema]]:
    """The objects that both schemas have under one path."""
    if old["type"] == new["type"] == "array":
        return _holders(old["items"], new["items"], f"{path}[*]")
    if not old["type"] == new["type"] == "object":
        return []
    both = sorted(old["properties"].keys() & new["properties"].keys())
    inner = [_holders(old["properties"][name], new["properties"][name], f"{path}.{name}") for name in both]
    return [(path, old, new), *(found for several in inner for found in several)]


def _expression(chance: random.Random, kind: str, path: str, names: list[str]) -> str:
    """`names` are the fields of what the expression looks at."""
    cel = chance.choice(VALUES[kind][1])
    prefix = "self" if "[*]" in path else "self.spec"
    conditions = [f"has({prefix}.{name})" for name in names]
    if "[*]" not in path:
        conditions += ["self.metadata.name == 'a'", "self.apiVersion == 'g/v1'"]
    if not conditions or chance.random() < 0.3:
        return cel
    return f"{chance.choice(conditions)} ? optional.of({cel}) : optional.none()"


def _with_expressions(chance: random.Random, old: Schema, new: Schema, there: list[Json], back: list[Json]) -> None:
    """Adds fields, expressions and drops to the schemas and the rules of both ways."""
    tops = sorted(old["properties"]), sorted(new["properties"])
    holders = _holders(old, new, "spec")
    for i in range(chance.randint(1, 4)):
        path, *pair = chance.choice(holders)
        kind, known = chance.choice([*VALUES]), chance.choice(FIELDS)
        name = f"e{i}{kind}"
        where = f"{path}.{name}"
        if known[0] and not any(known[2:]) and chance.random() < 0.4:
            chance.choice([there, back]).append({"drop": where})
        elif known == FIELDS[0] and chance.random() < 0.3:
            name = f"e{i}"
            where = f"{path}.{name}.in"
        elif known == FIELDS[1] and chance.random() < 0.5:
            there.append({"drop": where})
        for schema, known_here, way, has_expression, top in zip(
            pair, known, (there, back), known[2:], tops, strict=False
        ):
            if has_expression:
                looked_at = top if "[*]" not in path else sorted(schema["properties"]) if path.endswith("[*]") else []
                looked_at = [n for n in looked_at if not n.startswith("e")]
                way.insert(0, {"set": {"path": where, "cel": _expression(chance, kind, path, looked_at)}})
            if known_here:
                value = copy.deepcopy(VALUES[kind][0])
                schema["properties"][name] = obj(**{"in": value}) if where.endswith(".in") else value


def _thing(chance: random.Random, schema: Schema, name: str = "") -> Json:
    """As `_value`, where fields that expressions fill in often have what those give."""
    for kind, (_, _, values) in VALUES.items():
        if name.startswith("e") and name.endswith(kind):
            return chance.choice(values)
    if schema["type"] == "object":
        return {n: _thing(chance, s, n) for n, s in schema["properties"].items() if chance.random() < 0.7}
    if schema["type"] == "array":
        return [_thing(chance, schema["items"]) for _ in range(chance.randint(0, 3))]
    return _value(chance, schema)


def _random_plan(seed: int) -> tuple[ConversionPlan, Schema, Schema]:
    chance = random.Random(seed)
    old = _schema(chance)
    new = copy.deepcopy(old)
    there: list[Json] = []
    _changed(chance, new, "spec", there, new)
    back = [_turned(rule) for rule in reversed(there)]
    if chance.random() < 0.3:
        chance.shuffle(back)
    _with_expressions(chance, old, new, there, back)
    return plan([link(*there, back=back, loss="Keep")], v1=old, v2=new), old, new


@pytest.mark.parametrize("seed", range(60))
def test_random_expressions_round_trip_in_both_directions(seed: int) -> None:
    by, old, new = _random_plan(seed)
    chance = random.Random(seed)
    for _ in range(20):
        there_and_back(by, _thing(chance, old))
        there_and_back(by, _thing(chance, new), source="v2", target="v1")


def test_fields_that_are_known_to_be_pruned_would_be_pruned(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = [_random_plan(seed) for seed in range(60)]
    for by, *_ in quick:
        assert [by.converts_back(*way) for way in (("v1", "v2"), ("v2", "v1"))]  # compiles them
    monkeypatch.setattr("registry.conversion.declarative.plan.pruned_fields", lambda *_: [])
    for seed, (by, old, new) in enumerate(quick):
        chance, slow = random.Random(seed), _random_plan(seed)[0]
        for source, target, schema in (("v1", "v2", old), ("v2", "v1", new)) * 5:
            given = thing(source, _thing(chance, schema))
            assert by.convert(given, f"g/{target}") == slow.convert(given, f"g/{target}")


def test_values_that_are_not_pruned_are_not_lost() -> None:
    """Definitions of the older form may say so (preserveUnknownFields)."""
    specs = {"v1": obj(a=INT, b=INT), "v2": obj(a=INT, c=INT)}
    schemas = {name: partial(compile_schema, {**root(spec), KEEPS_ALL: True}) for name, spec in specs.items()}
    rules = [link({"set": {"path": "spec.c", "cel": "self.spec.a"}}, back=[], loss="Keep")]
    by = ConversionPlan("g", encode_canonical({"conversions": rules}), schemas)
    assert there_and_back(by, {"a": 1, "b": 2, "d": 3}) == ({"a": 1, "b": 2, "c": 1, "d": 3}, True)


def test_most_random_rules_are_proven() -> None:
    found = [_random_plan(seed)[0].converts_back(*way) for seed in range(60) for way in (("v1", "v2"), ("v2", "v1"))]
    assert found.count(False) > 60


def test_a_field_that_is_split_by_expressions_is_proven() -> None:
    """Also where the moves of the way back stand in another order, and what is pruned anyway is dropped too."""
    there = [
        {"set": {"path": "spec.host", "cel": "self.spec.address.split(':')[0]"}},
        {"set": {"path": "spec.port", "cel": "int(self.spec.address.split(':')[1])"}},
        {"drop": "spec.address"},
        {"move": {"from": "spec.size", "to": "spec.scaling.size"}},
        {"rename": {"path": "spec.l[*].n", "to": "m"}},
    ]
    back = [
        {"move": {"from": "spec.scaling.size", "to": "spec.size"}},
        {"rename": {"path": "spec.l[*].m", "to": "n"}},
        {"set": {"path": "spec.address", "cel": "self.spec.host + ':' + string(self.spec.port)"}},
        {"drop": "spec.host"},
        {"drop": "spec.port"},
    ]
    by = plan(
        [link(*there, back=back, loss="Keep")],
        v1=obj(address=TEXT, size=INT, l=list_of(obj(n=INT))),
        v2=obj(host=TEXT, port=INT, scaling=obj(size=INT), l=list_of(obj(m=INT))),
    )
    assert not by.converts_back("v1", "v2")
    assert not by.converts_back("v2", "v1")
    for address, annotated in (("h:1", False), ("h:01", True)):
        given = {"address": address, "size": 1, "l": [{"n": 1}, {}]}
        became = {"host": "h", "port": 1, "scaling": {"size": 1}, "l": [{"m": 1}, {}]}
        assert there_and_back(by, given) == (became, annotated)
