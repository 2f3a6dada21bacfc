from __future__ import annotations

import pytest

from registry.definitions.approval import ANNOTATION, CONDITION, approval_condition, validate_approval
from tests.definitions.crds import crd, messages

SEE = "see https://github.com/kubernetes/enhancements/pull/1111"
MISSING = f'Required value: protected groups must have approval annotation "{ANNOTATION}", {SEE}'


def protected(value: str | None, group: str = "x.k8s.io") -> dict[str, object]:
    return crd(group=group, metadata={"annotations": {ANNOTATION: value} if value is not None else None})


@pytest.mark.parametrize(
    "value, error",
    [
        pytest.param(None, MISSING, id="missing"),
        pytest.param("", MISSING, id="empty"),
        pytest.param("unapproved for now", None, id="unapproved"),
        pytest.param(
            "Unapproved",
            f'Invalid value: "Unapproved": protected groups must have approval annotation '
            f'"{ANNOTATION}" '
            f'with either a URL or a reason starting with "unapproved", {SEE}',
            id="capital",
        ),
        pytest.param("gopher://h", None, id="any scheme"),
        pytest.param("/path", "Invalid value", id="path"),
    ],
)
def test_create(value: str | None, error: str | None) -> None:
    found = messages(validate_approval(protected(value), None))
    assert [f.startswith(f"metadata.annotations[{ANNOTATION}]: {error}") for f in found] == ([True] if error else [])


@pytest.mark.parametrize(
    "group, is_protected",
    [("k8s.io", True), ("a.kubernetes.io", True), ("myk8s.io", False), ("k8s.io.example.com", False)],
)
def test_groups_that_require_approval(group: str, is_protected: bool) -> None:
    assert bool(validate_approval(protected(None, group), None)) is is_protected


@pytest.mark.parametrize(
    "old, new, refused",
    [
        pytest.param(None, None, False, id="missing before"),
        pytest.param("https://h", None, True, id="removed"),
        pytest.param("yes", "no", False, id="invalid before"),
        pytest.param("https://h", "no", True, id="made invalid"),
    ],
)
def test_updates_validate_a_change_of_state(old: str | None, new: str | None, refused: bool) -> None:
    assert bool(validate_approval(protected(new), protected(old))) is refused


@pytest.mark.parametrize(
    "value, status, reason, message",
    [
        pytest.param("https://h/7", "True", "ApprovedAnnotation", "approved in https://h/7", id="approved"),
        pytest.param(
            'unapproved "x"', "False", "UnapprovedAnnotation", 'not approved: "unapproved \\"x\\""', id="unapproved"
        ),
    ],
)
def test_condition(value: str, status: str, reason: str, message: str) -> None:
    assert CONDITION == "KubernetesAPIApprovalPolicyConformant"
    assert approval_condition(protected(value)) == (status, reason, message)


def test_no_condition_elsewhere() -> None:
    assert approval_condition(crd()) is None
