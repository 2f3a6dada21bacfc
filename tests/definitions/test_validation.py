"""The order of errors, and what is validated once for all versions. Single rules are in the tests of their modules."""

from __future__ import annotations

from typing import Any

import pytest

from registry.definitions.strategy import prepare_for_status_update, prepare_for_update
from registry.definitions.validation import MAX_VERSIONS, validate_status_update, validate_update
from tests.definitions.crds import GROUP, crd, errors_of, established, messages, prepared, version

DNS_1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation "
    "is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
BAD = {"type": "object", "properties": {"a": {}}}
NO_TYPE = "Required value: must not be empty for specified object fields"


def test_a_valid_definition() -> None:
    assert errors_of(crd()) == []


def test_an_empty_definition() -> None:
    assert errors_of({}) == [
        "metadata.name: Required value: name or generateName is required",
        "spec.group: Required value",
        "spec.scope: Required value",
        "spec.versions: Invalid value: null: must have exactly one version marked as storage version",
        "spec.names.plural: Required value",
        "spec.names.singular: Required value",
        "spec.names.kind: Required value",
        "spec.names.listKind: Required value",
        "status.storedVersions: Invalid value: null: must have at least one stored version",
    ]


def test_all_errors_are_in_the_order_of_kube_apiserver() -> None:
    body = crd(
        BAD,
        metadata={"name": "x", "labels": {"a": "b c"}},
        scope="x",
        names={"plural": "widgets", "singular": "S", "kind": "Widget"},
        conversion={"strategy": "y"},
        versions=[
            version(
                "V",
                BAD,
                deprecationWarning="w",
                additionalPrinterColumns=[{}],
                subresources={"scale": {}},
                selectableFields=[{}],
            )
        ],
    )
    fields = [error.partition(": ")[0] for error in errors_of(body)]
    assert fields == [
        "metadata.name",
        "metadata.labels",
        "spec.scope",
        "spec.versions[0].name",
        "spec.versions[0].deprecationWarning",
        "spec.version",
        "spec.names.singular",
        "spec.validation.openAPIV3Schema.properties[a].type",
        "spec.subresources.scale.specReplicasPath",
        "spec.subresources.scale.statusReplicasPath",
        "spec.additionalPrinterColumns[0].name",
        "spec.additionalPrinterColumns[0].type",
        "spec.additionalPrinterColumns[0].JSONPath",
        "spec.selectableFields[0].jsonPath",
        "spec.conversion.strategy",
    ]


@pytest.mark.parametrize(
    "second, fields",
    [
        pytest.param(
            {},
            ["spec.validation.openAPIV3Schema.properties[a].type", "spec.additionalPrinterColumns[0].name"],
            id="all shared",
        ),
        pytest.param(
            {"schema": {"openAPIV3Schema": {"type": "object"}}},
            ["spec.versions[0].schema.openAPIV3Schema.properties[a].type", "spec.additionalPrinterColumns[0].name"],
            id="another schema",
        ),
        pytest.param(
            {"additionalPrinterColumns": []},
            ["spec.versions[0].additionalPrinterColumns[0].name", "spec.validation.openAPIV3Schema.properties[a].type"],
            id="other columns",
        ),
    ],
)
def test_shared_parts_come_after_the_versions(second: dict[str, Any], fields: list[str]) -> None:
    columns = [{"type": "string", "jsonPath": ".a"}]
    first = version("v1", BAD, additionalPrinterColumns=columns)
    other = version("v2", BAD, storage=False, additionalPrinterColumns=columns) | second
    assert [e.partition(": ")[0] for e in errors_of(crd(versions=[first, other]))] == fields


@pytest.mark.parametrize(
    "schema",
    [pytest.param({"type": "object", "enum": []}, id="empty list"), pytest.param({"type": "object"}, id="without")],
)
def test_an_empty_list_makes_no_difference_between_versions(schema: dict[str, Any]) -> None:
    versions = [
        version("v1", {"type": "object", "properties": {"a": {}}}),
        version("v2", {**schema, "properties": {"a": {}}}, storage=False),
    ]
    assert errors_of(crd(versions=versions)) == [f"spec.validation.openAPIV3Schema.properties[a].type: {NO_TYPE}"]


def test_a_schema_is_required_of_every_version() -> None:
    versions = [version("v1"), version("v2", storage=False, served=False) | {"schema": None}]
    assert errors_of(crd(versions=versions)) == ["spec.versions[1].schema.openAPIV3Schema: Required value"]


def test_versions_are_bounded() -> None:
    versions = [version(f"v{i}", storage=i == 0) for i in range(MAX_VERSIONS + 1)]
    assert errors_of(crd(versions=versions))[0] == (
        f"spec.versions: Invalid value: {MAX_VERSIONS + 1}: must not be more than {MAX_VERSIONS}"
    )


@pytest.mark.parametrize(
    "schema, errors",
    [
        pytest.param({"type": "object"}, [], id="without defaults"),
        pytest.param(
            {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}},
            ["spec.preserveUnknownFields: Invalid value: true: must be false in order to use defaults in the schema"],
            id="with defaults",
        ),
    ],
)
def test_preserve_unknown_fields(schema: dict[str, Any], errors: list[str]) -> None:
    assert errors_of(crd(schema, preserveUnknownFields=True)) == [
        *errors,
        "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set "
        "x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
    ]


def update(old: dict[str, Any], **spec: Any) -> list[str]:
    new = prepared(crd(**spec))
    new["metadata"] = {**old["metadata"], **new["metadata"]}
    return messages(validate_update(prepare_for_update(new, old), old))


@pytest.mark.parametrize(
    "change, errors",
    [
        pytest.param({}, [], id="nothing"),
        pytest.param({"scope": "Cluster"}, ['spec.scope: Invalid value: "Cluster": field is immutable'], id="scope"),
        pytest.param(
            {"names": {"plural": "widgets", "kind": "Gadget"}},
            ['spec.names.kind: Invalid value: "Gadget": field is immutable'],
            id="kind",
        ),
        pytest.param(
            {"group": "o.example.com"}, ['spec.group: Invalid value: "o.example.com": field is immutable'], id="group"
        ),
        pytest.param(
            {"names": {"plural": "gadgets", "kind": "Widget"}},
            ['spec.names.plural: Invalid value: "gadgets": field is immutable'],
            id="plural",
        ),
        pytest.param(
            {"versions": [version("v2")]},
            [
                'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a '
                "storage "
                "version, and must remain in spec.versions until a storage migration ensures no data remains "
                "persisted "
                "in v1 and removes v1 from status.storedVersions"
            ],
            id="stored version removed",
        ),
    ],
)
def test_update_of_an_established_definition(change: dict[str, Any], errors: list[str]) -> None:
    assert update(established(crd()), **change) == errors


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"scope": "Cluster"}, id="scope"),
        pytest.param({"names": {"plural": "widgets", "kind": "Gadget"}}, id="kind"),
    ],
)
def test_names_may_change_before_the_definition_is_established(change: dict[str, Any]) -> None:
    assert update(established(crd(), conditions=[]), **change) == []


@pytest.mark.parametrize(
    "old_bundle, is_established, refused",
    [
        pytest.param(None, True, True, id="new and bad"),
        pytest.param("QUJE", True, False, id="bad already"),
        pytest.param(None, False, False, id="not established"),
    ],
)
def test_ca_bundle_on_update(old_bundle: str | None, is_established: bool, refused: bool) -> None:
    def conversion(bundle: str | None) -> dict[str, Any]:
        client = {"url": "https://h.example.com"} | ({"caBundle": bundle} if bundle else {})
        return {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}

    old = established(crd(conversion=conversion(old_bundle)), **({} if is_established else {"conditions": []}))
    expected = [
        'spec.conversion.webhookClientConfig.caBundle: Invalid value: "QUJD": unable to load root '
        "certificates: "
        "unable to parse bytes as PEM block"
    ]
    assert update(old, conversion=conversion("QUJD")) == (expected if refused else [])


def test_only_the_names_of_the_status_are_validated() -> None:
    old = established(crd())
    new = {**old, "spec": {}, "status": {"acceptedNames": {"plural": "Bad"}, "storedVersions": ["v9"]}}
    prepared_new = prepare_for_status_update(new, old)
    assert messages(validate_status_update(prepared_new, old)) == [
        f'status.acceptedNames.plural: Invalid value: "Bad": {DNS_1035}'
    ]
    assert prepared_new["spec"]["group"] == GROUP
