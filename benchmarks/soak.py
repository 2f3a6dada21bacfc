"""Everything at once, and whether it is right: `python -m benchmarks.soak`.

Clients of several tenants do at random what clients do: they create, change and delete objects, read lists and pages,
follow watches, restore earlier states, define kinds, send and read large objects, read slowly, and disconnect in the
middle. Each checks what it is answered. Printed are the findings, and the latencies of each kind of work.

A finding is an answer that none of its kind may have (429 and 5xx among them), one that takes longer than any load here
explains, and a contradiction: a write that was refused and is stored, a history or a watch that is not what was
written, a list that lacks an object, a right that outlives its binding. In the end the server may hold nothing for
clients that have gone. What is lost where requests meet, such as the wake-up of one that waits, shows here and in no
other benchmark.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from benchmarks import server
from benchmarks.client import JSON, MERGE_PATCH, Connection, Target, request_bytes, served, spread
from benchmarks.data import PLURAL, definition, thing
from benchmarks.report import keep, machine
from benchmarks.tenants import tenant_request

APPLY: Final = "application/apply-patch+yaml"
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
GROUP: Final = "soak.example.com"
OBJECTS: Final = 200
# A request that takes longer is a finding. It is less than what waiting requests are refused after.
SLOW_SECONDS: Final = 8.0
# Nothing is answered later than that.
PATIENCE_SECONDS: Final = 60.0
# What may be left of requests of clients that have gone.
_LEFT: Final = re.compile(rb"^(registry_(?:upload|answer)_bytes) (\S+)$", re.MULTILINE)


class Answer(NamedTuple):
    code: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Findings:
    """What all clients have found, and how long their requests have taken, in seconds."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)

    def add(self, text: str) -> None:
        self.texts.append(text)
        print(text, flush=True)


class Client:
    """One connection that works in one tenant. Names of its objects begin with its number."""

    def __init__(self, target: Target, findings: Findings, tenant: str, number: int, seed: int) -> None:
        self._target = target
        self._findings = findings
        self._random = random.Random(seed)
        self._root = f"/clusters/{tenant}"
        self._things = f"{self._root}/apis/{GROUP}/v1/namespaces/default/{PLURAL}"
        self._maps = f"{self._root}/api/v1/namespaces/default/configmaps"
        self._number = number
        self._made = 0
        self._work = ""
        self._connection: Connection | None = None

    async def run(self, until: float) -> None:
        works: dict[Callable[[], Awaitable[None]], int] = {
            self.read: 8,
            self.list_objects: 6,
            self.change: 6,
            self.apply: 2,
            self.write_large: 2,
            self.read_large: 2,
            self.watch: 2,
            self.restore: 2,
            self.define: 1,
            self.grant: 1,
            self.leave: 3,
            self.read_slowly: 1,
        }
        while time.monotonic() < until:
            work = self._random.choices([*works], [*works.values()])[0]
            self._work = work.__name__
            try:
                await work()
            except (TimeoutError, OSError, asyncio.IncompleteReadError) as error:
                self._findings.add(f"{self._work}: {error!r}")
                self._drop()
        self._drop()

    # What clients do.

    async def read(self) -> None:
        await self._ask("GET", f"{self._things}/o-{self._random.randrange(OBJECTS)}", expected=(200,))

    async def list_objects(self) -> None:
        query = self._random.choice(["", "?limit=20", "?limit=500", "?limit=500", "?labelSelector=a%3Db"])
        accept = self._random.choice([JSON, JSON, TABLE])
        answer = await self._ask("GET", self._things + query, accept=accept, expected=(200,))
        if accept == JSON and query in ("", "?limit=500"):
            names = {item["metadata"]["name"] for item in answer.json["items"]}
            self._require(names.issuperset({f"o-{n}" for n in range(OBJECTS)}), "the list lacks objects")

    async def change(self) -> None:
        name = self._name()
        await self._ask("POST", self._things, thing(GROUP, name, 1_000), expected=(201,))
        shared = f"{self._things}/o-{self._random.randrange(OBJECTS)}"
        for path in (f"{self._things}/{name}", shared):
            patch = {"metadata": {"annotations": {f"by-{self._number}": name}}}
            changed = await self._ask("PATCH", path, patch, content_type=MERGE_PATCH, expected=(200,))
            self._require(changed.json["metadata"]["annotations"][f"by-{self._number}"] == name, "the patch is lost")
        await self._ask("DELETE", f"{self._things}/{name}", expected=(200,))
        await self._ask("GET", f"{self._things}/{name}", expected=(404,))

    async def apply(self) -> None:
        field, value = f"of-{self._number}", self._name()
        wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": {field: value}}
        path = f"{self._maps}/shared?fieldManager={field}&force=true"
        answer = await self._ask("PATCH", path, wanted, content_type=APPLY, expected=(200, 201))
        self._require(answer.json["data"][field] == value, "the applied field is lost")

    async def write_large(self) -> None:
        name = self._name()
        made = {"metadata": {"name": name}, "data": {"text": "x" * self._random.choice([300_000, 900_000])}}
        answer = await self._ask("POST", self._maps, made, expected=(201,))
        stored = await self._ask("GET", f"{self._maps}/{name}", expected=(200, 404))
        self._require(
            stored.code == (200 if answer.code == 201 else 404), f"answered with {answer.code}, then {stored.code}"
        )
        await self._ask("DELETE", f"{self._maps}/{name}", expected=(200, 404))

    async def read_large(self) -> None:
        await self._ask("GET", self._random.choice([f"{self._maps}/large", self._maps]), expected=(200,))

    async def watch(self) -> None:
        name = self._name()
        revision = (await self._ask("GET", f"{self._maps}?limit=1", expected=(200,))).json["metadata"][
            "resourceVersion"
        ]
        query = f"watch=true&timeoutSeconds=30&resourceVersion={revision}&fieldSelector=metadata.name%3D{name}"
        watching = await Connection.open(self._target)
        try:
            watching.send("GET", f"{self._maps}?{query}")
            await asyncio.wait_for(watching.head(), PATIENCE_SECONDS)
            await self._ask("POST", self._maps, {"metadata": {"name": name}}, expected=(201,))
            for n in range(3):
                patch = {"data": {"n": str(n)}}
                await self._ask("PATCH", f"{self._maps}/{name}", patch, content_type=MERGE_PATCH, expected=(200,))
            await self._ask("DELETE", f"{self._maps}/{name}", expected=(200,))
            seen = await asyncio.wait_for(_event_types(watching), PATIENCE_SECONDS)
        finally:
            watching.drop()
        self._require(seen == ["ADDED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED"], f"the watch saw {seen}")

    async def restore(self) -> None:
        name = self._name()
        path = f"{self._things}/{name}"
        answers = [await self._ask("POST", self._things, thing(GROUP, name, 500), expected=(201,))]
        for n in range(3):
            patch = {"metadata": {"labels": {"n": str(n)}}}
            answers.append(await self._ask("PATCH", path, patch, content_type=MERGE_PATCH, expected=(200,)))
        written = [answer.json["metadata"]["resourceVersion"] for answer in answers]
        history = (await self._ask("GET", f"{path}/history", expected=(200,))).json["items"]
        self._require([item["resourceVersion"] for item in reversed(history)] == written, "the history is another one")
        restored = await self._ask("POST", f"{path}/restore", {"resourceVersion": written[1]}, expected=(200,))
        self._require(restored.json["metadata"]["labels"]["n"] == "0", "another state was restored")
        await self._ask("DELETE", path, expected=(200,))

    async def define(self) -> None:
        group = f"g{self._name()}.example.com"
        definitions = f"{self._root}/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await self._ask("POST", definitions, definition(group), expected=(201,))
        things = f"{self._root}/apis/{group}/v1/namespaces/default/{PLURAL}"
        await served(self._target, things)
        await self._ask("POST", things, thing(group, "a", 500), expected=(201,))
        await self._ask("DELETE", f"{definitions}/{PLURAL}.{group}", expected=(200,))

    async def grant(self) -> None:
        name, rules = self._name(), [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
        rbac = f"{self._root}/apis/rbac.authorization.k8s.io/v1"
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}
        binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
        await self._ask("POST", f"{rbac}/clusterroles", {"metadata": {"name": name}, "rules": rules}, expected=(201,))
        await self._ask("POST", f"{rbac}/clusterrolebindings", binding, expected=(201,))
        self._require(await self._is_allowed(name), "a right is missing")
        await self._ask("DELETE", f"{rbac}/clusterrolebindings/{name}", expected=(200,))
        self._require(not await self._is_allowed(name), "a right outlives its binding")
        await self._ask("DELETE", f"{rbac}/clusterroles/{name}", expected=(200,))

    async def leave(self) -> None:
        """Disconnects in the middle of a request, or of its answer."""
        large = json.dumps({"metadata": {"name": "left"}, "data": {"text": "x" * 500_000}}).encode()
        request = self._random.choice(
            [
                request_bytes(self._target, "GET", self._things),
                request_bytes(self._target, "GET", f"{self._maps}?watch=true"),
                request_bytes(self._target, "GET", f"{self._maps}/large"),
                request_bytes(self._target, "POST", f"{self._maps}?dryRun=All", large),
                request_bytes(self._target, "POST", f"{self._maps}?dryRun=All", large)[:100_000],
            ]
        )
        leaving = await Connection.open(self._target)
        leaving.send_bytes(request)
        await asyncio.sleep(self._random.choice([0, 0.001, 0.01, 0.1]))  # its answer is on its way, or not
        leaving.abort()

    async def read_slowly(self) -> None:
        reading = await Connection.open(self._target)
        try:
            reading.send("GET", self._random.choice([self._things, self._maps]))
            async with asyncio.timeout(2):
                while await reading.reader.read(20_000):  # noqa: ASYNC110 (nothing is waited for: the client is slow)
                    await asyncio.sleep(0.02)
        except TimeoutError:
            pass
        finally:
            reading.abort()

    # How.

    def _name(self) -> str:
        self._made += 1
        return f"{self._number}-{self._made}"

    async def _is_allowed(self, user: str) -> bool:
        asked = {"user": user, "resourceAttributes": {"verb": "get", "resource": "configmaps", "namespace": "default"}}
        path = f"{self._root}/apis/authorization.k8s.io/v1/subjectaccessreviews"
        answer = await self._ask("POST", path, {"spec": asked}, expected=(201,))
        return bool(answer.json["status"]["allowed"])

    def _require(self, is_right: bool, what: str) -> None:
        if not is_right:
            self._findings.add(f"{self._work}: {what}")

    async def _ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        expected: Sequence[int],
    ) -> Answer:
        if self._connection is None:
            self._connection = await Connection.open(self._target)
        data = b"" if body is None else json.dumps(body).encode()
        request = request_bytes(self._target, method, path, data, content_type)
        self._connection.send_bytes(request.replace(b"Accept: application/json", f"Accept: {accept}".encode(), 1))
        began = time.monotonic()
        answer = Answer(*await asyncio.wait_for(self._connection.answer(), PATIENCE_SECONDS))
        seconds = time.monotonic() - began
        self._findings.seconds[self._work].append(seconds)
        if answer.code not in expected or seconds > SLOW_SECONDS:
            self._findings.add(
                f"{self._work}: {method} {path}: {answer.code} after {seconds:.2f} s {answer.body[:200]!r}"
            )
        return answer

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.drop()
            self._connection = None


async def _event_types(watching: Connection) -> list[str]:
    """Reads events up to a deletion."""
    types, data = list[str](), b""
    async for chunk in watching.chunks():
        *lines, data = (data + chunk).split(b"\n")
        types += [json.loads(line)["type"] for line in lines]
        if "DELETED" in types:
            break
    return types


async def _prepare(target: Target, tenants: Sequence[str]) -> None:
    await spread(target, [tenant_request(tenant) for tenant in tenants])
    for tenant in tenants:
        root = f"/clusters/{tenant}"
        path = f"{root}/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await spread(target, [("POST", path, json.dumps(definition(GROUP)).encode(), JSON)])
        things, maps = (
            f"{root}/apis/{GROUP}/v1/namespaces/default/{PLURAL}",
            f"{root}/api/v1/namespaces/default/configmaps",
        )
        await served(target, things)
        large = json.dumps({"metadata": {"name": "large"}, "data": {"text": "x" * 900_000}}).encode()
        objects = [("POST", things, json.dumps(thing(GROUP, f"o-{n}", 2_000)).encode(), JSON) for n in range(OBJECTS)]
        await spread(target, [*objects, ("POST", maps, large, JSON)])


async def _left(target: Target) -> str:
    """Returns what the server still holds for clients after some seconds; "" if that is nothing."""
    for _ in range(100):
        connection = await Connection.open(target)
        _, body = await connection.request("GET", "/metrics")
        await connection.close()
        left = [f"{name.decode()} is {value.decode()}" for name, value in _LEFT.findall(body) if float(value)]
        if not left:
            break
        await asyncio.sleep(0.1)
    return ", ".join(left)


async def soak(target: Target, tenants: int, clients: int, seconds: float, seed: int) -> Findings:
    """Returns what the clients have found."""
    findings, names = Findings(), [f"soak-{n}" for n in range(tenants)]
    await _prepare(target, names)
    until = time.monotonic() + seconds
    working = [Client(target, findings, names[n % tenants], n, seed * 1_000 + n).run(until) for n in range(clients)]
    await asyncio.gather(*working)
    if left := await _left(target):
        findings.add(f"in the end: {left}")
    return findings


def run(tenants: int, clients: int, seconds: float, *, workers: int = 1, seed: int = 1) -> Findings:
    """Runs a server, and returns what the clients have found."""
    with server.folder() as data, server.running(data, workers, None) as running:
        return asyncio.run(soak(running.target, tenants, clients, seconds, seed))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--tenants", type=int, default=3)
    parser.add_argument("--clients", type=int, default=24, help="of all tenants")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--workers", type=int, default=1, help="processes of the server")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    findings = run(given.tenants, given.clients, given.seconds, workers=given.workers, seed=given.seed)
    rows = {}
    for work, seconds in sorted(findings.seconds.items()):
        ordered = sorted(seconds)
        p50, p99, longest = (1e3 * ordered[part] for part in (len(ordered) // 2, len(ordered) * 99 // 100, -1))
        rows[work] = {"requests": len(ordered), "p50_ms": p50, "p99_ms": p99, "max_ms": longest}
        print(f"{work:14} {len(ordered):7,} requests   p50 {p50:7.1f} ms   p99 {p99:7.1f} ms   max {longest:7.1f} ms")
    print(f"{len(findings.texts)} findings")
    print(f"kept in {keep('soak', {'machine': machine(), 'findings': findings.texts, 'rows': rows})}")
    return 1 if findings.texts else 0


if __name__ == "__main__":
    raise SystemExit(main())
