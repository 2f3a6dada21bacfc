"""Conversion rules that are refused, and the messages."""

from __future__ import annotations

import pytest

from registry.conversion.declarative.check import validate_rules
from registry.definitions.conversion import RULES
from tests.conversion.plans import INT, TEXT, Json, Schema, definition, link, list_of, obj

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
def test_invalid_rules(links: list[Json], specs: dict[str, Schema], field: str, says: str) -> None:
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
def test_an_invalid_annotation_is_refused(text: str) -> None:
    crd = definition([link()], v1=A, v2=A)
    crd["metadata"]["annotations"][RULES] = text
    assert validate_rules(crd)
