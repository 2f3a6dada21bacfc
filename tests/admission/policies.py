"""Admission policies with their bindings, as objects and over HTTP."""

from __future__ import annotations

from typing import Any

from tests.api.client import Client
from tests.api.widgets import GROUP

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = f"{ADMISSION}/validatingadmissionpolicies", f"{ADMISSION}/validatingadmissionpolicybindings"
MUTATING, MUTATING_BINDINGS = f"{ADMISSION}/mutatingadmissionpolicies", f"{ADMISSION}/mutatingadmissionpolicybindings"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
# In a rule of a policy or webhook.
EVERY_RESOURCE = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}


def rule(*operations: str, resources: str = "widgets", group: str = GROUP) -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": list(operations) or ["*"],
        "resources": [resources],
    }


def named(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


async def enforce(
    api: Client,
    expression: str,
    *,
    name: str = "p",
    match: dict[str, Any] | None = None,
    binding: dict[str, Any] | None = None,
    **spec: Any,
) -> None:
    constraints = {"resourceRules": [rule()], **(match or {})}
    policy = named(
        "ValidatingAdmissionPolicy",
        name,
        matchConstraints=constraints,
        **{"validations": [{"expression": expression, "message": "no"}], **spec},
    )
    (await api.post(POLICIES, policy)).ok(201)
    bound = {"policyName": name, "validationActions": ["Deny"], **(binding or {})}
    (await api.post(BINDINGS, named("ValidatingAdmissionPolicyBinding", name, **bound))).ok(201)


async def mutate(api: Client, expression: str, *, name: str = "m", reinvocation: str = "Never", **spec: Any) -> None:
    policy = named(
        "MutatingAdmissionPolicy",
        name,
        **{
            "matchConstraints": {"resourceRules": [rule("CREATE", "UPDATE")]},
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
            **spec,
        },
        reinvocationPolicy=reinvocation,
    )
    (await api.post(MUTATING, policy)).ok(201)
    (await api.post(MUTATING_BINDINGS, named("MutatingAdmissionPolicyBinding", name, policyName=name))).ok(201)


def widget(name: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Widget",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
    }


def _event(group: str, **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{group}/v1".removeprefix("/"),
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingInstance": "me",
        "action": "Look",
        "reason": "Seen",
        "type": "Normal",
        **fields,
    }


CORE_EVENT = _event("", involvedObject={"namespace": "default"}, message="bad", reportingComponent="x.example.com/me")
NEW_EVENT = _event(
    "events.k8s.io", regarding={"namespace": "default"}, note="bad", reportingController="x.example.com/me"
)
CORE_EVENTS = "/api/v1/namespaces/default/events"
NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
