"""Admission of a tenant: many policies, each cheap, and what they are given."""

from __future__ import annotations

from itertools import count, cycle
from typing import Any

from benchmarks.attacks.attacker import ADMISSION, ANYTHING, MAPS, Attacker, an_object


async def params(attacker: Attacker) -> None:
    """50 policies with 500 parameters each, of 2 kB."""
    for i in range(500):
        body = {"metadata": {"name": f"param{i}", "labels": {"param": "yes"}}, "data": {"text": "x" * 2_000}}
        await attacker.ask("POST", MAPS, body)
    path = await attacker.define("parameterized", ANYTHING)
    for i in range(50):
        spec = {
            "failurePolicy": "Fail",
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": {"resourceRules": [_rule("parameterized")]},
            "validations": [{"expression": f"params.data.text != 'no{i}'"}],
        }
        reference = {"selector": {"matchLabels": {"param": "yes"}}, "parameterNotFoundAction": "Deny"}
        await _make(attacker, "Validating", f"params{i}", spec, {"validationActions": ["Deny"], "paramRef": reference})

    async def work(one: Attacker) -> None:
        await one.ask("POST", f"{path}?dryRun=All", an_object(path, "", {"list": [1, 2, 3]}))

    await attacker.parallel(8, work)


async def mutations(attacker: Attacker) -> None:
    """100 policies that each change an object of 30,000 values."""
    path = await attacker.define("mutated", ANYTHING)
    for i in range(100):
        value = f"Object{{spec: Object.spec{{f{i}: 'x'}}}}"
        spec = {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "IfNeeded",
            "matchConstraints": {"resourceRules": [_rule("mutated")]},
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": value}}],
        }
        await _make(attacker, "Mutating", f"mutated{i}", spec, {})
    body = an_object(path, "", {"list": [{"k": i} for i in range(15_000)]})

    async def work(one: Attacker) -> None:
        await one.ask("POST", f"{path}?dryRun=All", body)

    await attacker.parallel(4, work)


async def doublings(attacker: Attacker) -> None:
    """Policies whose values contain an object of a megabyte, or numbers, a thousand or a billion times."""
    path = await attacker.define("doubled", ANYTHING)
    for name, value, times in (("texts", "object.spec.text", 10), ("numbers", "1", 30)):
        value = f"[{value}]" + "".join(f".map(v{i}, [v{i}, v{i}])" for i in range(times))
        patch = f"object.spec.as == '{name}' ? [JSONPatch{{op: 'add', path: '/spec/more', value: {value}}}] : []"
        spec = {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [_rule("doubled")]},
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
        }
        await _make(attacker, "Mutating", name, spec, {})
    kinds = cycle(("texts", "numbers"))

    async def work(one: Attacker) -> None:
        body = an_object(path, "", {"as": next(kinds), "text": "x" * 1_000_000})
        await one.ask("POST", f"{path}?dryRun=All", body)

    await attacker.parallel(4, work)


async def namespaced_policies(attacker: Attacker) -> None:
    """1,000 policies that match by namespace, object and expression, and are changed meanwhile."""
    path = await attacker.define("manypolicies", ANYTHING)
    selector = {"matchExpressions": [{"key": f"k{j}", "operator": "NotIn", "values": ["a", "b"]} for j in range(50)]}
    for i in range(1_000):
        constraints = {"resourceRules": [_rule("manypolicies")], "objectSelector": selector}
        spec = {
            "failurePolicy": "Fail",
            "matchConstraints": {**constraints, "namespaceSelector": selector},
            "validations": [
                {"expression": f"object.spec.n != {i}", "messageExpression": "'x' + string(object.spec.n)"}
            ],
        }
        await _make(attacker, "Validating", f"many{i}", spec, {"validationActions": ["Deny"]})
    numbers = count()

    async def work(one: Attacker) -> None:
        labels = {f"l{j}": "v" for j in range(500)}
        obj = an_object(path, "", {"n": -1})
        await one.ask("POST", f"{path}?dryRun=All", {**obj, "metadata": {**obj["metadata"], "labels": labels}})
        if next(numbers) % 10 == 0:
            change = {"metadata": {"annotations": {"n": str(next(numbers))}}}
            policy = f"{ADMISSION}/validatingadmissionpolicies/many{next(numbers) % 1000}"
            await one.ask("PATCH", policy, change, kind="application/merge-patch+json")

    await attacker.parallel(8, work)


async def _make(attacker: Attacker, kind: str, name: str, spec: dict[str, Any], binding: dict[str, Any]) -> None:
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    made = {**head, "kind": f"{kind}AdmissionPolicy", "spec": spec}
    await attacker.ask("POST", f"{ADMISSION}/{kind.lower()}admissionpolicies", made)
    bound = {**head, "kind": f"{kind}AdmissionPolicyBinding", "spec": {"policyName": name, **binding}}
    await attacker.ask("POST", f"{ADMISSION}/{kind.lower()}admissionpolicybindings", bound)


def _rule(plural: str) -> dict[str, Any]:
    return {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": [plural]}
