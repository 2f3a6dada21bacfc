"""What admission tells the audit log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.admission.policies import BINDINGS, POLICIES, named, rule, widget
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
