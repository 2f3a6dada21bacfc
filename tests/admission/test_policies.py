"""What policies say of an object: decisions, messages, annotations, mutations."""

from __future__ import annotations

from typing import Any

import pytest

from registry.admission.activation import EvaluationRounds, Inputs
from registry.admission.policies import MutatingPolicy, MutationFailed, ValidatingPolicy
from registry.admission.typecheck import TypedKind, type_warnings
from registry.apply.types import compile_type
from registry.schema.model import Structural, from_json

GROUP = "test.example.com"
SCHEMA = from_json(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer"},
                    "color": {"type": "string"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "opts": {"type": "object", "additionalProperties": {"type": "string"}},
                    "port": {"x-kubernetes-int-or-string": True},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        },
    }
)


def obj(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec}


def inputs(made: dict[str, Any], params: Any = None) -> Inputs:
    request = {"operation": "CREATE", "requestResource": {"group": GROUP, "version": "v1", "resource": "widgets"}}
    return Inputs(made, None, request, None, params)


def validating(**spec: Any) -> ValidatingPolicy:
    return ValidatingPolicy({"metadata": {"name": "p"}, "spec": spec})


def messages(policy: ValidatingPolicy, made: dict[str, Any], params: Any = None) -> list[tuple[str, str]]:
    return [(decision.message, decision.reason) for _, decision in policy.validate(inputs(made, params)).decisions]


@pytest.mark.parametrize(
    "spec, size, expected",
    [
        pytest.param({"validations": [{"expression": "object.spec.size < 5"}]}, 1, [], id="holds"),
        pytest.param(
            {"validations": [{"expression": " object.spec.size < 5 "}]},
            9,
            [("failed expression: object.spec.size < 5", "Invalid")],
            id="no message",
        ),
        pytest.param(
            {"validations": [{"expression": "false", "message": " big ", "reason": "Forbidden"}]},
            9,
            [("big", "Forbidden")],
            id="message and reason",
        ),
        pytest.param(
            {
                "validations": [
                    {"expression": "false", "message": "m", "messageExpression": "'size ' + string(object.spec.size)"}
                ]
            },
            9,
            [("size 9", "Invalid")],
            id="message expression",
        ),
        pytest.param(
            {"validations": [{"expression": "false", "message": "m", "messageExpression": "'a\\nb'"}]},
            9,
            [("m", "Invalid")],
            id="a message of two lines is not shown",
        ),
        pytest.param(
            {"validations": [{"expression": "false", "message": "m", "messageExpression": "' '"}]},
            9,
            [("m", "Invalid")],
            id="nor a blank one",
        ),
        pytest.param(
            {"validations": [{"expression": "false", "message": "m", "messageExpression": "string(object.gone)"}]},
            9,
            [("m", "Invalid")],
            id="nor one that fails",
        ),
        pytest.param(
            {"validations": [{"expression": "object.gone > 1"}, {"expression": "false", "message": "no"}]},
            9,
            [("expression 'object.gone > 1' resulted in error: no such key: gone", ""), ("no", "Invalid")],
            id="an error and a failure",
        ),
        pytest.param(
            {
                "failurePolicy": "Ignore",
                "validations": [{"expression": "object.gone > 1"}, {"expression": "false", "message": "no"}],
            },
            9,
            [("no", "Invalid")],
            id="an error that is ignored",
        ),
        pytest.param(
            {
                "matchConditions": [{"name": "c", "expression": "object.spec.size > 10"}],
                "validations": [{"expression": "false"}],
            },
            9,
            [],
            id="condition does not hold",
        ),
        pytest.param(
            {
                "matchConditions": [{"name": "c", "expression": "object.gone"}],
                "failurePolicy": "Ignore",
                "validations": [{"expression": "false"}],
            },
            9,
            [],
            id="condition fails and is ignored",
        ),
        pytest.param(
            {
                "matchConditions": [
                    {"name": "c", "expression": "object.gone == 1"},
                    {"name": "d", "expression": "false"},
                ],
                "validations": [{"expression": "false"}],
            },
            9,
            [],
            id="a false condition outweighs a failing one",
        ),
        pytest.param(
            {
                "matchConditions": [{"name": "c", "expression": "object.gone == 1"}],
                "validations": [{"expression": "true"}],
            },
            9,
            [("expression 'object.gone == 1' resulted in error: no such key: gone", "")],
            id="condition fails",
        ),
        pytest.param(
            {
                "variables": [
                    {"name": "v", "expression": "object.spec.size"},
                    {"name": "w", "expression": "variables.v + 1"},
                ],
                "validations": [{"expression": "variables.w < 5", "messageExpression": "string(variables.w)"}],
            },
            9,
            [("10", "Invalid")],
            id="variables",
        ),
    ],
)
def test_decisions(spec: dict[str, Any], size: int, expected: list[tuple[str, str]]) -> None:
    assert messages(validating(**spec), obj(size=size)) == expected


def test_parameters() -> None:
    policy = validating(
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        validations=[{"expression": "object.spec.size < int(params.data.max)"}],
    )
    assert messages(policy, obj(size=3), {"data": {"max": "5"}}) == []
    assert messages(policy, obj(size=8), {"data": {"max": "5"}}) != []
    assert messages(policy, obj(size=8)) == [
        ("expression 'object.spec.size < int(params.data.max)' resulted in error: no such key: data", "")
    ]
    assert str(policy.param_kind) == "/v1, Kind=ConfigMap"


def test_annotations() -> None:
    policy = validating(
        auditAnnotations=[
            {"key": "k", "valueExpression": "'size ' + string(object.spec.size)"},
            {"key": "n", "valueExpression": "null"},
            {"key": "b", "valueExpression": "string(object.gone)"},
        ]
    )
    outcome = policy.validate(inputs(obj(size=1)))
    assert outcome.annotations == (("k", "size 1"),)
    assert outcome.broken == ("expression 'string(object.gone)' resulted in error: no such key: gone",)


UNMARSHALLED = "JSONPath valueExpression evaluated to a type that could not marshal to JSON: "


def mutated(made: dict[str, Any], *expressions: str, patch: bool = False) -> Any:
    name, kind = ("jsonPatch", "JSONPatch") if patch else ("applyConfiguration", "ApplyConfiguration")
    policy = MutatingPolicy(
        {
            "metadata": {"name": "p"},
            "spec": {"mutations": [{"patchType": kind, name: {"expression": text}} for text in expressions]},
        }
    )
    for i in range(len(expressions)):
        made = policy.mutate(i, inputs(made), compile_type(SCHEMA))
    return made["spec"]


@pytest.mark.parametrize(
    "expressions, expected",
    [
        (["Object{spec: Object.spec{color: 'blue'}}"], {"size": 1, "opts": {"o": "p"}, "color": "blue"}),
        (["Object{spec: Object.spec{opts: {'k': 'v'}}}"], {"size": 1, "opts": {"o": "p", "k": "v"}}),
        (
            [
                "Object{spec: Object.spec{size: object.spec.size + 1}}",
                "Object{spec: Object.spec{size: object.spec.size * 10}}",
            ],
            {"size": 20, "opts": {"o": "p"}},
        ),
        (["Object{}"], {"size": 1, "opts": {"o": "p"}}),
        (["Object{spec: Object.spec{size: 9007199254740993}}"], {"size": 9007199254740993, "opts": {"o": "p"}}),
        (["Object{spec: Object.spec{free: optional.none()}}"], {"size": 1, "opts": {"o": "p"}, "free": None}),
        (["Object{spec: Object.spec{color: type(1)}}"], {"size": 1, "opts": {"o": "p"}, "color": "int"}),
    ],
)
def test_apply_configurations(expressions: list[str], expected: Any) -> None:
    assert mutated(obj(size=1, opts={"o": "p"}), *expressions) == expected


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("[JSONPatch{op: 'add', path: '/spec/color', value: 'blue'}]", {"size": 1, "color": "blue"}),
        (
            "[JSONPatch{op: 'test', path: '/spec/size', value: 2}, JSONPatch{op: 'remove', path: '/spec/size'}]",
            {"size": 1},
        ),
        ("has(object.spec.none) ? [JSONPatch{op: 'remove', path: '/spec/none'}] : []", {"size": 1}),
        ("[JSONPatch{op: 'add', path: '/spec', value: Object.spec{size: 7}}]", {"size": 7}),
        ("[JSONPatch{op: 'replace', path: '/spec/size', value: optional.of(3)}]", {"size": 3}),
        ("[JSONPatch{op: 'replace', path: '/spec/size', value: 9007199254740993}]", {"size": "9007199254740993"}),
    ],
)
def test_json_patches(expression: str, expected: Any) -> None:
    assert mutated(obj(size=1), expression, patch=True) == expected


@pytest.mark.parametrize(
    "expression, patch, why",
    [
        (
            "Object{spec: Object.spec{size: 'many'}}",
            False,
            "error applying patch: failed to convert patch object to typed "
            "object: .spec.size: expected numeric (int or float), got string",
        ),
        (
            "Object{spec: Object.spec{nobody: 1}}",
            False,
            "error applying patch: failed to convert patch object to typed "
            "object: .spec.nobody: field not declared in schema",
        ),
        *(
            (f"Object{{spec: {value}}}", False, f"error applying patch: failed to convert patch object to typed {why}")
            for value, why in [
                ("Object.spec{size: 5u}", "object: .spec.size: expected numeric (int or float), got uint64"),
                (
                    "Object.spec{color: b'ab'}",
                    "object: .spec.color: expected string, got &value.valueUnstructured{Value:[]uint8{0x61, 0x62}}",
                ),
                (
                    "Object.spec{color: timestamp('2020-01-01T00:00:00Z')}",
                    "object: .spec.color: expected string, got &value.valueUnstructured{Value:"
                    "time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC)}",
                ),
                ("Object.spec{opts: null}", "object: .spec.opts: expected map, got &{NULL_VALUE}"),
                (
                    "Object.spec{opts: {'a': ['b']}}",
                    'object: .spec.opts.a: expected string, got &value.valueUnstructured{Value:[]ref.Val{"b"}}',
                ),
                ("{'opts': {'a': 'b'}}", "object: .spec.opts: expected map, got &{map[a:b]}"),
                ("Object.spec{free: {'a': [1]}}", "object: .spec.free.a: expected map, got &{[1]}"),
                ("Object.spec{free: {'a': duration('1s')}}", "object: .spec.free.a: expected map, got &{1s}"),
                ("Object.spec{free: duration('1h')}", "object: .spec.free: expected map, got &{1h0m0s}"),
                ("Object.spec{free: ip('1.2.3.4')}", "object: .spec.free: expected map, got &{1.2.3.4}"),
                (
                    "Object.spec{free: google.protobuf.Timestamp{seconds: 5}}",
                    "object: .spec.free: expected map, got &{1970-01-01 00:00:05 +0000 UTC}",
                ),
                (
                    "Object.spec{free: {1: 2}}",
                    "object: .spec: expected map, got &{fail to convert field \"free\": map key '\\x01' is of type "
                    "types.Int, not string}",
                ),
                (
                    "Object.spec{free: {true: 2}}",
                    'object: .spec: expected map, got &{fail to convert field "free": map key %!q(types.Bool=true) is of '
                    "type types.Bool, not string}",
                ),
            ]
        ),
        (
            "Object{spec: Object.spec{tags: ['x']}}",
            False,
            "error applying patch: invalid ApplyConfiguration: may not "
            "mutate atomic arrays, maps or structs: .spec.tags",
        ),
        (
            "Object{spec: Object.spec{size: object.spec.none}}",
            False,
            "expression 'Object{spec: Object.spec{size: object.spec.none}}' resulted in error: no such key: none",
        ),
        (
            "[JSONPatch{op: 'remove', path: '/spec/color'}]",
            True,
            "JSON Patch: error in remove for path: '/spec/color': "
            "Unable to remove nonexistent key: color: missing value",
        ),
        ("[JSONPatch{op: 'mangle', path: '/spec/size', value: 1}]", True, "JSON Patch: Unexpected kind: mangle"),
        ("[JSONPatch{}]", True, "JSON Patch: Unexpected kind: "),
        (
            "Object{spec: Object.other{}}",
            False,
            'type mismatch: unexpected type name "Object.other", expected "Object.spec", which matches field name path '
            "from root Object type",
        ),
        *(
            (f"[JSONPatch{{op: 'add', path: '/spec/size', value: {value}}}]", True, UNMARSHALLED + why)
            for value, why in [
                ("type(1)", "type conversion not supported for 'type'"),
                ("optional.none()", "optional.none() dereference"),
                ("{1: 'x'}", "unsupported type conversion from 'int' to string"),
                ("quantity('1')", "type conversion error from 'Quantity' to '*structpb.Value'"),
                ("JSONPatch{}", "cannot convert to native type: *structpb.Value"),
                (
                    "double('NaN')",
                    "json: error calling MarshalJSON for type *structpb.Value: proto: "
                    "google.protobuf.Value.number_value: invalid NaN value",
                ),
            ]
        ),
    ],
)
def test_mutations_that_fail(expression: str, patch: bool, why: str) -> None:
    with pytest.raises(MutationFailed) as caught:
        mutated(obj(size=1), expression, patch=patch)
    assert str(caught.value) == why


def doubled(value: str, times: int) -> str:
    """An expression for a value that contains `value` 2 to the power of `times` times."""
    loops = "".join(f".map(v{i}, [v{i}, v{i}])" for i in range(times))
    return f"[{value}]{loops}"


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(doubled("1", 30), id="numbers"),
        pytest.param(doubled("{'a': 1}", 30), id="maps"),
        pytest.param(doubled("object.spec.text", 10), id="a long text"),
        pytest.param(doubled("object.spec.tags", 10), id="a long list of the object"),
        pytest.param(doubled("object.spec.opts", 10), id="a long map of the object"),
        pytest.param(doubled("bytes(object.spec.text)", 10), id="bytes"),
        pytest.param(doubled("{object.spec.text: 1}", 10), id="a long key"),
        pytest.param(doubled("Object.spec{tags: object.spec.tags}", 10), id="messages"),
    ],
)
@pytest.mark.parametrize("patch", [True, False], ids=["patch", "configuration"])
def test_values_that_are_large_only_in_json_are_refused(value: str, patch: bool) -> None:
    """An expression refers to a value many times at no cost: its JSON would take gigabytes."""
    made = obj(text="x" * 100_000, tags=["a"] * 10_000, opts={f"k{i}": "v" for i in range(10_000)})
    expression = (
        f"[JSONPatch{{op: 'add', path: '/spec/x', value: {value}}}]"
        if patch
        else f"Object{{spec: Object.spec{{x: {value}}}}}"
    )
    if not patch:
        expression = expression.replace("Object.spec{tags", "Object.spec.x{tags")
    with pytest.raises(MutationFailed, match="running out of cost budget"):
        EvaluationRounds().run(lambda: mutated(made, expression, patch=patch))


def test_many_operations_of_long_paths_are_refused() -> None:
    made = obj(text="/x" * 100_000)
    patches = "lists.range(1000).map(i, JSONPatch{op: 'remove', path: object.spec.text})"
    with pytest.raises(MutationFailed, match="running out of cost budget"):
        EvaluationRounds().run(lambda: mutated(made, patches, patch=True))


def test_the_error_of_a_long_path_is_shortened() -> None:
    with pytest.raises(MutationFailed) as failed:
        mutated(obj(text="/x" * 100_000), "[JSONPatch{op: 'remove', path: object.spec.text}]", patch=True)
    assert len(str(failed.value)) < 11_000


def kind(group: str, version: str, plural: str) -> TypedKind | None:
    known: dict[str, Structural] = {"widgets": SCHEMA}
    return TypedKind(group, version, "Widget", known[plural]) if group == GROUP and plural in known else None


@pytest.mark.parametrize(
    "expression, rule, expected",
    [
        ("object.spec.size < 5", {}, ""),
        (
            "object.spec.nope > 1",
            {},
            f"{GROUP}/v1, Kind=Widget: ERROR: <input>:1:12: undefined field 'nope'\n"
            " | object.spec.nope > 1\n | ...........^\n",
        ),
        ("object.spec.port == 1 || object.spec.port == 'a'", {}, ""),
        ("object.metadata.labels['a'] == 'b' && oldObject == null", {}, ""),
        ("object.spec.nope > 1", {"apiVersions": ["*"]}, ""),
        ("object.spec.nope > 1", {"resources": ["widgets/status", "gadgets"]}, ""),
        (
            "variables.v == 'x'",
            {},
            f"{GROUP}/v1, Kind=Widget: ERROR: <input>:1:13: found no matching overload for '_==_' "
            "applied to '(int, string)'\n | variables.v == 'x'\n | ............^\n",
        ),
    ],
)
def test_types(expression: str, rule: dict[str, Any], expected: str) -> None:
    policy = {
        "spec": {
            "matchConstraints": {
                "resourceRules": [{"apiGroups": [GROUP], "apiVersions": ["v1"], "resources": ["widgets"], **rule}]
            },
            "variables": [{"name": "v", "expression": "object.spec.size"}],
            "validations": [{"expression": expression}],
        }
    }
    warnings = [{"fieldRef": "spec.validations[0].expression", "warning": expected}] if expected else []
    assert type_warnings(policy, kind, None) == warnings
