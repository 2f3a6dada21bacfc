from __future__ import annotations

from typing import Any

import pytest

from registry.definitions.decode import StructDecodeError
from registry.definitions.v1beta1.conversion import canonical, decode_definition
from tests.definitions.v1beta1.crds import COLUMN, beta, defaulted, version

HOOK = {"service": {"namespace": "n", "name": "s"}}


@pytest.mark.parametrize(
    "spec, wanted",
    [
        pytest.param({}, {"scope": "Namespaced"}, id="scope"),
        pytest.param({"scope": "Cluster"}, {"scope": "Cluster"}, id="scope given"),
        pytest.param(
            {},
            {"names": {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"}},
            id="names",
        ),
        pytest.param({}, {"versions": [version("v1", storage=True)], "version": "v1"}, id="one version by its name"),
        pytest.param(
            {"version": None, "versions": [version("v2", storage=True), version("v1")]},
            {"version": "v2", "versions": [version("v2", storage=True), version("v1")]},
            id="the first version",
        ),
        pytest.param(
            {"version": "v1", "versions": [version("v2", storage=True)]},
            {"version": "v1", "versions": [version("v2", storage=True)]},
            id="both stay as they are",
        ),
        pytest.param({}, {"preserveUnknownFields": True}, id="unknown fields are kept"),
        pytest.param(
            {"preserveUnknownFields": False}, {"preserveUnknownFields": False}, id="unknown fields are pruned"
        ),
        pytest.param({}, {"conversion": {"strategy": "None"}}, id="conversion"),
        pytest.param(
            {"conversion": {"strategy": "Webhook", "webhookClientConfig": HOOK}},
            {
                "conversion": {
                    "strategy": "Webhook",
                    "conversionReviewVersions": ["v1beta1"],
                    "webhookClientConfig": {"service": {"namespace": "n", "name": "s", "port": 443}},
                }
            },
            id="webhook",
        ),
        pytest.param(
            {"conversion": {"strategy": "Webhook", "conversionReviewVersions": ["v1"]}},
            {"conversion": {"strategy": "Webhook", "conversionReviewVersions": ["v1"]}},
            id="review versions",
        ),
    ],
)
def test_defaults(spec: dict[str, Any], wanted: dict[str, Any]) -> None:
    made = defaulted(beta(**spec))["spec"]
    assert {name: made[name] for name in wanted} == wanted


def test_stored_versions_hold_the_storage_version() -> None:
    given = beta(version=None, versions=[version("v2"), version("v1", storage=True)])
    assert defaulted(given)["status"] == {"storedVersions": ["v1"]}


def test_unknown_fields_are_reported_and_dropped() -> None:
    decoded = decode_definition(
        beta(versions=[version("v1", storage=True, additionalPrinterColumns=[{**COLUMN, "jsonPath": ".spec"}])], more=1)
    )
    assert sorted(decoded.unknown) == ["spec.more", "spec.versions[0].additionalPrinterColumns[0].jsonPath"]


@pytest.mark.parametrize(
    "spec, error",
    [
        (
            {"version": 1},
            "json: cannot unmarshal number into Go struct field "
            "CustomResourceDefinitionSpec.spec.version of type string",
        ),
        (
            {"scope": 1},
            "json: cannot unmarshal number into Go struct field CustomResourceDefinitionSpec.spec.scope of type "
            "v1beta1.ResourceScope",
        ),
    ],
)
def test_wrong_types(spec: dict[str, Any], error: str) -> None:
    with pytest.raises(StructDecodeError) as raised:
        decode_definition(beta(**spec))
    assert str(raised.value) == error


def test_the_canonical_form() -> None:
    made = canonical(defaulted(beta(additionalPrinterColumns=[COLUMN], validation={"openAPIV3Schema": {}})))
    assert list(made["spec"]) == [
        "group",
        "version",
        "names",
        "scope",
        "validation",
        "versions",
        "additionalPrinterColumns",
        "conversion",
        "preserveUnknownFields",
    ]
    assert made["spec"]["additionalPrinterColumns"] == [COLUMN]
