"""What admission tells the audit log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from registry import emulation
from tests.admission.policies import BINDINGS, POLICIES, named, rule, widget
from tests.admission.webhooks import Hook, configure, patch
from tests.api.widgets import WIDGETS
from tests.audit.auditing import EVERYTHING, auditing

FAILURE = "validation.policy.admission.k8s.io/validation_failure"


async def test_annotations_and_failures(api_database: str, tmp_path: Path) -> None:
    async with auditing(api_database, tmp_path, EVERYTHING) as api:
        policy = named(
            "ValidatingAdmissionPolicy",
            "p",
            matchConstraints={"resourceRules": [rule("CREATE")]},
            validations=[{"expression": "object.spec.size < 5", "message": "no"}],
            auditAnnotations=[{"key": "size", "valueExpression": "string(object.spec.size)"}],
        )
        (await api.post(POLICIES, policy)).ok(201)
        bound = named("ValidatingAdmissionPolicyBinding", "b", policyName="p", validationActions=["Audit"])
        (await api.post(BINDINGS, bound)).ok(201)
        (await api.post(WIDGETS, widget("a", size=9))).ok(201)
    events = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    [event] = [e for e in events if e["requestURI"] == WIDGETS and e["stage"] == "ResponseComplete"]
    annotations: dict[str, Any] = event["annotations"]
    assert annotations["p/size"] == "9"
    assert json.loads(annotations[FAILURE]) == [
        {"message": "no", "policy": "p", "binding": "b", "expressionIndex": 0, "validationActions": ["Audit"]}
    ]


@pytest.fixture(params=emulation.NAMES)
def version(request: pytest.FixtureRequest) -> Iterator[str]:
    yield request.param
    emulation.emulate(emulation.DEFAULT)


async def test_all_failures_are_in_one_annotation(api_database: str, tmp_path: Path, version: str) -> None:
    """From 1.37 on, and at most 50; before, the first one only."""
    async with auditing(api_database, tmp_path, EVERYTHING, emulate_version=version) as api:
        policy = named(
            "ValidatingAdmissionPolicy",
            "p",
            matchConstraints={"resourceRules": [rule("CREATE")]},
            validations=[{"expression": "object.spec.size < 5", "message": f"no {i}"} for i in range(30)],
        )
        (await api.post(POLICIES, policy)).ok(201)
        for name in ("b", "c"):
            bound = named("ValidatingAdmissionPolicyBinding", name, policyName="p", validationActions=["Audit"])
            (await api.post(BINDINGS, bound)).ok(201)
        (await api.post(WIDGETS, widget("a", size=9))).ok(201)
    events = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    [event] = [e for e in events if e["requestURI"] == WIDGETS and e["stage"] == "ResponseComplete"]
    failures = [(f["binding"], f["expressionIndex"]) for f in json.loads(event["annotations"][FAILURE])]
    assert failures == [(binding, i) for binding in ("b", "c") for i in range(30)][: 50 if version == "1.37" else 1]


async def test_annotations_of_a_webhook_with_names_that_are_none(api_database: str, tmp_path: Path, hook: Hook) -> None:
    """Names that are not qualified are dropped, as in kube-apiserver."""
    hook.answer = lambda path, request: {"allowed": True, "auditAnnotations": {"k": "v", "a/b": "c", "": "e"}}
    async with auditing(api_database, tmp_path, EVERYTHING, allow_egress_to=("127.0.0.0/8",)) as api:
        await configure(api, hook, "w")
        (await api.post(WIDGETS, widget("a", size=1))).ok(201)
    events = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    [event] = [e for e in events if e["requestURI"] == WIDGETS and e["stage"] == "ResponseComplete"]
    assert {key: text for key, text in event["annotations"].items() if "w.example.com" in key} == {
        "w.example.com/k": "v"
    }


async def audited_by_webhook(api_database: str, folder: Path, hook: Hook, level: str, **more: Any) -> dict[str, Any]:
    """Returns the webhook's annotations of a create, without their common prefix."""
    policy = f"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- {{level: {level}}}\n"
    async with auditing(api_database, folder, policy, allow_egress_to=("127.0.0.0/8",)) as api:
        await configure(api, hook, "other", kind="Mutating", rules=[{**rule(), "resources": ["others"]}])
        await configure(api, hook, "w", **{"kind": "Mutating", **more})
        (await api.post(WIDGETS, widget("a", size=1))).ok(201)
    events = [json.loads(line) for line in (folder / "audit.log").read_text().splitlines()]
    [event] = [e for e in events if e["requestURI"] == WIDGETS and e["stage"] == "ResponseComplete"]
    return {key: text for key, text in event["annotations"].items() if "webhook.admission.k8s.io/" in key}


CALLED = {"configuration": "c-w", "webhook": "w.example.com"}


@pytest.mark.parametrize("level", ["Metadata", "Request"])
async def test_calls_of_mutating_webhooks(api_database: str, tmp_path: Path, hook: Hook, level: str) -> None:
    """The index counts all webhooks; what the patch was is recorded where bodies are.

    A field that the schema drops afterwards is a mutation, too.
    """
    operation = {"op": "add", "path": "/huh", "value": 2}
    hook.answer = lambda path, request: patch(operation)
    annotations = await audited_by_webhook(api_database, tmp_path, hook, level)
    expected = {"mutation.webhook.admission.k8s.io/round_0_index_1": {**CALLED, "mutated": True}}
    if level == "Request":
        key = "patch.webhook.admission.k8s.io/round_0_index_1"
        expected[key] = {**CALLED, "patch": [operation], "patchType": "JSONPatch"}
    assert {key: json.loads(text) for key, text in annotations.items()} == expected


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
async def test_webhooks_that_fail_open(api_database: str, tmp_path: Path, hook: Hook, kind: str) -> None:
    hook.answer = lambda path, request: {"allowed": "nonsense"}
    annotations = await audited_by_webhook(api_database, tmp_path, hook, "Metadata", kind=kind, failurePolicy="Ignore")
    if kind == "Mutating":
        called = json.loads(annotations.pop("mutation.webhook.admission.k8s.io/round_0_index_1"))
        assert called == {**CALLED, "mutated": False}
    [(key, name)] = annotations.items()
    prefix = "failed-open.mutation." if kind == "Mutating" else "failed-open.validating."
    assert key == f"{prefix}webhook.admission.k8s.io/round_0_index_{int(kind == 'Mutating')}"
    assert name == "w.example.com"
