"""The document stored with each object, and its indexed fields."""

from __future__ import annotations

import json
from typing import Any

import pytest

from registry.api.served import body_of
from registry.reporting.facets import Documents, documents_for, facets_of
from registry.schema.model import from_json
from registry.store.reporting.model import Facet, ReportKind

SCHEMA = from_json(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    **{f"text{n}": {"type": "string"} for n in range(5)},
                    "count": {"type": "integer"},
                    "weight": {"type": "number"},
                    "at": {"type": "string", "format": "date-time"},
                    "secret": {"type": "string", "format": "password"},
                    "any": {"x-kubernetes-int-or-string": True},
                },
            },
            "status": {
                "type": "object",
                "properties": {
                    "conditions": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
                        },
                    }
                },
            },
        },
    }
)


def document(obj: dict[str, Any], *facets: Facet, ready: bool = False) -> dict[str, Any]:
    obj = {"apiVersion": "a/v1", "kind": "K", **obj}
    found: dict[str, Any] = json.loads(Documents(facets, ready).text(obj, body_of(obj)))
    return found


OBJECTS: list[tuple[str, dict[str, Any]]] = [
    ("small", {"metadata": {"name": "a"}}),
    (
        "managed",
        {
            "metadata": {
                "name": "a",
                "managedFields": [{"manager": "m", "fieldsV1": {'k:{"name":"],"}': {}, 'v:["x"],"name":"y"': {}}}],
            },
            "spec": {"a": [1]},
        },
    ),
    (
        "fields of that name elsewhere",
        {
            "metadata": {"name": "a", "annotations": {"managedFields": '[{"a":1}],"name":"'}},
            "spec": {"managedFields": [{"name": "],"}], "name": "x"},
        },
    ),
    (
        "both",
        {
            "metadata": {
                "annotations": {"managedFields": "[x]", "x": '"managedFields":["'},
                "name": "a",
                "managedFields": [{"manager": "m"}],
            },
            "spec": {"managedFields": [1]},
        },
    ),
]


@pytest.mark.parametrize("obj", [case[1] for case in OBJECTS], ids=[case[0] for case in OBJECTS])
def test_a_document_is_the_object_without_its_managed_fields(obj: dict[str, Any]) -> None:
    found = document(obj)
    found["metadata"].pop("facets")
    metadata = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
    assert found == {**obj, "metadata": metadata}


def test_characters_that_jsonb_refuses_are_replaced() -> None:
    found = document({"metadata": {"name": "a"}, "spec": {"a": "\x00\\u0000"}})
    assert found["spec"] == {"a": "\ufffd\\u0000"}


VALUES: list[tuple[str, ReportKind, Any, Any]] = [
    ("text", ReportKind.TEXT, "red", "red"),
    ("long text", ReportKind.TEXT, "x" * 600, "x" * 500),
    ("whole number as text", ReportKind.TEXT, 5, "5"),
    ("object as text", ReportKind.TEXT, {}, None),
    ("integer", ReportKind.INTEGER, 5, 5),
    ("whole float", ReportKind.INTEGER, 5.0, 5),
    ("too large", ReportKind.INTEGER, 1 << 63, None),
    ("truth is no number", ReportKind.INTEGER, True, None),
    ("number", ReportKind.NUMBER, 1.5, 1.5),
    ("time", ReportKind.TIME, "2026-01-01T00:00:00.5Z", 1767225600.5),
    ("time with an offset", ReportKind.TIME, "2026-01-01T01:00:00+01:00", 1767225600),
    ("no time", ReportKind.TIME, "yesterday", None),
    ("absent", ReportKind.TEXT, None, None),
]


@pytest.mark.parametrize("kind, value, expected", [case[1:] for case in VALUES], ids=[case[0] for case in VALUES])
def test_values(kind: ReportKind, value: Any, expected: Any) -> None:
    found = document({"metadata": {"name": "a"}, "spec": {"x": value}}, Facet("slot", ("spec", "x"), kind))
    assert found["metadata"]["facets"].get("slot") == expected


def test_the_condition_ready_precedes_available() -> None:
    conditions = [
        {"type": "Available", "status": "True"},
        {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"},
    ]
    found = document({"metadata": {"name": "a"}, "status": {"conditions": conditions}}, ready=True)
    assert found["metadata"]["facets"] | {"layout": ""} == {
        "layout": "",
        "any": True,
        "ready": False,
        "ready_since": 1767225600,
    }


def test_the_first_declared_field_gets_the_column() -> None:
    wanted = [*(("spec", f"text{n}") for n in range(5)), ("spec", "count"), ("spec", "secret"), ("spec", "none")]
    facets, refused = facets_of(SCHEMA, wanted, ())
    assert [(f.slot, f.path[-1]) for f in facets] == [
        ("text1", "text0"),
        ("text2", "text1"),
        ("text3", "text2"),
        ("int1", "count"),
    ]
    assert refused == [("spec", "text3"), ("spec", "text4"), ("spec", "secret"), ("spec", "none")]


def test_a_layout_lists_the_indexed_fields() -> None:
    one = documents_for(SCHEMA, [("spec", "text1")], ())
    assert one.layout == documents_for(SCHEMA, [("spec", "text1")], ()).layout
    assert one.layout != documents_for(SCHEMA, [("spec", "text2")], ()).layout
    hidden = documents_for(SCHEMA, [("spec", "text1")], [("spec", "text1")])
    assert hidden.layout == documents_for(SCHEMA, [], ()).layout
