"""Conversion rules as tables: what they do, and that nothing is lost in either direction."""

from __future__ import annotations

import pytest

from registry.api.served import body_of
from registry.codec.json_encode import encode_canonical
from registry.conversion.declarative.check import validate_rules
from registry.conversion.declarative.complement import ANNOTATION
from registry.conversion.declarative.plan import ConversionPlan
from registry.conversion.errors import ConversionError
from tests.conversion.plans import INT, TEXT, Json, Schema, definition, link, list_of, obj, plan, there_and_back, thing


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


def test_changes_made_at_the_other_version_are_kept() -> None:
    by = plan([link(loss="Keep")], v1=obj(l=list_of(obj(a=INT, b=INT)), note=TEXT), v2=obj(l=list_of(obj(a=INT))))
    became = by.convert(thing("v1", {"l": [{"a": 1, "b": 2}, {"a": 3, "b": 4}], "note": "n"}), "g/v2")
    del became["spec"]["l"][0]
    assert by.convert(became, "g/v1")["spec"] == {"l": [{"a": 3, "b": 4}], "note": "n"}
    became["spec"]["l"][0]["a"] = 5
    assert by.convert(became, "g/v1")["spec"] == {"l": [{"a": 5}], "note": "n"}


def test_loss_drop_keeps_nothing() -> None:
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
def test_a_forged_complement_is_ignored(remainder: str) -> None:
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
def test_objects_without_a_proven_round_trip_are_detected(source: str, spec: Json) -> None:
    there_and_back(plan(LINKS, v1=OLD, v2=NEW), spec, source, "v2" if source == "v1" else "v1")


def test_the_end_of_metadata_is_found_exactly() -> None:
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


def _metadata_ends(by: ConversionPlan) -> None:
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


def test_rules_nested_deeper_than_generated_code_round_trip() -> None:
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


def test_the_complement_is_limited_in_size() -> None:
    by = plan([link(loss="Keep")], v1=obj(a=TEXT), v2=obj())
    with pytest.raises(ConversionError, match="longer than 131072 characters"):
        by.convert(thing("v1", {"a": "x" * 140_000}), "g/v2")


def test_all_elements_of_an_object_share_one_budget() -> None:
    costly = "self.n > 0 && [1, 2, 3, 4, 5, 6, 7, 8, 9].all(x, [1, 2, 3, 4, 5, 6, 7, 8, 9].all(y, x * y > 0))"
    by = plan(
        [link({"set": {"path": "spec.l[*].b", "cel": costly}}, loss="Keep")],
        v1=obj(l=list_of(obj(n=INT))),
        v2=obj(l=list_of(obj(n=INT, b={"type": "boolean"}))),
    )
    assert by.convert(thing("v1", {"l": [{"n": 1}]}), "g/v2")["spec"] == {"l": [{"n": 1, "b": True}]}
    with pytest.raises(ConversionError, match="costs more than an expression may"):
        by.convert(thing("v1", {"l": [{"n": 1}] * 4000}), "g/v2")
