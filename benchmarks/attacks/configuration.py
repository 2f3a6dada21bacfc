"""Configuration that every process keeps compiled: large roles, policies, webhooks and definitions, many of each."""

from __future__ import annotations

from itertools import count
from typing import Any

from benchmarks.attacks.attacker import ADMISSION, TENANT, Attacker, an_object
from benchmarks.attacks.storms import AUTHORIZATION, RBAC

_SERVICES = f"{TENANT}/apis/apiregistration.k8s.io/v1/apiservices"
# A megabyte of short texts, which take twenty times as much in memory.
_NAMES = [f"{i}" for i in range(100_000)]


async def roles(attacker: Attacker) -> None:
    """Roles of a hundred thousand resources, and a question that needs all of them."""
    numbers = count()
    rules = [{"apiGroups": ["a"], "resources": _NAMES, "verbs": ["get"]}]

    async def work(one: Attacker) -> None:
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": rules}
        await one.ask("POST", f"{RBAC}/clusterroles", {**role, "metadata": {"name": f"large{next(numbers)}"}})
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        spec = {"user": "u", "resourceAttributes": {"verb": "get", "resource": "nothing"}}
        await one.ask("POST", f"{AUTHORIZATION}/subjectaccessreviews", {**review, "spec": spec})

    await attacker.parallel(2, work)


async def configurations(attacker: Attacker) -> None:
    """Webhooks for a hundred thousand resources, and policies of thousands of expressions."""
    numbers = count()
    rule = {"apiGroups": ["none"], "apiVersions": ["*"], "operations": ["*"], "resources": _NAMES}
    hook: dict[str, Any] = {"name": "w.example.com", "rules": [rule], "clientConfig": {"url": "https://127.0.0.1:1/"}}
    hook |= {"admissionReviewVersions": ["v1"], "sideEffects": "None"}
    expressions = [{"expression": f"object.metadata.name != 'n{i}' || 'a' in ['b', 'c']"} for i in range(4_000)]
    constraints = {"resourceRules": [{**rule, "resources": ["none"]}]}
    spec = {"matchConstraints": constraints, "validations": expressions}

    async def work(one: Attacker) -> None:
        head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": f"large{next(numbers)}"}}
        webhooks = {**head, "kind": "ValidatingWebhookConfiguration", "webhooks": [hook]}
        await one.ask("POST", f"{ADMISSION}/validatingwebhookconfigurations", webhooks)
        policy = {**head, "kind": "ValidatingAdmissionPolicy", "spec": spec}
        await one.ask("POST", f"{ADMISSION}/validatingadmissionpolicies", policy)

    await attacker.parallel(2, work)


async def schemas(attacker: Attacker) -> None:
    """Definitions of half a megabyte, each with an object."""
    numbers = count()
    properties = {f"f{i}": {"type": "object", "properties": {"a": {"type": "integer"}}} for i in range(8_000)}

    async def work(one: Attacker) -> None:
        path = await one.define(f"large{next(numbers)}", {"type": "object", "properties": properties})
        await one.ask("POST", path, an_object(path, "a", {"f1": {"a": 1}}))

    await attacker.parallel(2, work)


async def api_services(attacker: Attacker) -> None:
    """APIServices by the hundred, registered one after the other."""
    numbers = count()
    place = {"name": "none", "namespace": "default", "port": 1}
    spec = {"version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15, "insecureSkipTLSVerify": True}
    head = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}

    async def work(one: Attacker) -> None:
        group = f"g{next(numbers)}.example.com"
        made = {**head, "metadata": {"name": f"v1.{group}"}, "spec": {**spec, "group": group, "service": place}}
        await one.ask("POST", _SERVICES, made)

    await attacker.parallel(4, work)
