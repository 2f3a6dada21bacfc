"""Conversion rules as tables: what they do, what is refused, and that nothing is lost on the way there and back."""

from __future__ import annotations

import copy
import random
from functools import partial
from typing import Any

import pytest

from registry.api.served import body_of
from registry.codec.json_encode import encode_canonical
from registry.conversion.declarative.check import validate_rules
from registry.conversion.declarative.complement import ANNOTATION
from registry.conversion.declarative.plan import Plan
from registry.conversion.errors import ConversionError
from registry.definitions.conversion import RULES
from registry.schema.compiled import compile_schema
from registry.schema.model import KEEPS_ALL

Json = Any
Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
INT: Schema = {"type": "integer"}


def obj(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


def list_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def root(spec: Schema) -> Schema:
    return obj(spec=spec)


def link(*rules: Json, source: str = "v1", target: str = "v2", **more: Json) -> Json:
    return {"from": source, "to": target, "rules": list(rules), **more}


def definition(links: list[Json], **specs: Schema) -> dict[str, Any]:
    versions = [{"name": name, "schema": {"openAPIV3Schema": root(spec)}} for name, spec in specs.items()]
    text = encode_canonical({"conversions": links})
    return {"metadata": {"annotations": {RULES: text}}, "spec": {"versions": versions}}


def plan(links: list[Json], **specs: Schema) -> Plan:
    schemas = {name: partial(compile_schema, root(spec)) for name, spec in specs.items()}
    return Plan("g", encode_canonical({"conversions": links}), schemas)


def thing(version: str, spec: Json, **metadata: Json) -> dict[str, Any]:
    return {"apiVersion": f"g/{version}", "kind": "Thing", "metadata": {"name": "a", **metadata}, "spec": spec}


def body_there(by: Plan, given: dict[str, Any], target: str) -> None:
    """What lists make of a stored body is what `convert` makes of the object."""
    source = given["apiVersion"].rpartition("/")[2]
    stored = {**given, "metadata": {**given["metadata"], "uid": "u-1"}}
    found = by.bodies("Thing", source, target)(stored["metadata"]["name"], "u-1", body_of(stored))
    if ANNOTATION in stored["metadata"].get("annotations", {}):
        assert found is None
    else:
        assert found == body_of(by.convert(stored, f"g/{target}"))


def there_and_back(by: Plan, spec: Json, source: str = "v1", target: str = "v2") -> tuple[Json, bool]:
    """What the spec becomes, and whether an annotation came with it; the way back must be exact."""
    given = thing(source, spec)
    before = copy.deepcopy(given)
    became = by.convert(given, f"g/{target}")
    assert given == before
    assert by.convert(became, f"g/{source}") == before
    body_there(by, given, target)
    body_there(by, became, source)
    return became["spec"], ANNOTATION in became["metadata"].get("annotations", {})


@pytest.mark.parametrize(
    ("rules", "old", "new", "spec", "expected", "annotated"),
    [
        pytest.param(
            [{"move": {"from": "spec.a", "to": "spec.b.c"}}],
            obj(a=INT),
            obj(b=obj(c=INT)),
            {"a": 1},
            {"b": {"c": 1}},
            False,
            id="move",
        ),
        pytest.param(
            [{"move": {"from": "spec.a.x", "to": "spec.b"}}],
            obj(a=obj(x=INT)),
            obj(b=INT),
            {"a": {}},
            {},
            True,
            id="empty-object",
        ),
        pytest.param(
            [{"rename": {"path": ".spec.l[*].n", "to": "m"}}, {"rename": {"path": "spec.l", "to": "k"}}],
            obj(l=list_of(obj(n=INT))),
            obj(k=list_of(obj(m=INT))),
            {"l": [{"n": 1}, {}]},
            {"k": [{"m": 1}, {}]},
            False,
            id="elements",
        ),
        pytest.param(
            [{"map": {"path": "spec.m", "values": {"a": "b", "b": "a"}}}],
            obj(m=TEXT),
            obj(m=TEXT),
            {"m": "a"},
            {"m": "b"},
            False,
            id="swap",
        ),
        pytest.param(
            [{"map": {"path": "spec.on", "values": [{"from": True, "to": "On"}, {"from": False, "to": "Off"}]}}],
            obj(on={"type": "boolean"}),
            obj(on={"type": "string", "enum": ["On", "Off"]}),
            {"on": False},
            {"on": "Off"},
            False,
            id="other-type",
        ),
        pytest.param(
            [{"default": {"path": "spec.t.u", "value": 7}}],
            obj(t=obj(v=INT)),
            obj(t=obj(u=INT, v=INT)),
            {"t": {"v": 1}},
            {"t": {"v": 1, "u": 7}},
            False,
            id="default",
        ),
        pytest.param([{"drop": "spec.x"}], obj(x=INT, y=INT), obj(y=INT), {"x": 1, "y": 2}, {"y": 2}, True, id="drop"),
        pytest.param(
            [{"set": {"path": "spec.n", "cel": "size(self.spec.l)"}}],
            obj(l=list_of(INT)),
            obj(l=list_of(INT), n=INT),
            {"l": [1, 2]},
            {"l": [1, 2], "n": 2},
            False,
            id="expression",
        ),
        pytest.param(
            [
                {"set": {"path": "spec.l[*].big", "cel": "has(self.n) ? optional.of(self.n > 1) : optional.none()"}},
                {"rename": {"path": "spec.l[*].n", "to": "m"}},
                {"rename": {"path": "spec.l", "to": "k"}},
            ],
            obj(l=list_of(obj(n=INT))),
            obj(k=list_of(obj(m=INT, big={"type": "boolean"}))),
            {"l": [{"n": 1}, {}, {"n": 2}]},
            {"k": [{"m": 1, "big": False}, {}, {"m": 2, "big": True}]},
            False,
            id="expression-on-elements",
        ),
        pytest.param(
            [],
            obj(l=list_of(obj(a=INT, b=INT))),
            obj(l=list_of(obj(a=INT))),
            {"l": [{"a": 1, "b": 2}]},
            {"l": [{"a": 1}]},
            True,
            id="pruned-in-elements",
        ),
    ],
)
def test_rules(rules: list[Json], old: Schema, new: Schema, spec: Json, expected: Json, annotated: bool) -> None:
    links = [link(*rules, loss="Keep")]
    assert validate_rules(definition(links, v1=old, v2=new)) == []
    assert there_and_back(plan(links, v1=old, v2=new), spec) == (expected, annotated)


def test_what_is_changed_at_the_other_version_stands() -> None:
    by = plan([link(loss="Keep")], v1=obj(l=list_of(obj(a=INT, b=INT)), note=TEXT), v2=obj(l=list_of(obj(a=INT))))
    became = by.convert(thing("v1", {"l": [{"a": 1, "b": 2}, {"a": 3, "b": 4}], "note": "n"}), "g/v2")
    del became["spec"]["l"][0]
    assert by.convert(became, "g/v1")["spec"] == {"l": [{"a": 3, "b": 4}], "note": "n"}
    became["spec"]["l"][0]["a"] = 5
    assert by.convert(became, "g/v1")["spec"] == {"l": [{"a": 5}], "note": "n"}


def test_nothing_is_kept_where_the_loss_is_acknowledged_by_drop() -> None:
    by = plan([link(loss="Drop")], v1=obj(a=INT, b=INT), v2=obj(a=INT))
    became = by.convert(thing("v1", {"a": 1, "b": 2}), "g/v2")
    assert "annotations" not in became["metadata"]
    assert by.convert(became, "g/v1")["spec"] == {"a": 1}


def test_a_chain_of_versions() -> None:
    links = [
        link({"rename": {"path": "spec.a", "to": "b"}}),
        link({"rename": {"path": "spec.c", "to": "b"}}, source="v3", target="v2"),
    ]
    specs = {"v1": obj(a=INT), "v2": obj(b=INT), "v3": obj(c=INT)}
    assert validate_rules(definition(links, **specs)) == []
    assert there_and_back(plan(links, **specs), {"a": 1}, target="v3") == ({"c": 1}, False)


@pytest.mark.parametrize(
    "remainder",
    [
        "[",
        "[]",
        '{"v1":3}',
        '{"v1":[{"path":["metadata","uid"],"is":"x"}]}',
        '{"v1":[{"path":["apiVersion"],"was":"g/v1","is":"x"}]}',
        '{"v1":[{"path":[],"is":1},{"path":[1,2]},{"path":["spec",{}],"is":1}]}',
    ],
)
def test_a_remainder_that_somebody_has_made_up_does_nothing(remainder: str) -> None:
    by = plan([link()], v1=obj(a=INT), v2=obj(a=INT))
    assert by.convert(thing("v2", {"a": 1}, annotations={ANNOTATION: remainder}), "g/v1") == thing("v1", {"a": 1})


LINKS = [
    link(
        {"move": {"from": "spec.a", "to": "spec.in.a"}},
        {"map": {"path": "spec.m", "values": {"x": "X"}}},
        {"default": {"path": "spec.t", "value": "basic"}},
        {"rename": {"path": "spec.l[*].n", "to": "k"}},
        loss="Keep",
    )
]
OLD = obj(a=INT, m=TEXT, l=list_of(obj(n=INT)))
NEW = obj(**{"in": obj(a=INT), "m": TEXT, "t": TEXT, "l": list_of(obj(k=INT))})


@pytest.mark.parametrize(
    ("source", "spec"),
    [
        pytest.param(source, spec, id=f"{source}-{i}")
        for source, specs in {
            "v1": [{}, {"a": 1, "m": "x"}, {"m": "X"}, {"m": "y", "l": [{"n": 1}, {}]}, {"a": 1, "l": []}],
            "v2": [
                {"in": {}},
                {"in": {"a": 1}, "t": "basic"},
                {"in": {"a": 1}, "t": "other", "m": "X"},
                {"m": "x"},
                {"t": "basic", "l": [{"k": 1}]},
                {"t": "basic", "in": {}},
                {},
            ],
        }.items()
        for i, spec in enumerate(specs)
    ],
)
def test_objects_that_are_not_proven_to_come_back_are_detected(source: str, spec: Json) -> None:
    there_and_back(plan(LINKS, v1=OLD, v2=NEW), spec, source, "v2" if source == "v1" else "v1")


def test_the_place_where_metadata_ends_is_not_mistaken() -> None:
    _metadata_ends(
        plan([link({"rename": {"path": "spec.a", "to": "b"}})], v1=obj(a=INT, uid=TEXT), v2=obj(b=INT, uid=TEXT))
    )
    _metadata_ends(
        plan(
            [link({"set": {"path": "spec.c", "cel": "self.metadata.name"}})],
            v1=obj(a=INT, uid=TEXT),
            v2=obj(a=INT, c=TEXT, uid=TEXT),
        )
    )


def _metadata_ends(by: Plan) -> None:
    for more in (
        {},
        {"annotations": {"uid": "u-1"}},
        {"labels": {"a": "b", "uid": "u-1"}},
        {"ownerReferences": [{"kind": "K", "uid": "u-1"}, {"uid": "u-1"}]},
    ):
        given = thing("v1", {"a": 1, "uid": "u-1"}, uid="u-1", **more)
        found = by.bodies("Thing", "v1", "v2")("a", "u-1", body_of(given))
        assert found in (None, body_of(by.convert(given, "g/v2")))
        assert (found is None) == bool({"annotations", "labels"} & more.keys())


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"generateName": "b-"},
        {"annotations": {"x": '"generateName":"c-"'}},
        {"labels": {"generateName": "d"}},
        {"managedFields": [{"manager": "m"}]},
    ],
)
def test_expressions_on_stored_bodies_see_the_names(metadata: Json) -> None:
    cel = "self.metadata.name + (has(self.metadata.generateName) ? self.metadata.generateName : '-') + self.kind"
    by = plan(
        [link({"set": {"path": "spec.c", "cel": cel}}, {"set": {"path": "spec.d", "cel": "self.metadata"}})],
        v1=obj(a=INT),
        v2=obj(a=INT, c=TEXT, d={"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
    )
    given = thing("v1", {"a": 1}, uid="u-1", **metadata)
    wanted = by.convert(given, "g/v2")
    generated = metadata.get("generateName")
    assert wanted["spec"]["c"] == f"a{generated or '-'}Thing"
    assert wanted["spec"]["d"] == {"name": "a"} | ({"generateName": generated} if generated else {})
    assert by.bodies("Thing", "v1", "v2")("a", "u-1", body_of(given)) == body_of(wanted)


def test_rules_in_more_lists_than_can_be_written_out_go_there_and_back() -> None:
    deep, schema = "spec.l" + "[*]" * 20, {"type": "object", "properties": {"a": INT}}
    other: Schema = {"type": "object", "properties": {"b": INT}}
    for _ in range(20):
        schema, other = {"type": "array", "items": schema}, {"type": "array", "items": other}
    by = plan([link({"rename": {"path": f"{deep}.a", "to": "b"}})], v1=obj(l=schema), v2=obj(l=other))
    assert by.converts_back("v1", "v2")
    value: Json = {"a": 1}
    for _ in range(20):
        value = [value]
    became, kept = there_and_back(by, {"l": value})
    assert '"b":1' in encode_canonical(became)
    assert not kept


def test_a_remainder_has_a_bound() -> None:
    by = plan([link(loss="Keep")], v1=obj(a=TEXT), v2=obj())
    with pytest.raises(ConversionError, match="longer than 131072 characters"):
        by.convert(thing("v1", {"a": "x" * 140_000}), "g/v2")


def test_the_elements_of_an_object_have_one_allowance() -> None:
    costly = "self.n > 0 && [1, 2, 3, 4, 5, 6, 7, 8, 9].all(x, [1, 2, 3, 4, 5, 6, 7, 8, 9].all(y, x * y > 0))"
    by = plan(
        [link({"set": {"path": "spec.l[*].b", "cel": costly}}, loss="Keep")],
        v1=obj(l=list_of(obj(n=INT))),
        v2=obj(l=list_of(obj(n=INT, b={"type": "boolean"}))),
    )
    assert by.convert(thing("v1", {"l": [{"n": 1}]}), "g/v2")["spec"] == {"l": [{"n": 1, "b": True}]}
    with pytest.raises(ConversionError, match="costs more than an expression may"):
        by.convert(thing("v1", {"l": [{"n": 1}] * 4000}), "g/v2")


A, B = obj(a=INT), obj(b=INT)


@pytest.mark.parametrize(
    ("links", "specs", "field", "says"),
    [
        pytest.param([link()], {"v1": A, "v2": B}, "[0].loss", "spec.a of v1 is not in v2", id="lossy"),
        pytest.param([link({"drop": "spec.a"})], {"v1": A, "v2": obj()}, "[0].loss", "spec.a is dropped", id="drop"),
        pytest.param(
            [link({"map": {"path": "spec.a", "values": {"x": "z", "y": "z"}}})],
            {"v1": obj(a=TEXT), "v2": obj(a=TEXT)},
            "[0].loss",
            "both become",
            id="merging-values",
        ),
        pytest.param(
            [link({"map": {"path": "spec.a", "values": {"x": "z"}}})],
            {"v1": obj(a=TEXT), "v2": obj(a=TEXT)},
            "[0].loss",
            "may have been there",
            id="value-that-may-be-there",
        ),
        pytest.param(
            [link()], {"v1": obj(a=INT), "v2": obj(a=TEXT)}, "[0].rules", "must be of type string", id="types"
        ),
        pytest.param(
            [link({"move": {"from": "spec.x", "to": "spec.b"}})],
            {"v1": A, "v2": B},
            "[0].rules[0].move",
            "no field spec.x",
            id="no-such-field",
        ),
        pytest.param(
            [link({"move": {"from": "spec.a", "to": "spec.b"}})],
            {"v1": obj(a=INT, b=INT), "v2": B},
            "[0].rules[0].move",
            "a field spec.b already",
            id="over-another",
        ),
        pytest.param(
            [link({"move": {"from": "spec.l[*].a", "to": "spec.a"}})],
            {"v1": A, "v2": A},
            "[0].rules[0].move.to",
            "may not leave the element",
            id="out-of-a-list",
        ),
        pytest.param(
            [link({"set": {"path": "spec.b", "cel": "self.spec.x"}})],
            {"v1": A, "v2": B},
            "[0].rules[0].set",
            "undefined field 'x'",
            id="expression",
        ),
        pytest.param(
            [link({"set": {"path": "spec.b", "cel": "string(self.spec.a)"}}, loss="Keep")],
            {"v1": A, "v2": B},
            "[0].rules",
            "of type string",
            id="expression-type",
        ),
        pytest.param(
            [link({"default": {"path": "spec.b", "value": "x"}}, loss="Keep")],
            {"v1": A, "v2": B},
            "[0].rules[0].default",
            "not string",
            id="default-type",
        ),
        pytest.param(
            [link({"set": {"path": "spec.l[*].b", "cel": "self.x"}})],
            {"v1": obj(l=list_of(A)), "v2": obj(l=list_of(obj(a=INT, b=INT)))},
            "[0].rules[0].set",
            "undefined field 'x'",
            id="expression-on-elements",
        ),
        pytest.param(
            [link({"rename": {"path": "spec.l", "to": "k"}}, {"set": {"path": "spec.k[*].b", "cel": "self.a"}})],
            {"v1": obj(l=list_of(A)), "v2": obj(k=list_of(obj(a=INT, b=INT)))},
            "[0].rules[1].set",
            "must come before",
            id="expression-after-a-move",
        ),
        pytest.param(
            [link({"default": {"path": "spec.b", "value": 11}})],
            {"v1": obj(), "v2": obj(b=INT | {"maximum": 10})},
            "[0].rules[0].default",
            "less than or equal to 10",
            id="default-out-of-bounds",
        ),
        pytest.param(
            [link({"default": {"path": "spec.b", "value": "Z"}})],
            {"v1": obj(), "v2": obj(b=TEXT | {"pattern": "^[a-z]$"})},
            "[0].rules[0].default",
            "match",
            id="default-against-a-pattern",
        ),
        pytest.param(
            [
                link(
                    {"map": {"path": "spec.a", "values": {"x": "y", "y": "x"}}},
                    {"rename": {"path": "spec.a", "to": "b"}},
                )
            ],
            {"v1": obj(a=TEXT | {"enum": ["x", "y"]}), "v2": obj(b=TEXT | {"enum": ["x", "Y"]})},
            "[0].rules[0].map",
            "supported values",
            id="mapped-out-of-the-enum",
        ),
        pytest.param(
            [link(loss="Keep")],
            {"v1": A, "v2": B | {"required": ["b"]}},
            "[0].rules",
            "nothing fills it",
            id="required",
        ),
        pytest.param([link(), link(source="v2", target="v1")], {"v1": A, "v2": A}, "[1]", "cycle", id="cycle"),
        pytest.param([link()], {"v1": A, "v2": A, "v3": A}, "", "dead end", id="dead-end"),
        pytest.param([link(target="v3")], {"v1": A, "v2": A}, "[0].to", "no such version", id="no-such-version"),
        pytest.param([link(target="v1")], {"v1": A}, "[0].to", "another version", id="itself"),
        pytest.param(
            [link({"copy": {}})], {"v1": A, "v2": A}, "[0].rules[0].copy", "supported values", id="unknown-rule"
        ),
        pytest.param([link(loss="Perhaps")], {"v1": A, "v2": A}, "[0].loss", "supported values", id="unknown-loss"),
        pytest.param(
            [link({"drop": "metadata.name"})], {"v1": A, "v2": A}, "[0].rules[0].drop", "must not begin", id="metadata"
        ),
        pytest.param([link({"drop": "spec..a"})], {"v1": A, "v2": A}, "[0].rules[0].drop", "must be names", id="path"),
        pytest.param([], {"v1": A}, "", "Required", id="empty"),
    ],
)
def test_what_is_refused(links: list[Json], specs: dict[str, Schema], field: str, says: str) -> None:
    errors = validate_rules(definition(links, **specs))
    assert {e.field for e in errors} == {f"metadata.annotations[{RULES}].conversions{field}"}
    assert says in errors[0].message()


def test_rules_beside_a_webhook_are_refused() -> None:
    crd = definition([link()], v1=A, v2=A)
    crd["spec"]["conversion"] = {"strategy": "Webhook"}
    assert [e.type.value for e in validate_rules(crd)] == ["FieldValueForbidden"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "a: [",
        "conversions: {}",
        "x: 1",
        "conversions: []",
        "a: 1\na: 2",
        "x" * 200_000,
        "conversions: [null]",
    ],
)
def test_an_annotation_that_is_none_is_refused(text: str) -> None:
    crd = definition([link()], v1=A, v2=A)
    crd["metadata"]["annotations"][RULES] = text
    assert validate_rules(crd)


# -- random schemas, rules and objects
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
def test_between_random_schemas_the_remainder_keeps_what_is_lost(seed: int) -> None:
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


def _random_plan(seed: int) -> tuple[Plan, Schema, Schema]:
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
def test_random_expressions_lose_nothing_either_way(seed: int) -> None:
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


def test_where_nothing_is_pruned_nothing_is_lost() -> None:
    """Definitions of the older form may say so (preserveUnknownFields)."""
    specs = {"v1": obj(a=INT, b=INT), "v2": obj(a=INT, c=INT)}
    schemas = {name: partial(compile_schema, {**root(spec), KEEPS_ALL: True}) for name, spec in specs.items()}
    rules = [link({"set": {"path": "spec.c", "cel": "self.spec.a"}}, back=[], loss="Keep")]
    by = Plan("g", encode_canonical({"conversions": rules}), schemas)
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
