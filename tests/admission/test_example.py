"""The policies of examples/admission are right, and do what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from registry.admission.activation import Inputs
from registry.admission.policies import MutatingPolicy, ValidatingPolicy
from registry.admission.validation_policies import (
    mutating_binding_errors,
    mutating_policy_errors,
    validating_binding_errors,
    validating_policy_errors,
)
from registry.api.strategies.admission import default_match
from registry.apply.types import UNTYPED

FOLDER = Path(__file__).parents[2] / "examples/admission"
VALIDATING, MUTATING = yaml.safe_load_all((FOLDER / "policy.yaml").read_text())
BINDINGS = list(yaml.safe_load_all((FOLDER / "binding.yaml").read_text()))


def inputs(labels: dict[str, str], replicas: int, most: str | None = None) -> Inputs:
    obj = {
        "apiVersion": "jobs.example.com/v1",
        "kind": "CronTab",
        "metadata": {"name": "a", "labels": labels},
        "spec": {"replicas": replicas},
    }
    namespace: dict[str, Any] = {"metadata": {"name": "n", "labels": {"most-replicas": most} if most else {}}}
    request = {
        "operation": "CREATE",
        "userInfo": {"username": "jane"},
        "requestResource": {"group": "jobs.example.com", "version": "v1", "resource": "crontabs"},
    }
    return Inputs(obj, None, request, namespace)


def test_the_examples_are_valid() -> None:
    for policy in (VALIDATING, MUTATING):
        default_match(policy["spec"]["matchConstraints"])
        policy["spec"].setdefault("failurePolicy", "Fail")
    assert [e.message() for e in validating_policy_errors(VALIDATING) + mutating_policy_errors(MUTATING)] == []
    assert validating_binding_errors(BINDINGS[0]) + mutating_binding_errors(BINDINGS[1]) == []


@pytest.mark.parametrize(
    "labels, replicas, most, expected",
    [
        ({"team": "a"}, 3, None, []),
        ({"team": "a"}, 4, None, ["no more than 3 replicas here"]),
        ({"team": "a"}, 4, "5", []),
        ({}, 1, None, ['a crontab needs the label "team"']),
    ],
)
def test_requests_that_the_examples_refuse(
    labels: dict[str, str], replicas: int, most: str | None, expected: list[str]
) -> None:
    outcome = ValidatingPolicy(VALIDATING).validate(inputs(labels, replicas, most))
    assert [decision.message for _, decision in outcome.decisions] == expected


def test_changes_that_the_examples_make() -> None:
    made = MutatingPolicy(MUTATING).mutate(0, inputs({}, 1), UNTYPED)
    assert made["metadata"]["annotations"] == {"jobs.example.com/made-by": "jane"}
