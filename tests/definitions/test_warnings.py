from __future__ import annotations

import pytest

from registry.definitions.compiled import compile_definition
from registry.definitions.warnings import deprecation_warning, is_recognized, warnings
from tests.definitions.crds import crd, established, prepared, version


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


@pytest.mark.parametrize(
    "schema, unrecognized",
    [
        pytest.param({"type": "string", "format": "date-time"}, 0, id="recognized"),
        pytest.param({"type": "integer", "format": "date-time"}, 1, id="another type"),
        pytest.param({"type": "string", "format": "int64"}, 1, id="a number's"),
        pytest.param({"type": "string", "format": "date-time", "maxLength": 3}, 0, id="a field in between"),
        pytest.param({"type": "object", "properties": {"format": {"type": "string"}}}, 0, id="a field of this name"),
        pytest.param({"type": "object", "default": {"format": "x"}}, 0, id="in a default"),
        pytest.param(
            {"type": "string", "format": "x", "default": {"format": "date", "type": "string"}}, 1, id="beside a default"
        ),
        pytest.param({"type": "string", "format": "x", "description": '"format":"date"'}, 1, id="in a text"),
        pytest.param({"type": "string", "format": "x", "default": 2**64}, 1, id="not JSON of orjson's"),
    ],
)
def test_formats_are_looked_at_only_where_a_text_has_some(schema: dict[str, object], unrecognized: int) -> None:
    assert len(warnings(crd({"type": "object", "properties": {"a": schema}}))) == unrecognized


def test_an_update_warns_of_new_formats_only() -> None:
    assert warnings(with_formats("x", "y"), with_formats("x")) == ['unrecognized format "y"']


def test_a_shared_schema_is_visited_once() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string", "format": "x"}}}}
    versions = [version("v1", schema), version("v2", schema, storage=False)]
    assert warnings(prepared(crd(versions=versions))) == ['unrecognized format "x"']


@pytest.mark.parametrize(
    ("deprecated", "others", "better"),
    [
        pytest.param("v1beta1", ["v1alpha1", "v1", "v2"], "v2", id="newest"),
        pytest.param("v1", ["v2beta1"], "", id="less stable"),
        pytest.param("v1alpha2", ["v1alpha1", "v1alpha10"], "v1alpha10", id="by number"),
        pytest.param("foo", ["v1alpha1"], "v1alpha1", id="any other name"),
        pytest.param("b1", ["c1", "a1"], "a1", id="by text"),
        pytest.param("a1", ["b1"], "", id="first by text"),
        pytest.param("v1", ["v01"], "", id="equal"),
        pytest.param("v0", ["v01"], "v01", id="zero"),
    ],
)
def test_a_deprecated_version_is_replaced_by_the_first_one_by_priority(
    deprecated: str, others: list[str], better: str
) -> None:
    schema = {"type": "object"}
    versions = [version(deprecated, schema, storage=False, deprecated=True)]
    versions += [version(name, schema, storage=i == 0) for i, name in enumerate(others)]
    found = compile_definition(established(crd(versions=versions)))
    group, kind = found.group, found.names.kind
    end = f"; use {group}/{better} {kind}" if better else ""
    assert deprecation_warning(found, found.versions[deprecated]) == f"{group}/{deprecated} {kind} is deprecated{end}"
