"""Columns are appended; existing ones are neither moved nor dropped."""

from __future__ import annotations

from typing import Any

from registry.reporting.evolution import grow
from registry.reporting.fields import shape_of
from registry.schema.model import from_json
from registry.store.reporting.model import Path, Shape, shape_from_json, shape_to_json


def shape(properties: dict[str, Any], *marks: Path) -> Shape:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    return shape_of(from_json(schema), namespaced=True, marks=marks)[0]


TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
LIST = {"type": "array", "items": {"type": "object", "properties": {"a": TEXT}}}


def test_a_new_field_comes_last() -> None:
    grown = grow(shape({"b": TEXT}), shape({"a": TEXT, "b": TEXT}))
    assert [c.name for c in grown.shape.columns] == ["spec_b", "spec_a"]


def test_the_column_of_a_removed_field_is_kept() -> None:
    grown = grow(shape({"a": TEXT, "b": TEXT}), shape({"b": TEXT}))
    assert [c.name for c in grown.shape.columns] == ["spec_a", "spec_b"]


def test_a_field_with_a_new_type_gets_a_second_column_and_reuses_the_first_when_changed_back() -> None:
    old = shape({"a": TEXT})
    changed = grow(old, shape({"a": NUMBER})).shape
    assert [(c.name, c.kind.value) for c in changed.columns] == [("spec_a", "text"), ("spec_a_2", "bigint")]
    assert grow(changed, old).shape.columns == changed.columns


def test_growing_is_idempotent() -> None:
    new = shape({"a": NUMBER, "l": LIST})
    once = grow(shape({"a": TEXT}), new).shape
    assert grow(once, new).shape == once


def test_children_are_added_and_grow() -> None:
    wider = {"type": "array", "items": {"type": "object", "properties": {"a": TEXT, "b": TEXT}}}
    grown = grow(shape({"l": LIST}), shape({"k": LIST, "l": wider}))
    assert [(c.name, [x.name for x in c.columns]) for c in grown.shape.children] == [
        ("spec_l", ["a", "b"]),
        ("spec_k", ["a"]),
    ]


def test_fields_marked_sensitive_are_hidden_and_keep_their_column() -> None:
    old = shape({"a": TEXT, "b": TEXT})
    hidden = grow(old, shape({"a": TEXT, "b": TEXT}, ("spec", "a")))
    assert [(c.name, c.hidden) for c in hidden.shape.columns] == [("spec_a", True), ("spec_b", False)]
    assert hidden.may_share


def test_hidden_columns_are_not_shown_to_other_tenants() -> None:
    old = shape({"a": TEXT}, ("spec", "a"))
    shown = grow(old, shape({"a": TEXT}))
    assert [c.name for c in shown.shape.columns] == ["spec_a"]
    assert not shown.may_share


def test_hidden_columns_stay_hidden_after_the_field_is_removed() -> None:
    """The objects of the past have it still."""
    old = shape({"a": TEXT, "b": TEXT}, ("spec", "a"))
    gone = grow(old, shape({"b": TEXT}))
    assert gone.shape.redacted == (("spec", "a"),)
    assert gone.may_share
    assert grow(gone.shape, shape({"a": TEXT})).shape.redacted == ()


def test_a_tenant_widens_a_shared_view_within_a_limit_only() -> None:
    old = shape({"a": TEXT})
    assert grow(old, shape({f"f{n}": TEXT for n in range(50)})).may_share
    assert not grow(old, shape({f"f{n}": TEXT for n in range(500)})).may_share


def test_a_view_has_a_maximum_number_of_columns() -> None:
    whole = shape({"a": TEXT})
    for start in range(0, 3_000, 500):
        grown = grow(whole, shape({f"f{n}": TEXT for n in range(start, start + 500)}))
        whole = grown.shape
    assert len(whole.columns) == 1_500
    assert grown.full


def test_a_shape_is_read_as_it_was_written() -> None:
    whole = grow(shape({"a": TEXT, "l": LIST}, ("spec", "x")), shape({"a": NUMBER}, ("spec", "l"))).shape
    assert shape_from_json(shape_to_json(whole)) == whole
