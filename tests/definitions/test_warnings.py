from __future__ import annotations

import pytest

from registry.definitions.warnings import is_recognized, warnings
from tests.definitions.crds import crd, prepared, version


def with_formats(*formats: str) -> dict[str, object]:
    schema = {"type": "object", "properties": {f"p{i}": {"type": "string", "format": f} for i, f in enumerate(formats)}}
    return prepared(crd(schema))


@pytest.mark.parametrize(
    "schema_type, text, known",
    [
        ("string", "date-time", True),
        ("", "datetime", True),
        ("string", "d-a-t-e", True),
        ("string", "Date", False),
        ("string", "int32", False),
        ("integer", "int64", True),
        ("integer", "date", False),
        ("number", "double", True),
        ("number", "int32", False),
        ("boolean", "date", False),
        ("object", "k8s-short-name", False),
        ("string", "k8s-short-name", True),
    ],
)
def test_formats(schema_type: str, text: str, known: bool) -> None:
    assert is_recognized(text, schema_type) is known


def test_each_position_gets_a_warning() -> None:
    assert sorted(warnings(with_formats("x", "date", 'y"', "x"))) == [
        'unrecognized format "x"',
        'unrecognized format "x"',
        'unrecognized format "y\\""',
    ]


def test_an_update_warns_of_new_formats_only() -> None:
    assert warnings(with_formats("x", "y"), with_formats("x")) == ['unrecognized format "y"']


def test_a_shared_schema_is_visited_once() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string", "format": "x"}}}}
    versions = [version("v1", schema), version("v2", schema, storage=False)]
    assert warnings(prepared(crd(versions=versions))) == ['unrecognized format "x"']
