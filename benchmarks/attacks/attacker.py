"""What all attacks share: counted answers, definitions and policies of the tenant that attacks."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.client import JSON, Connection, Target, tls

TENANT = "/clusters/attacker"
DEFINITIONS = f"{TENANT}/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ADMISSION = f"{TENANT}/apis/admissionregistration.k8s.io/v1"
MAPS = f"{TENANT}/api/v1/namespaces/default/configmaps"
MERGE_PATCH = "application/merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class Attacker:
    """Counts answers, by their code, or `closed` where the connection was closed instead."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.prepared = asyncio.Event()
        self.may_begin = asyncio.Event()
        self.answers: Counter[str] = Counter()
        self._connection: Connection | None = None

    async def ask(
        self, method: str, path: str, body: Any = None, *, accept: str = JSON, kind: str = JSON, user: str = ""
    ) -> int:
        """The code of the answer, which is read whole. `user` is whom the request impersonates."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        try:
            if self._connection is None:
                self._connection = await Connection.open(self.target)
            self._connection.send_bytes(self.head(method, path, len(data), accept, kind, user) + data)
            status, _ = await self._connection.answer()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            self._connection = None
            self.answers["closed"] += 1
            await asyncio.sleep(0.05)
            return 0
        self.answers[str(status)] += 1
        return status

    def head(self, method: str, path: str, length: int, accept: str = JSON, kind: str = JSON, user: str = "") -> bytes:
        impersonated = f"Impersonate-User: {user}\r\n" if user else ""
        return (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self.target.token}\r\n"
            f"{impersonated}Accept: {accept}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
        ).encode()

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self.target.address, ssl=tls(), limit=1 << 12)

    async def define(self, plural: str, spec: dict[str, Any], **more: Any) -> str:
        """The path of the objects of a new definition, once it is served."""
        await self.ask("POST", DEFINITIONS, a_definition(plural, spec, **more))
        path = f"{TENANT}/apis/{plural}.example.com/v1/namespaces/default/{plural}"
        for _ in range(200):
            if await self.ask("GET", f"{path}?limit=1") == 200:
                break
            await asyncio.sleep(0.05)
        return path

    async def owner(self, name: str) -> dict[str, Any]:
        """The reference to a new ConfigMap, for the objects that it is to own."""
        await self.ask("POST", MAPS, {"metadata": {"name": name}})
        connection = await Connection.open(self.target)
        _, answer = await connection.request("GET", f"{MAPS}/{name}")
        await connection.close()
        return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": json.loads(answer)["metadata"]["uid"]}

    async def policy(self, name: str, expression: str, plural: str) -> None:
        """A policy that validates writes of a resource."""
        rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": [plural]}
        spec = {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": expression}],
        }
        head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
        await self.ask(
            "POST",
            f"{ADMISSION}/validatingadmissionpolicies",
            {**head, "kind": "ValidatingAdmissionPolicy", "spec": spec},
        )
        bound = {"policyName": name, "validationActions": ["Deny"]}
        binding = {**head, "kind": "ValidatingAdmissionPolicyBinding", "spec": bound}
        await self.ask("POST", f"{ADMISSION}/validatingadmissionpolicybindings", binding)

    async def parallel(self, count: int, work: Callable[[Attacker], Awaitable[None]]) -> None:
        """`work` on so many connections, each for ever, once it may begin."""

        async def one() -> None:
            another = Attacker(self.target)
            another.answers = self.answers
            while True:
                try:
                    await work(another)
                except OSError:  # where the work does not count it
                    self.answers["closed"] += 1
                    await asyncio.sleep(0.05)

        self.prepared.set()
        await self.may_begin.wait()
        self.answers.clear()
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(one())


def a_definition(plural: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A definition whose objects have this schema of their spec; `more` is of its version."""
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{plural}.example.com"},
        "spec": {
            "group": f"{plural}.example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.capitalize()},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema, **more}],
        },
    }


def an_object(path: str, name: str, spec: Any, **metadata: Any) -> dict[str, Any]:
    """An object of the resource at `path`, as `define` gives it."""
    group, version, _, _, plural = path.partition("/apis/")[2].split("/")
    found = {"name": name, **metadata} if name else {"generateName": "x-", **metadata}
    return {"apiVersion": f"{group}/{version}", "kind": plural.capitalize(), "metadata": found, "spec": spec}
