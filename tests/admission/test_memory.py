"""What policies and webhooks of a tenant may take in memory: compiled, they take up to sixty times their text."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from registry.admission.configuration import compile_object, memory_size
from registry.api.admission import loading
from registry.api.strategies import admission
from registry.api.verbs import dispatch
from tests.admission.policies import ADMISSION, named, widget
from tests.api.client import MERGE, Client
from tests.api.widgets import WIDGETS

POLICIES = f"{ADMISSION}/validatingadmissionpolicies"
CONFIGURATIONS = f"{ADMISSION}/validatingwebhookconfigurations"
LIMIT = 250_000


def policy(name: str, count: int, group: str = "none.example.com") -> dict[str, Any]:
    """A policy of about `count` kilobytes in memory."""
    resources = [f"r{i}" for i in range(6 * count)]
    rules = [{"apiGroups": [group], "apiVersions": ["*"], "operations": ["*"], "resources": resources}]
    spec = {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "true"}]}
    return named("ValidatingAdmissionPolicy", name, **spec)


def webhook(count: int) -> dict[str, Any]:
    rules = [
        {"apiGroups": ["x"], "apiVersions": ["*"], "operations": ["*"], "resources": [f"r{i}" for i in range(count)]}
    ]
    hook = {"name": "w.example.com", "rules": rules, "sideEffects": "None", "admissionReviewVersions": ["v1"]}
    return {"metadata": {"name": "w"}, "webhooks": [{**hook, "clientConfig": {"url": "https://127.0.0.1:1/"}}]}


@pytest.mark.parametrize(
    "resource, obj",
    [
        pytest.param("validatingadmissionpolicies", policy("p", 500), id="rules"),
        pytest.param(
            "validatingadmissionpolicies",
            named(
                "ValidatingAdmissionPolicy",
                "p",
                validations=[
                    {"expression": f"object.metadata.name != 'n{i}' || 'a{i}' in ['b', 'c']"} for i in range(150)
                ],
            ),
            id="expressions",
        ),
        pytest.param("validatingwebhookconfigurations", webhook(3_000), id="webhooks"),
    ],
)
def test_what_they_take_is_estimated(resource: str, obj: dict[str, Any]) -> None:
    obj["metadata"]["name"] = "p"
    compile_object(resource, obj)  # imports
    tracemalloc.start()
    try:
        kept = compile_object(resource, obj)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept is not None
    assert taken < memory_size(obj) < 30 * taken


@pytest.mark.asyncio(loop_scope="module")
async def test_they_take_bounded_memory(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (admission, loading, dispatch):
        monkeypatch.setattr(module, "TENANT_BYTES", LIMIT)
    (await api.post(POLICIES, policy("a", 100))).ok(201)
    (await api.post(POLICIES, policy("b", 100))).ok(201)
    for path, obj in ((POLICIES, policy("c", 100)), (CONFIGURATIONS, webhook(600))):
        refused = await api.post(path, obj)
        assert refused.code == 403
        assert "exceeded quota: tenant " in refused.json["message"]
        assert "its admission policies and webhooks may take 250000 bytes of memory" in refused.json["message"]
    larger = (await api.get(f"{POLICIES}/b")).json["spec"]["matchConstraints"]["resourceRules"] * 2
    patch = {"spec": {"matchConstraints": {"resourceRules": larger}}}
    assert (await api.patch(f"{POLICIES}/b", patch, MERGE)).code == 403
    (await api.post(WIDGETS, widget("w"))).ok(201)
    (await api.delete(f"{POLICIES}/a")).ok(200)
    (await api.post(POLICIES, policy("c", 100))).ok(201)


@pytest.mark.asyncio(loop_scope="module")
async def test_nothing_is_admitted_by_a_part_of_them(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a tenant had more of them before there was the limit."""
    monkeypatch.setattr(loading, "TENANT_BYTES", LIMIT)
    for name in "abc":
        (await api.post(POLICIES, policy(name, 100))).ok(201)
    refused = await api.post(WIDGETS, widget("w"))
    assert refused.code == 403
    assert "the tenant's admission policies and webhooks take more than" in refused.json["message"]
    (await api.delete(f"{POLICIES}/a")).ok(200)
    (await api.post(WIDGETS, widget("w"))).ok(201)
