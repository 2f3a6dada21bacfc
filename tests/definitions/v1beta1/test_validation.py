"""What is refused at v1beta1, and what is accepted there and not at v1."""

from __future__ import annotations

from typing import Any

import pytest

from registry.definitions import validation
from registry.definitions.v1beta1.conversion import stored_form
from tests.definitions.crds import messages
from tests.definitions.v1beta1.crds import (
    COLUMN,
    OTHER_SCHEMA,
    SCHEMA,
    beta,
    errors_of,
    stored,
    update_errors_of,
    version,
)

# Nothing has a type.
LOOSE: dict[str, Any] = {"properties": {"spec": {"properties": {"size": {"minimum": 1}}}}}
LIST: dict[str, Any] = {
    "type": "object",
    "properties": {"l": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}},
}


def schema(json: dict[str, Any]) -> dict[str, Any]:
    return {"validation": {"openAPIV3Schema": json}}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="no schema"),
        pytest.param(schema(LOOSE), id="not structural"),
        pytest.param(schema({"type": "object", "properties": {"a": {"type": "anything"}}}), id="unknown type"),
        pytest.param(schema(SCHEMA) | {"preserveUnknownFields": False}, id="pruned"),
        pytest.param(
            {
                "version": "v1",
                "versions": [version("v1", storage=True, schema={"openAPIV3Schema": SCHEMA}), version("v2")],
            },
            id="a schema for one",
        ),
        pytest.param(
            {
                "version": "v1",
                "preserveUnknownFields": False,
                "versions": [
                    version("v1", storage=True, schema={"openAPIV3Schema": SCHEMA}),
                    version("v2") | {"served": False},
                ],
            },
            id="pruned without the schema of what is not served",
        ),
        pytest.param({"group": "x.k8s.io", "metadata": {"name": "widgets.x.k8s.io"}}, id="a protected group"),
    ],
)
def test_valid(spec: dict[str, Any]) -> None:
    metadata = spec.pop("metadata", None)
    assert errors_of(beta(metadata=metadata, **spec)) == []


@pytest.mark.parametrize(
    "spec, errors",
    [
        pytest.param(
            schema(LOOSE) | {"preserveUnknownFields": False},
            [
                "spec.validation.openAPIV3Schema.properties[spec].properties[size].type: Required value: must not be empty for "
                "specified object fields",
                "spec.validation.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object "
                "fields",
                "spec.validation.openAPIV3Schema.type: Required value: must not be empty at the root",
            ],
            id="pruned",
        ),
        pytest.param(
            {"preserveUnknownFields": False},
            ["spec.versions[0].schema.openAPIV3Schema: Required value: because otherwise all fields are pruned"],
            id="pruned without a schema",
        ),
        pytest.param(
            schema({**LIST, "properties": {**LIST["properties"], "spec": {}}}),
            [
                "spec.validation.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object "
                "fields"
            ],
            id="an extension asks for a structural schema",
        ),
        pytest.param(
            schema({"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}),
            [
                "spec.validation.openAPIV3Schema.properties[a].default: Forbidden: must not be set (cannot set default values "
                "in apiextensions.k8s.io/v1beta1 CRDs, must use apiextensions.k8s.io/v1)"
            ],
            id="default",
        ),
        pytest.param(
            schema({"$ref": "x"}),
            ["spec.validation.openAPIV3Schema.$ref: Forbidden: $ref is not supported"],
            id="keyword",
        ),
        pytest.param(
            schema({"pattern": "("}),
            [
                'spec.validation.openAPIV3Schema.pattern: Invalid value: "(": must be a valid regular expression, but isn\'t: '
                "error parsing regexp: missing closing ): `(`"
            ],
            id="pattern",
        ),
        pytest.param(
            {"version": "v2", "versions": [version("v1", storage=True)]},
            ['spec.version: Invalid value: "v2": must match the first version in spec.versions'],
            id="version",
        ),
        pytest.param(
            {
                **schema(SCHEMA),
                "versions": [version("v1", storage=True, schema={"openAPIV3Schema": SCHEMA}), version("v2")],
            },
            ["spec.validation: Forbidden: top-level and per-version schemas are mutually exclusive"],
            id="both schemas",
        ),
        pytest.param(
            {
                "subresources": {},
                "additionalPrinterColumns": [COLUMN],
                "versions": [
                    version("v1", storage=True, subresources={"status": {}}, additionalPrinterColumns=[COLUMN]),
                    version("v2"),
                ],
            },
            [
                "spec.subresources: Forbidden: top-level and per-version subresources are mutually exclusive",
                "spec.additionalPrinterColumns: Forbidden: top-level and per-version additionalPrinterColumns are mutually "
                "exclusive",
            ],
            id="both",
        ),
        pytest.param(
            {"conversion": {"strategy": "Webhook", "webhookClientConfig": {"url": "https://h.example.com"}}},
            ['spec.conversion.strategy: Invalid value: "Webhook": must be None if spec.preserveUnknownFields is true'],
            id="webhook with unknown fields",
        ),
        pytest.param(
            {"version": None},
            [
                "spec.versions: Invalid value: null: must have exactly one version marked as storage version",
                "status.storedVersions: Invalid value: null: must have at least one stored version",
            ],
            id="no version",
        ),
    ],
)
def test_refused(spec: dict[str, Any], errors: list[str]) -> None:
    assert errors_of(beta(**spec)) == errors


@pytest.mark.parametrize(
    "part, said",
    [
        (
            {"schema": {"openAPIV3Schema": SCHEMA}},
            "per-version schemas may not all be set to identical values (top-level validation should be used instead)",
        ),
        (
            {"subresources": {"status": {}}},
            "per-version subresources may not all be set to identical values (top-level subresources should be used instead)",
        ),
        (
            {"additionalPrinterColumns": [COLUMN]},
            "per-version additionalPrinterColumns may not all be set to identical values (top-level additionalPrinterColumns "
            "should be used instead)",
        ),
    ],
)
@pytest.mark.parametrize("versions", [1, 2])
def test_errors_of_shared_parts_are_reported_once(part: dict[str, Any], said: str, versions: int) -> None:
    [error] = errors_of(beta(versions=[version(f"v{i}", storage=i == 1, **part) for i in range(1, versions + 1)]))
    assert error.startswith("spec.versions: Invalid value: [{")
    assert error.endswith(said)
    different = [version("v1", storage=True, **part), version("v2")]
    assert errors_of(beta(versions=different)) == []


# -- updates: what was accepted once is accepted again


def v1_update_errors(new: dict[str, Any], old: dict[str, Any]) -> list[str]:
    """Of an update at v1 of what was made at v1beta1."""
    made, before = stored_form(stored(new)), stored_form(stored(old))
    for one in (made, before):
        one["metadata"] |= {"uid": "u-1", "resourceVersion": "7", "creationTimestamp": "2024-01-01T00:00:00Z"}
    return messages(validation.validate_update(made, before))


def test_an_update_through_v1_may_keep_existing_errors() -> None:
    old = beta(**schema(LOOSE))
    changed = beta(**schema({**LOOSE, "description": "x"}))
    assert v1_update_errors(changed, old) == []
    assert v1_update_errors(beta(), old) == ["spec.versions[0].schema.openAPIV3Schema: Required value"]
    assert v1_update_errors(beta(), beta()) == []


def test_an_update_through_v1_may_not_break_a_valid_definition() -> None:
    old = beta(**schema(SCHEMA), preserveUnknownFields=False)
    assert v1_update_errors(beta(**schema(SCHEMA)), old) == [
        "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields "
        "to true in spec.versions[*].schema instead"
    ]
    assert v1_update_errors(beta(**schema(OTHER_SCHEMA), preserveUnknownFields=False), old) == []
    structural = beta(**schema(SCHEMA))
    assert [e.partition(": ")[0] for e in v1_update_errors(beta(**schema(LOOSE)), structural)] == [
        f"spec.validation.openAPIV3Schema{path}.type"
        for path in (".properties[spec].properties[size]", ".properties[spec]", "")
    ]


def test_existing_defaults_may_remain() -> None:
    with_default = {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}
    old = beta(**schema(with_default), preserveUnknownFields=False)
    assert update_errors_of(beta(**schema(with_default | {"description": "y"}), preserveUnknownFields=False), old) == []
    assert update_errors_of(beta(**schema(with_default)), old) == [
        "spec.preserveUnknownFields: Invalid value: true: must be false in order to use defaults in the schema"
    ]
