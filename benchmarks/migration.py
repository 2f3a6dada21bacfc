"""Storage migration under writes: `python -m benchmarks.migration` measures time and cost, and checks all objects.

Objects are stored at v1; the storage version becomes v2; a StorageVersionMigration is created while a writer goes on at
a fixed rate, at both versions. With `--kill` the server is killed in the middle (SIGKILL) and started again. At the end
every object must reflect the writer's acknowledged writes at both versions, and v1 can be removed from the definition.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import server
from benchmarks.client import JSON, MERGE_PATCH, Connection, Failed, Target, served, spread
from benchmarks.report import keep, machine

GROUP, PLURAL = "migration.example.com", "things"
DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{PLURAL}.{GROUP}"
MIGRATIONS = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations"
MIGRATION = {
    "apiVersion": "storagemigration.k8s.io/v1beta1",
    "kind": "StorageVersionMigration",
    "metadata": {"name": "all"},
    "spec": {"resource": {"group": GROUP, "resource": PLURAL}},
}
_KILL_AT = 0.3  # of the objects
PATIENCE_SECONDS = 3600.0


def definition(storage: str, versions: Sequence[str] = ("v1", "v2")) -> dict[str, Any]:
    text = {"type": "string"}
    spec = {
        "type": "object",
        "properties": {
            "size": {"type": "integer"},
            "count": {"type": "integer"},
            "text": text,
            "parts": {"type": "array", "items": text},
        },
    }
    schema = {"type": "object", "properties": {"spec": spec}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": PLURAL, "kind": "Thing"},
            "versions": [
                {
                    "name": name,
                    "served": True,
                    "storage": name == storage,
                    "schema": {"openAPIV3Schema": schema | {"description": name}},
                }
                for name in versions
            ],
        },
    }


def collection(version: str) -> str:
    return f"/apis/{GROUP}/{version}/namespaces/default/{PLURAL}"


def thing(name: str, size: int) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Thing",
        "metadata": {"name": name},
        "spec": {"size": size, "count": 0, "text": "x" * 200, "parts": ["a", "b"]},
    }


@dataclass
class Writer:
    """Patches, creates and deletes objects at a fixed rate, and keeps the expected state of each from the acknowledged
    writes.

    If a connection broke before the answer, both outcomes are right: `unsure` has the object without the write.
    """

    rate: float
    model: dict[str, dict[str, Any] | None]
    unsure: dict[str, list[dict[str, Any] | None]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    conflicts: int = 0
    made: int = 0
    late_seconds: float = 0.0
    _random: random.Random = field(default_factory=lambda: random.Random(1))

    async def run(self, target: Target, stop: asyncio.Event) -> None:
        """Writes until it is stopped or the server has ended."""
        connection = await Connection.open(target)
        names = [name for name, spec in self.model.items() if spec is not None]
        began, sent = time.monotonic(), 0
        try:
            while not stop.is_set():
                due = began + sent / self.rate
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                sent += 1
                await self._write(connection, names)
                self.late_seconds = max(self.late_seconds, time.monotonic() - due)
            await connection.close()
        except (OSError, asyncio.IncompleteReadError):
            pass

    async def _write(self, connection: Connection, names: list[str]) -> None:
        self.made += 1
        version = self._random.choice(("v1", "v2"))
        kind, name = self._random.random(), self._random.choice(names)
        if kind < 0.1:
            name = f"new-{self.made}"
            spec = thing(name, self.made)["spec"]
            body = thing(name, self.made) | {"apiVersion": f"{GROUP}/{version}"}
            names.append(name)
            await self._send(connection, name, spec, "POST", collection(version), body, JSON)
        elif kind < 0.15:
            await self._send(connection, name, None, "DELETE", f"{collection(version)}/{name}", None, JSON)
        elif (spec_now := self.model.get(name)) is not None:
            spec = spec_now | {"count": spec_now["count"] + 1}
            await self._send(
                connection,
                name,
                spec,
                "PATCH",
                f"{collection(version)}/{name}",
                {"spec": {"count": spec["count"]}},
                MERGE_PATCH,
            )

    async def _send(
        self,
        connection: Connection,
        name: str,
        spec: dict[str, Any] | None,
        method: str,
        path: str,
        body: dict[str, Any] | None,
        content_type: str,
    ) -> None:
        if name in self.unsure or (method == "DELETE" and self.model.get(name) is None):
            return
        began = time.monotonic()
        self.unsure[name] = [self.model.get(name), spec]
        data = b"" if body is None else json.dumps(body).encode()
        status, answer = await connection.request(method, path, data, content_type)
        del self.unsure[name]
        self.seconds.append(time.monotonic() - began)
        if status == 409:
            self.conflicts += 1
        elif status >= 300:
            raise Failed(f"{method} {path}: {status} {answer[:300]!r}")
        else:
            self.model[name] = spec


async def specs(target: Target, version: str) -> dict[str, dict[str, Any]]:
    """Returns all objects at a version, read page by page."""
    connection = await Connection.open(target)
    found: dict[str, dict[str, Any]] = {}
    more = ""
    while True:
        page = await connection.json("GET", f"{collection(version)}?limit=5000{more}")
        found |= {item["metadata"]["name"]: item["spec"] for item in page["items"]}
        token = page["metadata"].get("continue")
        if not token:
            await connection.close()
            return found
        more = f"&continue={token}"


async def fill(target: Target, objects: int) -> dict[str, dict[str, Any] | None]:
    connection = await Connection.open(target)
    await connection.json("POST", DEFINITION.rpartition("/")[0], definition("v1"))
    await served(target, collection("v2"))
    await connection.close()
    things = [thing(f"thing-{n}", n) for n in range(objects)]
    await spread(target, [("POST", collection("v1"), json.dumps(t).encode(), JSON) for t in things], 16)
    return {t["metadata"]["name"]: t["spec"] for t in things}


async def switch(target: Target) -> None:
    connection = await Connection.open(target)
    await connection.json("PATCH", DEFINITION, {"spec": definition("v2")["spec"]}, MERGE_PATCH)
    await connection.json("POST", MIGRATIONS, MIGRATION)
    await connection.close()


def _condition(migration: dict[str, Any], kind: str) -> bool:
    return any(c["type"] == kind and c["status"] == "True" for c in migration["status"].get("conditions") or ())


async def finished(target: Target, revisions: int) -> bool:
    """Waits for the end of the migration, or until that many revisions have been assigned since its start."""
    connection = await Connection.open(target)
    try:
        first = int((await connection.json("GET", f"{collection('v2')}?limit=1"))["metadata"]["resourceVersion"])
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            migration = await connection.json("GET", f"{MIGRATIONS}/all")
            if _condition(migration, "Succeeded"):
                return True
            if _condition(migration, "Failed"):
                raise Failed(json.dumps(migration["status"]))
            now = int((await connection.json("GET", f"{collection('v2')}?limit=1"))["metadata"]["resourceVersion"])
            if now - first >= revisions:
                return False
            await asyncio.sleep(0.1)
        raise Failed("the migration does not end")
    finally:
        await connection.close()


async def migrate(target: Target, writer: Writer, revisions: int) -> bool:
    """Continues to write until the migration has succeeded (True) or has reached that point."""
    stop = asyncio.Event()
    writing = asyncio.create_task(writer.run(target, stop))
    try:
        return await finished(target, revisions)
    finally:
        stop.set()
        await writing


async def differences(target: Target, writer: Writer) -> list[str]:
    """Returns the deviations from the expected objects, after v1 has been removed from the definition."""
    wrong = []
    connection = await Connection.open(target)
    stored = (await connection.json("GET", DEFINITION))["status"]["storedVersions"]
    if stored != ["v2"]:
        wrong.append(f"status.storedVersions is {stored}")
    seen = {version: await specs(target, version) for version in ("v1", "v2")}
    await connection.json("PATCH", DEFINITION, {"spec": definition("v2", ["v2"])["spec"]}, MERGE_PATCH)
    await connection.close()
    seen["v2 without v1"] = await specs(target, "v2")
    for version, found in seen.items():
        for name in writer.model.keys() | found.keys():
            right = writer.unsure.get(name) or [writer.model.get(name)]
            if found.get(name) not in right:
                wrong.append(f"{name} at {version}: {found.get(name)} instead of {right}")
    return wrong


def run(data: Path, options: argparse.Namespace) -> dict[str, Any]:
    arguments = ["--migrate-storage", "off", "--migrate-storage-rate", str(options.migration_rate)]
    result: dict[str, Any] = {"objects": options.objects, "writes_a_second": options.rate, "killed": options.kill}
    with server.running(data, 1, options.database_url, arguments) as one:
        began = time.monotonic()
        writer = Writer(options.rate, asyncio.run(fill(one.target, options.objects)))
        result["fill_seconds"] = round(time.monotonic() - began, 1)
        asyncio.run(switch(one.target))
        began, before = time.monotonic(), one.usage()
        some = int(options.objects * _KILL_AT) if options.kill else sys.maxsize
        done = asyncio.run(migrate(one.target, writer, some))
        cost = one.usage().since(before)
        result |= {"server_cpu_seconds": round(cost.server, 1), "postgres_cpu_seconds": round(cost.postgres, 1)}
        if done:
            result["seconds"] = round(time.monotonic() - began, 1)
            result["wrong"] = asyncio.run(differences(one.target, writer))
        else:
            one.process.kill()
            one.process.wait(60)
    if not done:
        with server.running(data, 1, options.database_url, arguments) as again:
            result["downtime_seconds"] = round(again.started_seconds, 1)
            asyncio.run(migrate(again.target, writer, sys.maxsize))
            result["seconds"] = round(time.monotonic() - began, 1)
            result["wrong"] = asyncio.run(differences(again.target, writer))
    taken = sorted(writer.seconds)
    return result | {
        "writes": len(taken),
        "conflicts": writer.conflicts,
        "unanswered": len(writer.unsure),
        "write_p50_ms": round(taken[len(taken) // 2] * 1000, 1),
        "write_p99_ms": round(taken[int(len(taken) * 0.99)] * 1000, 1),
        "write_max_ms": round(taken[-1] * 1000, 1),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.migration", description=__doc__.partition("\n")[0])
    parser.add_argument("--database-url", help="PostgreSQL to use; an embedded one of its own by default")
    parser.add_argument("--objects", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=50.0, help="writes a second that go on")
    parser.add_argument("--migration-rate", type=int, default=1000, help="objects a second that are migrated at most")
    parser.add_argument("--kill", action="store_true", help="SIGKILL to the server in the middle")
    parser.add_argument("--keep", action="store_true", help="write the figures into benchmarks/results")
    options = parser.parse_args(arguments)
    with server.folder() as data:
        result = run(data, options)
    for name, value in result.items():
        print(f"{name:24} {value if name != 'wrong' else len(value)}")
    for one in result["wrong"][:20]:
        print(one, file=sys.stderr)
    if options.keep:
        print(f"kept in {keep('migration', {'machine': machine(), **result})}")
    return 1 if result["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
