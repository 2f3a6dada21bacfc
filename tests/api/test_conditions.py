"""Conditions in the status of built-in kinds: every kind validates them alike."""

from __future__ import annotations

from typing import Any

import pytest

from registry.api.strategies import strategy_for
from registry.builtin import definitions
from tests.definitions.crds import messages

GOOD = {"type": "A", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z", "reason": "R", "message": ""}
CONDITIONS = {
    "good": ([GOOD], []),
    "twice": ([GOOD, GOOD], ['status.conditions[1]: Duplicate value: "A"']),
    "empty": (
        [GOOD | {"type": "", "status": "", "reason": "", "lastTransitionTime": None}],
        [
            "status.conditions[0].type: Required value: is required",
            "status.conditions[0].status: Required value",
            "status.conditions[0].lastTransitionTime: Required value",
            "status.conditions[0].reason: Required value",
        ],
    ),
    "reason": ([GOOD | {"reason": "1"}], ['status.conditions[0].reason: Invalid value: "1": a condition reason must']),
    "long reason": ([GOOD | {"reason": "a" * 1025}], ["status.conditions[0].reason: Too long"]),
    "long message": ([GOOD | {"message": "a" * (32 * 1024 + 1)}], ["status.conditions[0].message: Too long"]),
    "order of errors": (
        [GOOD, GOOD | {"status": "?"}],
        ['status.conditions[1]: Duplicate value: "A"', 'status.conditions[1].status: Unsupported value: "?"'],
    ),
}


@pytest.mark.parametrize("plural", ["validatingadmissionpolicies", "storageversionmigrations"])
@pytest.mark.parametrize("conditions, errors", CONDITIONS.values(), ids=CONDITIONS)
def test_conditions_are_validated(plural: str, conditions: list[dict[str, Any]], errors: list[str]) -> None:
    found = validated(plural, conditions)
    assert len(found) == len(errors)
    assert all(text.startswith(error) for text, error in zip(found, errors, strict=True))


OLDER = {
    "twice": ([GOOD, GOOD], ['status.conditions[1].type: Duplicate value: "A"']),
    "empty": (
        [GOOD | {"type": "", "status": ""}],
        [
            'status.conditions[0].type: Invalid value: "": name part must be non-empty',
            'status.conditions[0].type: Invalid value: "": name part must consist of',
            'status.conditions[0].status: Unsupported value: ""',
        ],
    ),
}


@pytest.mark.usefixtures("as_1_36")
@pytest.mark.parametrize("plural", ["validatingadmissionpolicies", "storageversionmigrations"])
@pytest.mark.parametrize("conditions, errors", OLDER.values(), ids=OLDER)
def test_conditions_in_1_36(plural: str, conditions: list[dict[str, Any]], errors: list[str]) -> None:
    found = validated(plural, conditions)
    assert [text[: len(start)] for text, start in zip(found, errors, strict=True)] == errors


def validated(plural: str, conditions: list[dict[str, Any]]) -> list[str]:
    """The errors of conditions in the status of a kind."""
    [definition] = [d for d in definitions() if d.names.plural == plural]
    strategy = strategy_for(definition, next(iter(definition.versions.values()))).part("status")
    old = {
        "apiVersion": f"{definition.group}/v1",
        "kind": definition.names.kind,
        "metadata": {"name": "m", "uid": "u", "resourceVersion": "1", "creationTimestamp": "2024-01-01T00:00:00Z"},
        "spec": {},
    }
    return messages(strategy.validate_update({**old, "status": {"conditions": conditions}}, old, []))
