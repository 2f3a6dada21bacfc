from __future__ import annotations

import pytest

from registry.definitions.versions import MAX_SELECTABLE_FIELDS, validate_selectable_fields
from tests.definitions.crds import crd, errors_of, messages, version

SCHEMA = {
    "type": "object",
    "properties": {
        "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
        "spec": {
            "type": "object",
            "properties": {"n": {"type": "number"}, **{f"f{i}": {"type": "string"} for i in range(10)}},
        },
        "labels": {"type": "object", "additionalProperties": {"type": "boolean"}},
    },
}
TYPE = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
)


@pytest.mark.parametrize(
    "paths, errors",
    [
        pytest.param([".spec.f1", ".labels.x"], [], id="good"),
        pytest.param([""], ["f[0].jsonPath: Required value"], id="empty"),
        pytest.param(
            [".spec.x"],
            ['f[0].jsonPath: Invalid value: ".spec.x": is an invalid path: does not refer to a valid field'],
            id="absent",
        ),
        pytest.param(
            [".spec['f1']"],
            ["f[0].jsonPath: Invalid value: \".spec['f1']\": is an invalid path: array notation is not allowed"],
            id="brackets",
        ),
        pytest.param(
            [".spec.n", ".spec"],
            [f'f[{i}].jsonPath: Invalid value: "{p}": {TYPE}' for i, p in enumerate((".spec.n", ".spec"))],
            id="type",
        ),
        pytest.param(
            [".metadata.name"],
            ['f[0].jsonPath: Invalid value: ".metadata.name": must not point to fields in metadata'],
            id="metadata",
        ),
        pytest.param([".spec.f1", ".spec.f1"], ['f[1].jsonPath: Duplicate value: ".spec.f1"'], id="twice"),
        pytest.param(
            [f".spec.f{i}" for i in range(MAX_SELECTABLE_FIELDS + 1)],
            ["f: Too many: 9: must have at most 8 items"],
            id="nine",
        ),
    ],
)
def test_fields(paths: list[str], errors: list[str]) -> None:
    assert messages(validate_selectable_fields([{"jsonPath": p} for p in paths], SCHEMA, "f")) == errors


def test_fields_and_schema_must_both_be_shared_or_not() -> None:
    fields = [{"jsonPath": ".spec.f1"}]
    one = [version("v1", SCHEMA, selectableFields=fields), version("v2", SCHEMA, storage=False)]
    assert errors_of(crd(versions=one)) == [
        'spec.versions[0].selectableFields: Invalid value: "": may only be set when `version.schema.openAPIV3Schema` '
        "is not "
        "included"
    ]
    both = [
        version("v1", SCHEMA, selectableFields=fields),
        version("v2", SCHEMA | {"title": "x"}, storage=False, selectableFields=fields),
    ]
    assert errors_of(crd(versions=both)) == [
        'spec.selectableFields: Invalid value: "": may only be set when validations.schema is included'
    ]


def test_a_schema_that_cannot_be_converted() -> None:
    schema = {"type": "object", "$schema": "x", "properties": {"a": {"type": "string"}}}
    errors = errors_of(crd(versions=[version(schema=schema, selectableFields=[{"jsonPath": ".a"}])]))
    assert errors == [
        "spec.validation.openAPIV3Schema: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported",
        "spec.schema.openAPIV3Schema: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported",
    ]
