"""What a schema compiles to."""

from __future__ import annotations

from typing import Any

import pytest

from registry.apply.types import SCHEMA_DEPTH, UNTYPED, UNTYPED_DEPTH, WHOLE, Items, Scalar, compile_type
from registry.schema.model import from_json
from tests.apply.schemas import spec_type, type_of


@pytest.mark.parametrize(
    "schema, scalar, is_map, is_list",
    [
        pytest.param({"type": "string"}, Scalar.STRING, False, False, id="text"),
        pytest.param({"type": "string", "format": "byte"}, Scalar.STRING, False, False, id="bytes"),
        pytest.param({"type": "string", "format": "date-time"}, Scalar.ANY, False, False, id="text with a format"),
        pytest.param({"type": "integer"}, Scalar.NUMERIC, False, False, id="integer"),
        pytest.param({"type": "number"}, Scalar.NUMERIC, False, False, id="number"),
        pytest.param({"type": "boolean"}, Scalar.BOOLEAN, False, False, id="boolean"),
        pytest.param({"type": "object"}, None, True, False, id="object"),
        pytest.param({"type": "array", "items": {"type": "string"}}, None, False, True, id="list"),
        pytest.param({"x-kubernetes-int-or-string": True}, Scalar.ANY, True, True, id="int or string"),
        pytest.param({"x-kubernetes-preserve-unknown-fields": True}, Scalar.ANY, True, True, id="anything"),
    ],
)
def test_kinds(schema: Any, scalar: Scalar | None, is_map: bool, is_list: bool) -> None:
    node = type_of({"type": "object", "properties": {"x": schema}}).fields["x"][1]
    assert (node.scalar, node.is_map, node.is_list) == (scalar, is_map, is_list)


@pytest.mark.parametrize(
    "schema, element",
    [
        pytest.param({"type": "object"}, UNTYPED, id="an object without members is open"),
        pytest.param(
            {"type": "object", "properties": {"a": {"type": "string"}}}, None, id="one with members is closed"
        ),
        pytest.param({"type": "object", "additionalProperties": True}, UNTYPED, id="additional true"),
        pytest.param({"type": "object", "additionalProperties": False}, None, id="additional false"),
        pytest.param(
            {"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-preserve-unknown-fields": True},
            UNTYPED,
            id="preserving",
        ),
    ],
)
def test_undeclared_members(schema: Any, element: Any) -> None:
    assert type_of({"type": "object", "properties": {"x": schema}}).fields["x"][1].element is element


def test_preserving_is_inherited() -> None:
    inner = {"type": "object", "properties": {"a": {"type": "string"}}}
    node = type_of(
        {
            "type": "object",
            "properties": {
                "x": {"type": "object", "properties": {"y": inner}, "x-kubernetes-preserve-unknown-fields": True}
            },
        }
    )
    assert node.fields["x"][1].fields["y"][1].element is UNTYPED


def test_lists() -> None:
    spec = spec_type()
    assert spec.fields["steps"][1].items is Items.ATOMIC
    assert spec.fields["tags"][1].items is Items.SET
    ports = spec.fields["ports"][1]
    assert ports.items is Items.KEYED
    assert ports.keys == (("port", '"port":', None), ("proto", '"proto":', '"tcp"'))
    assert ports.keys_text == '["proto" "port"]'


def test_every_object_has_metadata_and_so_has_an_embedded_one() -> None:
    root = type_of({"type": "object", "properties": {"metadata": {"type": "object"}}})
    meta = root.fields["metadata"][1]
    assert meta.fields["finalizers"][1].items is Items.SET
    assert spec_type().fields["template"][1].fields["metadata"][1] is meta


def test_types_of_recursive_schemas_are_finite() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(SCHEMA_DEPTH + 50):
        schema = {"type": "object", "properties": {"a": schema}}
    node = compile_type(from_json(schema))
    for _ in range(SCHEMA_DEPTH + 1):
        node = node.fields["a"][1]
    assert node is WHOLE
    untyped = UNTYPED
    for _ in range(UNTYPED_DEPTH):
        assert untyped.element is not None
        untyped = untyped.element
    assert untyped is WHOLE


def test_where_python_equality_is_exact() -> None:
    spec = spec_type()
    assert spec.fields["rooms"][1].exact
    assert not spec.fields["port"][1].exact
    assert not spec.exact


def test_where_old_entries_may_be_finer() -> None:
    spec = spec_type()
    assert {element for element, _ in spec.collapsing} == {"f:stamp", "f:steps", "f:template"}
