"""From a schema to columns and child views."""

from __future__ import annotations

from typing import Any

import pytest

from registry.reporting import fields
from registry.reporting.fields import shape_of
from registry.schema.model import from_json
from registry.store.reporting.model import Path, Shape


def shape(properties: dict[str, Any], *marks: Path) -> Shape:
    return shape_of(from_json({"type": "object", "properties": properties}), namespaced=True, marks=marks)[0]


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


KINDS: list[tuple[str, dict[str, Any], str]] = [
    ("string", {"type": "string"}, "text"),
    ("integer", {"type": "integer", "format": "int32"}, "bigint"),
    ("number", {"type": "number"}, "double precision"),
    ("boolean", {"type": "boolean"}, "boolean"),
    ("time", {"type": "string", "format": "date-time"}, "timestamptz"),
    ("date", {"type": "string", "format": "date"}, "date"),
    ("int or string", {"x-kubernetes-int-or-string": True}, "text"),
    ("map", {"type": "object", "additionalProperties": {"type": "string"}}, "jsonb"),
    ("free", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}, "jsonb"),
    ("strings", {"type": "array", "items": {"type": "string"}}, "jsonb"),
    ("anything", {"x-kubernetes-preserve-unknown-fields": True}, "jsonb"),
]


@pytest.mark.parametrize("schema, kind", [case[1:] for case in KINDS], ids=[case[0] for case in KINDS])
def test_types(schema: dict[str, Any], kind: str) -> None:
    assert [(c.name, c.kind.value) for c in shape({"spec": of(a=schema)}).columns] == [("spec_a", kind)]


def test_spec_comes_first_and_status_last() -> None:
    text = {"type": "string"}
    found = shape({"status": of(b=text), "data": of(c=text), "spec": of(z=text, a=text), "kind": text})
    assert [c.name for c in found.columns] == ["spec_z", "spec_a", "data_c", "status_b"]


def test_arrays_of_objects_are_child_views_two_levels_down() -> None:
    deepest = {"type": "array", "items": of(x={"type": "string"})}
    deeper = {"type": "array", "items": of(port={"type": "integer"}, deepest=deepest)}
    found = shape({"spec": of(list={"type": "array", "items": of(name={"type": "string"}, ports=deeper)})})
    assert not found.columns
    assert [(c.name, c.path, [x.name for x in c.columns]) for c in found.children] == [
        ("spec_list", (("spec", "list"),), ["name_field"]),
        ("spec_list_ports", (("spec", "list"), ("ports",)), ["port", "deepest"]),
    ]


def test_conditions_have_a_name_of_their_own() -> None:
    items = of(type={"type": "string"}, status={"type": "string"})
    found = shape({"status": of(conditions={"type": "array", "items": items})})
    assert found.has_ready
    assert [c.name for c in found.children] == ["conditions"]


def test_every_leaf_of_a_wide_schema_has_a_column() -> None:
    """What there is no child view for is a column of the view that it stands in."""
    array = {"type": "array", "items": of(x={"type": "string"})}
    found = shape({"spec": of(**{f"a{n}": array for n in range(fields.MAX_CHILDREN + 5)})})
    assert len(found.children) == fields.MAX_CHILDREN
    assert len(found.columns) == 5


def test_a_schema_beyond_the_limit_is_cut_and_reported() -> None:
    schema = from_json(of(spec=of(**{f"f{n}": {"type": "string"} for n in range(5_000)})))
    found, left_out = shape_of(schema, namespaced=True)
    assert len(found.columns) == fields.MAX_COLUMNS
    assert left_out == ("fields beyond the first 1000",)


def test_a_deep_schema_ends_in_jsonb() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(60):
        deep = of(a=deep)
    found = shape({"spec": deep})
    assert [c.kind.value for c in found.columns] == ["jsonb"]
    assert len(found.columns[0].path) == fields.MAX_DEPTH


SECRETS: list[tuple[str, dict[str, Any], tuple[Path, ...], list[str], list[Path]]] = [
    ("format", of(a={"type": "string", "format": "password"}, b={"type": "string"}), (), ["spec_b"], [("spec", "a")]),
    ("marked", of(a={"type": "string"}, b={"type": "string"}), (("spec", "a"),), ["spec_b"], [("spec", "a")]),
    (
        "marked above",
        of(a=of(x={"type": "string"}), b={"type": "string"}),
        (("spec", "a"),),
        ["spec_b"],
        [("spec", "a")],
    ),
    (
        "inside a map",
        of(m={"type": "object", "additionalProperties": of(p={"type": "string", "format": "password"})}),
        (),
        [],
        [("spec", "m")],
    ),
    (
        "inside what is free",
        of(m={"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        (("spec", "m", "token"),),
        [],
        [("spec", "m", "token")],
    ),
]


@pytest.mark.parametrize(
    "spec, marks, columns, redacted", [case[1:] for case in SECRETS], ids=[case[0] for case in SECRETS]
)
def test_sensitive_fields_have_no_column(
    spec: dict[str, Any], marks: tuple[Path, ...], columns: list[str], redacted: list[Path]
) -> None:
    found = shape({"spec": spec}, *marks)
    assert [c.name for c in found.columns] == columns
    assert list(found.redacted) == redacted


def test_arrays_with_sensitive_fields_are_left_out_of_whole_documents() -> None:
    users = {"type": "array", "items": of(login={"type": "string"}, password={"type": "string"})}
    found = shape({"spec": of(users=users)}, ("spec", "users", "password"))
    assert [x.name for x in found.children[0].columns] == ["login"]
    assert found.redacted == (("spec", "users"),)
