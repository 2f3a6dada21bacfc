"""In how many parts a write is evaluated: each costs a start of its own, and may be interrupted."""

from __future__ import annotations

from typing import Any

import pytest

from registry.flowcontrol.evaluation import COUNTED_BYTES, Evaluation
from tests.api.client import Client
from tests.api.widgets import WIDGETS, make, widget
from tests.application import shares_application

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes that evaluations begin with."""
    sizes: list[int] = []
    run = Evaluation.run

    def noting(self: Evaluation, work: Any, size: int, **options: Any) -> Any:
        sizes.append(size)
        return run(self, work, size, **options)

    monkeypatch.setattr(Evaluation, "run", noting)
    return sizes


async def evaluations(api: Client, evaluated: list[int], spec: dict[str, Any]) -> int:
    """Returns how many parts the create of a widget has."""
    await api.get(WIDGETS)  # what the first request of a tenant evaluates does not count
    evaluated.clear()
    (await api.post(WIDGETS, widget("counted", **spec))).ok(201)
    return len(evaluated)


@shares_application
async def test_a_small_create_is_decoded_and_then_evaluated_at_once(tenant_api: Client, evaluated: list[int]) -> None:
    await make(tenant_api, "first")
    assert await evaluations(tenant_api, evaluated, {"size": 1}) == 2


@shares_application
async def test_a_large_create_is_evaluated_in_parts(tenant_api: Client, evaluated: list[int]) -> None:
    """Others are served between them, and each has the whole time limit."""
    await make(tenant_api, "first")
    assert await evaluations(tenant_api, evaluated, {"free": {"text": "x" * COUNTED_BYTES}}) >= 4


@shares_application
async def test_a_create_under_policies_is_evaluated_in_parts(tenant_api: Client, evaluated: list[int]) -> None:
    """Policies and webhooks see the object between them."""
    await make(tenant_api, "first")
    policy = {
        "metadata": {"name": "none"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": ["none"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["none"]}
                ]
            },
            "validations": [{"expression": "false"}],
        },
    }
    (await tenant_api.post(POLICIES, policy)).ok(201)
    binding = {"metadata": {"name": "none"}, "spec": {"policyName": "none", "validationActions": ["Deny"]}}
    (await tenant_api.post(BINDINGS, binding)).ok(201)
    assert await evaluations(tenant_api, evaluated, {"size": 1}) >= 3


@shares_application
async def test_a_small_patch_is_evaluated_at_once_after_the_old_object(
    tenant_api: Client, evaluated: list[int]
) -> None:
    await make(tenant_api, "a", size=1)
    evaluated.clear()
    (await tenant_api.patch(f"{WIDGETS}/a", {"spec": {"size": 2}})).ok(200)
    assert len(evaluated) <= 3, "decoding the patch, the old object, and all that follows"
