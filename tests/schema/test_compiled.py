"""Compiled schemas: the order of a write, identity and sharing, depth."""

import copy
import json
import subprocess
import sys
from typing import Any

import pytest

from registry.codec.structs.base import StructDecodeError
from registry.schema.compiled import blocks_rules, compile_schema, unchecked_rules_error
from registry.schema.field import invalid, required
from registry.schema.values import same

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "a": {"type": "string", "default": "d"},
                "n": {"type": "integer"},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "any": {"x-kubernetes-preserve-unknown-fields": True},
                "t": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            },
        }
    },
}
HEAD = {"apiVersion": "example.com/v1", "kind": "Widget"}


def test_processing_of_a_written_object() -> None:
    obj: dict[str, Any] = {
        **HEAD,
        "metadata": {"name": "x", "labels": {}, "zz": 1},
        "z": 1,
        "spec": {"n": None, "q": {"r": 1}, "t": {"metadata": {"name": "y", "colour": 1}}, "free": {"any": None}},
    }
    unknown: list[str] = []
    compile_schema(SCHEMA).process(obj, unknown)
    assert obj == {
        **HEAD,
        "metadata": {"name": "x"},
        "spec": {"a": "d", "t": {"metadata": {"name": "y"}}, "free": {"any": None}},
    }
    assert unknown == ["metadata.zz", "spec.q", "z", "spec.t.metadata.colour"]


def test_an_object_without_changes_is_returned_as_is() -> None:
    obj = {**HEAD, "metadata": {"name": "x"}, "spec": {"a": "1", "n": 1, "set": ["a"], "free": {"x": [None]}}}
    before = copy.deepcopy(obj)
    unknown: list[str] = []
    compile_schema(SCHEMA).process(obj, unknown)
    assert same(obj, before)
    assert unknown == []


@pytest.mark.parametrize(
    "obj, text",
    [
        (
            {"metadata": {"labels": 1}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type map[string]string",
        ),
        ({"spec": {"t": {"kind": 3}}}, "spec.t.kind: Invalid value: 3: must be a string"),
    ],
)
def test_metadata_that_cannot_be_decoded_is_an_error(obj: dict[str, Any], text: str) -> None:
    with pytest.raises(StructDecodeError) as caught:
        compile_schema(SCHEMA).process({**HEAD, **obj}, [])
    assert str(caught.value) == text


def test_a_stored_object_is_pruned_and_defaulted() -> None:
    obj: dict[str, Any] = {**HEAD, "metadata": {"name": "x", "strange": 1}, "spec": {"old": 1}}
    compile_schema(SCHEMA).prune_and_default(obj)
    assert obj == {**HEAD, "metadata": {"name": "x", "strange": 1}, "spec": {"a": "d"}}


def test_errors_are_in_the_order_of_kube_apiserver() -> None:
    obj = {**HEAD, "spec": {"a": 1, "t": {"kind": "K"}, "set": ["x", "x"]}}
    scale = invalid(".spec.replicas", -1, "should be a non-negative integer")
    assert [error.field for error in compile_schema(SCHEMA).validate(obj, scale_errors=[scale])] == [
        "spec.a",
        ".spec.replicas",
        "spec.t.apiVersion",
        "spec.set[1]",
    ]


def test_equal_schemas_share_one_compiled_schema() -> None:
    compiled = compile_schema(SCHEMA)
    assert compile_schema(json.loads(json.dumps(SCHEMA, sort_keys=True))) is compiled
    other = compile_schema({**SCHEMA, "description": "another"})
    assert other is not compiled
    assert other.identity != compiled.identity
    assert 0 <= compiled.identity < 1 << 63


def test_the_schema_identity_is_the_same_in_every_process() -> None:
    code = (
        "import json, sys; from registry.schema.compiled import compile_schema; "
        "print(compile_schema(json.load(sys.stdin)).identity)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(SCHEMA), capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == compile_schema(SCHEMA).identity


def nested(depth: int, kind: type) -> Any:
    value: Any = {} if kind is dict else []
    for _ in range(depth):
        value = {"a": value} if kind is dict else [value]
    return value


@pytest.mark.parametrize("kind", [dict, list])
@pytest.mark.parametrize("where", ["free", "any", "a", "n", "set", "t"])
def test_deep_values_do_not_exhaust_the_stack(kind: type, where: str) -> None:
    """An object may be 10,000 deep, where the schema describes it and where it does not."""
    compiled = compile_schema(SCHEMA)
    deep = nested(9_990, kind)
    obj: dict[str, Any] = {**HEAD, "metadata": {"name": "x"}, "spec": {where: deep}}
    old = {**HEAD, "spec": {where: nested(9_990, kind)}}
    compiled.process(obj, [])
    for error in (*compiled.validate(obj), *compiled.validate_update(obj, old)):
        error.message()


def test_a_deep_schema() -> None:
    """A definition's JSON is at most 200 deep, so its schema is less."""
    schema: dict[str, Any] = {"type": "string", "maxLength": 1, "default": "d"}
    value: Any = "long"
    for _ in range(190):
        schema = {"type": "array", "items": schema}
        value = [value]
    compiled = compile_schema({"type": "object", "properties": {"a": schema}})
    obj = {"a": value}
    compiled.process(obj, [])
    [error] = compiled.validate(obj)
    assert error.message() == f"a{'[0]' * 190}: Too long: may not be more than 1 byte"
    assert compiled.validate_update(obj, copy.deepcopy({"a": value})) == []


def test_rules_are_skipped_for_structurally_invalid_values() -> None:
    assert blocks_rules([invalid("a", 1, "b"), required("c")])
    assert not blocks_rules([invalid("a", 1, "b")])
    assert unchecked_rules_error().message() == (
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct "
        "the existing errors to complete validation"
    )
