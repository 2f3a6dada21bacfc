"""Between the two forms nothing is lost, whichever one comes from."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.definitions import decode
from registry.definitions.defaulting import default_definition
from registry.definitions.v1beta1.conversion import convert, served_form, stored_form
from tests.definitions.crds import crd
from tests.definitions.crds import version as version_of_v1
from tests.definitions.v1beta1.crds import COLUMN, OTHER_SCHEMA, SCHEMA, beta, stored, version

V1_COLUMN = {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
CLIENT = {"url": "https://h.example.com/c"}
TWO = {"version": "v1", "versions": [version("v1", storage=True), version("v2")]}


def two(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    return {"version": "v1", "versions": [version("v1", storage=True, **first), version("v2", **second)]}


@pytest.mark.parametrize(
    "spec, versions",
    [
        pytest.param({}, [{}], id="nothing"),
        pytest.param(
            {"validation": {"openAPIV3Schema": SCHEMA}, "subresources": {"status": {}}},
            [{"schema": {"openAPIV3Schema": SCHEMA}, "subresources": {"status": {}}}],
            id="one version",
        ),
        pytest.param(
            {**TWO, "validation": {"openAPIV3Schema": SCHEMA}, "additionalPrinterColumns": [COLUMN]},
            2 * [{"schema": {"openAPIV3Schema": SCHEMA}, "additionalPrinterColumns": [V1_COLUMN]}],
            id="for all",
        ),
        pytest.param(
            two(
                {"schema": {"openAPIV3Schema": SCHEMA}, "additionalPrinterColumns": [COLUMN]},
                {"schema": {"openAPIV3Schema": OTHER_SCHEMA}},
            ),
            [
                {"schema": {"openAPIV3Schema": SCHEMA}, "additionalPrinterColumns": [V1_COLUMN]},
                {"schema": {"openAPIV3Schema": OTHER_SCHEMA}},
            ],
            id="for each",
        ),
        pytest.param(
            {**TWO, "subresources": {"status": {}}, "selectableFields": [{"jsonPath": ".spec.a"}]},
            2 * [{"subresources": {"status": {}}, "selectableFields": [{"jsonPath": ".spec.a"}]}],
            id="fields",
        ),
    ],
)
def test_versions(spec: dict[str, Any], versions: list[dict[str, Any]]) -> None:
    old = stored(beta(**spec))
    new = stored_form(old)
    assert new["apiVersion"] == "apiextensions.k8s.io/v1"
    heads = [{name: v[name] for name in ("name", "served", "storage")} for v in new["spec"]["versions"]]
    assert [{**v, **h} for v, h in zip(versions, heads, strict=True)] == new["spec"]["versions"]
    assert "version" not in new["spec"]
    assert served_form(new) == old


@pytest.mark.parametrize(
    "conversion, wanted",
    [
        ({"strategy": "None"}, {"strategy": "None"}),
        (
            {"strategy": "Webhook", "webhookClientConfig": CLIENT, "conversionReviewVersions": ["v1beta1"]},
            {"strategy": "Webhook", "webhook": {"clientConfig": CLIENT, "conversionReviewVersions": ["v1beta1"]}},
        ),
    ],
)
def test_conversion(conversion: dict[str, Any], wanted: dict[str, Any]) -> None:
    old = stored(beta(conversion=conversion))
    new = stored_form(old)
    assert new["spec"]["conversion"] == wanted
    assert served_form(new) == old


@pytest.mark.parametrize("given_, of_v1", [(None, True), (True, True), (False, None)])
def test_unknown_fields(given_: bool | None, of_v1: bool | None) -> None:
    old = stored(beta(preserveUnknownFields=given_))
    assert old["spec"]["preserveUnknownFields"] is (given_ is not False)
    assert stored_form(old)["spec"].get("preserveUnknownFields") is of_v1


def test_metadata_and_status_are_the_same_in_both() -> None:
    old = stored(beta(metadata={"labels": {"a": "b"}}))
    old["status"]["conditions"] = [{"type": "Established", "status": "True", "lastTransitionTime": None}]
    new = stored_form(old)
    assert (new["metadata"], new["status"]) == (old["metadata"], old["status"])


def test_conversion_to_the_same_version() -> None:
    old = stored(beta())
    assert convert(old, old["apiVersion"]) is old
    assert convert(convert(old, "apiextensions.k8s.io/v1"), old["apiVersion"]) == old


PARTS: dict[str, st.SearchStrategy[Any]] = {
    "schema": st.sampled_from([{"openAPIV3Schema": SCHEMA}, {"openAPIV3Schema": OTHER_SCHEMA}, {}]),
    "subresources": st.sampled_from(
        [{}, {"status": {}}, {"scale": {"specReplicasPath": ".spec.r", "statusReplicasPath": ".status.r"}}]
    ),
    "additionalPrinterColumns": st.lists(st.sampled_from([V1_COLUMN, {**V1_COLUMN, "priority": 1}]), max_size=2),
    "selectableFields": st.lists(st.sampled_from([{"jsonPath": ".spec.a"}, {"jsonPath": ".spec.b"}]), max_size=2),
    "deprecated": st.booleans(),
    "deprecationWarning": st.text(max_size=3),
}
VERSIONS = st.lists(st.fixed_dictionaries({}, optional=PARTS), min_size=1, max_size=3)


@settings(max_examples=150, deadline=None)
@given(
    VERSIONS,
    st.sampled_from(
        [
            {"strategy": "None"},
            {"strategy": "Webhook", "webhook": {"clientConfig": CLIENT, "conversionReviewVersions": ["v1", "v1beta1"]}},
        ]
    ),
    st.booleans(),
)
def test_round_trip(parts: list[dict[str, Any]], conversion: dict[str, Any], keeps: bool) -> None:
    """Whatever a client of v1 has written stays so when one of v1beta1 writes it back as it reads it."""
    versions = [{**version_of_v1(f"v{i}", storage=i == 0), "schema": None, **part} for i, part in enumerate(parts)]
    given_ = decode.decode_definition(crd(versions=versions, conversion=conversion, preserveUnknownFields=keeps))
    default_definition(given_.value)
    new = decode.canonical(given_.value)
    assert stored_form(served_form(new)) == new
