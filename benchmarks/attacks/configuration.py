"""Configuration that every process keeps compiled: large roles, policies, webhooks and definitions, many of each."""

from __future__ import annotations

from itertools import count
from typing import Any

from benchmarks.attacks.access import AUTHORIZATION, RBAC
from benchmarks.attacks.attacker import (
    ADMISSION,
    ANYTHING,
    DEFINITIONS,
    MERGE_PATCH,
    TABLE,
    TENANT,
    Attacker,
    a_definition,
    an_object,
)

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


async def invalid_bundles(attacker: Attacker) -> None:
    """A webhook whose CA bundle is a letter, called by each create."""
    path = await attacker.define("unbundled", ANYTHING)
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["unbundled"]}
    client = {"url": "https://127.0.0.1:1/", "caBundle": "eA=="}
    hook = {"name": "unbundled.example.com", "rules": [rule], "clientConfig": client}
    hook |= {"admissionReviewVersions": ["v1"], "sideEffects": "None"}
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    webhooks = {**head, "metadata": {"name": "unbundled"}, "webhooks": [hook]}
    await attacker.ask("POST", f"{ADMISSION}/validatingwebhookconfigurations", webhooks)

    async def work(one: Attacker) -> None:
        await one.ask("POST", path, an_object(path, "", {}))

    await attacker.parallel(4, work)


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


async def versions(attacker: Attacker) -> None:
    """Definitions of 200 versions, the most; discovery, OpenAPI and objects of them, and patches of the definitions."""
    numbers = count()
    group = f"{TENANT}/apis/many0.example.com"

    async def work(one: Attacker) -> None:
        name = f"many{next(numbers)}"
        made = a_definition(name, ANYTHING)
        [version] = made["spec"]["versions"]
        more = [{**version, "name": f"v1alpha{i}", "storage": False} for i in range(199)]
        made["spec"]["versions"] += more
        await one.ask("POST", DEFINITIONS, made)
        for path in (f"{TENANT}/apis", group, f"{group}/v1alpha7", f"{TENANT}/openapi/v3", f"{TENANT}/openapi/v2"):
            await one.ask("GET", path)
        path = f"{group}/v1alpha{next(numbers) % 200}/namespaces/default/many0"
        await one.ask("POST", path, an_object(path, "", {"a": 1}))
        await one.ask(
            "PATCH", f"{DEFINITIONS}/{name}.{name}.example.com", {"metadata": {"labels": {"a": "b"}}}, kind=MERGE_PATCH
        )

    await attacker.parallel(2, work)


async def wide(attacker: Attacker) -> None:
    """Definitions of thousands of printer columns, names, enumerated values and required fields; Tables of them."""
    numbers = count()
    columns = [{"name": f"C{i}", "type": "string", "jsonPath": f".spec.f{i % 50}"} for i in range(10_000)]
    names = {"shortNames": [f"s{i}" for i in range(1_000)], "categories": [f"c{i}" for i in range(1_000)]}
    chosen = {"type": "string", "enum": [f"e{i}" for i in range(20_000)]}
    spec = {
        "type": "object",
        "properties": {"chosen": chosen},
        "required": [f"r{i}" for i in range(20_000)],
        "x-kubernetes-preserve-unknown-fields": True,
    }
    path = await attacker.define("columns10", ANYTHING, additionalPrinterColumns=columns)
    for i in range(200):
        fields = {f"f{j}": f"value{j}" for j in range(50)}
        await attacker.ask("POST", path, an_object(path, f"row{i}", fields))

    async def work(one: Attacker) -> None:
        number = next(numbers)
        if number % 2:
            await one.ask("GET", path, accept=TABLE)
            return
        made = a_definition(f"wide{number}", spec)
        made["spec"]["names"] |= names
        await one.ask("POST", DEFINITIONS, made)
        there = f"{TENANT}/apis/wide{number}.example.com/v1/namespaces/default/wide{number}"
        await one.ask("POST", there, an_object(there, "", {"chosen": "none"}))

    await attacker.parallel(4, work)
