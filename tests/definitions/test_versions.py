from __future__ import annotations

import pytest

from registry.definitions.internal import InternalVersion, internal_spec
from registry.definitions.versions import validate_deprecation, validate_stored_versions, validate_uniqueness
from tests.definitions.crds import crd, errors_of, messages, version


def internal(*versions: dict[str, object]) -> list[InternalVersion]:
    return internal_spec(crd(versions=list(versions))).versions or []


@pytest.mark.parametrize(
    "deprecated, warning, errors",
    [
        pytest.param(False, None, [], id="none"),
        pytest.param(True, None, [], id="without a text"),
        pytest.param(True, "use v2 – bald", [], id="any script"),
        pytest.param(
            False, "x<", ['Invalid value: "x\\u003c": can only be set for deprecated versions'], id="not deprecated"
        ),
        pytest.param(True, "", ['Invalid value: "": must not be an empty string'], id="empty"),
        pytest.param(
            True,
            "ü\t",
            [
                'Invalid value: "ü\\t": must only contain printable UTF-8 characters; non-printable '
                "character "
                "found at index 2"
            ],
            id="tab, counted in bytes",
        ),
        pytest.param(
            True,
            "a\u3000b",
            [
                'Invalid value: "a\u3000b": must only contain printable UTF-8 characters; '
                "non-printable "
                "character found at index 1"
            ],
            id="wide space",
        ),
        pytest.param(
            True, "ü" * 129, [f'Invalid value: "{"ü" * 129}": must be <= 256 characters long'], id="long in bytes"
        ),
    ],
)
def test_deprecation(deprecated: bool, warning: str | None, errors: list[str]) -> None:
    [v] = internal(version(deprecated=deprecated, deprecationWarning=warning))
    assert messages(validate_deprecation(v, "v")) == [f"v.deprecationWarning: {error}" for error in errors]


def test_the_list_is_printed_as_the_go_struct() -> None:
    shown = (
        '[{"Name":"v1","Served":true,"Storage":false,"Deprecated":false,"DeprecationWarning":null,"Schema":null,'
        '"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}]'
    )
    assert messages(validate_uniqueness(internal(version(storage=False)), "spec.versions")) == [
        f"spec.versions: Invalid value: {shown}: must have exactly one version marked as storage version"
    ]


def test_differing_values_are_printed() -> None:
    versions = internal(
        version("v1"),
        version(
            "v1",
            {"type": "object", "title": "t"},
            subresources={"status": {}, "scale": {"specReplicasPath": ".spec.r"}},
            additionalPrinterColumns=[{"name": "A"}],
            selectableFields=[{"jsonPath": ".a"}],
        ),
    )
    [unique, storage] = messages(validate_uniqueness(versions, "v"))
    assert unique.endswith("must contain unique version names")
    assert storage.endswith("must have exactly one version marked as storage version")
    for part in (
        '"Title":"t"',
        '"Subresources":{"Status":{},"Scale":{"SpecReplicasPath":".spec.r",'
        '"StatusReplicasPath":"",'
        '"LabelSelectorPath":null}}',
        '[{"Name":"A","Type":"","Format":"","Description":"","Priority":0,"JSONPath":""}]',
        '"SelectableFields":[{"JSONPath":".a"}]',
    ):
        assert part in unique


def test_a_bad_name_of_the_first_version_is_reported_twice() -> None:
    fields = [e.partition(": ")[0] for e in errors_of(crd(versions=[version("V1"), version("V2", storage=False)]))]
    assert fields == ["spec.versions[0].name", "spec.versions[1].name", "spec.version"]


@pytest.mark.parametrize(
    "stored, errors",
    [
        pytest.param(["v1"], [], id="good"),
        pytest.param(None, ["s: Invalid value: null: must have at least one stored version"], id="nil"),
        pytest.param([], ["s: Invalid value: []: must have at least one stored version"], id="empty"),
        pytest.param(
            ["v2"], ['s: Invalid value: ["v2"]: must have the storage version v1'], id="without the storage version"
        ),
        pytest.param(
            ["v1", "v0"],
            [
                's[1]: Invalid value: "v0": missing from spec.versions; v0 was previously a storage version, and must remain '
                "in "
                "spec.versions until a storage migration ensures no data remains persisted in v0 and removes v0 from "
                "status.storedVersions"
            ],
            id="unknown",
        ),
    ],
)
def test_stored_versions(stored: list[str] | None, errors: list[str]) -> None:
    versions = internal(version("v1"), version("v2", storage=False))
    assert messages(validate_stored_versions(stored, versions, "s")) == errors
