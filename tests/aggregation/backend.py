"""Servers that stand behind the one under test: each test says what they answer."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.aggregation.objects import PATH, api_service
from tests.api.client import Client, eventually
from tests.application import new_tenant
from tests.webhooks.hostile import Certificates, certificates, serving

GROUP, VERSION = "metrics.example.com", "v1"
BASE = f"/apis/{GROUP}/{VERSION}"
NAME = f"{VERSION}.{GROUP}"
METRICS = f"{BASE}/namespaces/default/metrics"
SERVICE = "metrics.kube-system"
# Longer than any test.
NEVER = 3600.0
RESOURCES = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": f"{GROUP}/{VERSION}",
    "resources": [
        {"name": "metrics", "singularName": "metric", "namespaced": True, "kind": "Metric", "verbs": ["get", "list"]}
    ],
}


@dataclass
class Request:
    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def all(self, name: str) -> list[str]:
        return [value for found, value in self.headers if found == name]

    def header(self, name: str) -> str:
        return ", ".join(self.all(name))

    async def answer(self, body: bytes, code: int = 200, **headers: str) -> None:
        """Names of headers with `_` for `-`."""
        lines = [f"HTTP/1.1 {code} X"] + [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if "transfer_encoding" not in headers and code not in (204, 304):
            lines.append(f"content-length: {len(body)}")
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if self.method == "HEAD" else body))
        await self.writer.drain()

    async def answer_json(self, value: Any, code: int = 200) -> None:
        await self.answer(json.dumps(value).encode(), code, content_type="application/json")


Answer = Callable[[Request], Awaitable[None]]


@dataclass
class Backend:
    """`answer` is what it does with everything but its discovery document. Requests are kept in their order.

    Unless it `reads_bodies`, it leaves them to `answer`.
    """

    answer: Answer
    port: int = 0
    ca: str = ""
    discovery: Answer | None = None
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    reads_bodies: bool = True

    @property
    def bundle(self) -> str:
        return base64.b64encode(self.ca.encode()).decode()

    def of(self, path: str) -> list[Request]:
        return [request for request in self.requests if request.target.partition("?")[0] == path]

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while (request := await self._read(reader, writer)) is not None:
            self.requests.append(request)
            if request.target == BASE:
                await (self.discovery or _tell_resources)(request)
            else:
                await self.answer(request)

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, OSError):
            return None
        first, *lines = head.decode("latin-1").strip().split("\r\n")
        method, target, _ = first.split(" ")
        headers = [(name.lower(), value) for name, _, value in (line.partition(": ") for line in lines)]
        found = dict(headers)
        body = b""
        if not self.reads_bodies:
            pass
        elif "content-length" in found:
            body = await reader.readexactly(int(found["content-length"]))
        elif found.get("transfer-encoding") == "chunked":
            while size := int(await reader.readline(), 16):
                body += (await reader.readexactly(size + 2))[:-2]
            await reader.readline()
        return Request(method, target, headers, body, reader, writer)


async def _tell_resources(request: Request) -> None:
    await request.answer_json(RESOURCES)


async def hang(_: Request) -> None:
    await asyncio.sleep(NEVER)


async def tell_request(request: Request) -> None:
    """Answers with what has come."""
    await request.answer_json(
        {"method": request.method, "target": request.target, "headers": request.headers, "body": request.body.decode()}
    )


@contextlib.asynccontextmanager
async def backend(
    folder: Path, answer: Answer = tell_request, *, name: str = f"{SERVICE}.svc", client_ca: str = ""
) -> AsyncIterator[Backend]:
    """A server with a certificate for `name`; with `client_ca` it demands a certificate of its clients."""
    found = certificates(folder, name)
    if client_ca:
        found.context.load_verify_locations(cadata=client_ca)
        found.context.verify_mode = ssl.CERT_REQUIRED
    made = Backend(answer)
    async with serving(Certificates(found.context, found.ca), made.handle) as server:
        made.port, made.ca = server.port, server.ca
        yield made


def placed(*backends: Backend, services: Mapping[str, Backend] | None = None) -> dict[str, Any]:
    """Settings by which the servers are found."""
    named = {SERVICE: backends[0]} if backends else {}
    return {"webhook_services": tuple(f"{n}=127.0.0.1:{b.port}" for n, b in {**named, **(services or {})}.items())}


@dataclass(frozen=True)
class Proxied:
    """An application, and a server that APIServices of its tenants may name. The tests of a module share both."""

    application: Client
    server: Backend


@contextlib.asynccontextmanager
async def behind(proxied: Proxied, answer: Answer = tell_request) -> AsyncIterator[tuple[Client, Backend]]:
    """The administrator of a new tenant, and the server that an APIService of theirs names. It has no OpenAPI documents."""

    async def handle(request: Request) -> None:
        if request.target.startswith("/openapi/"):
            await request.answer(b"", 404)
        else:
            await answer(request)

    client, server = await new_tenant(proxied.application), proxied.server
    server.answer = handle
    server.requests.clear()
    await register(client, server)
    yield client, server
    (await client.delete(f"{PATH}/{NAME}")).ok()


async def register(client: Client, server: Backend, name: str = NAME, *, available: bool = True, **spec: Any) -> None:
    """Makes the APIService, and waits until it says whether the server answers."""
    namespace = {"namespace": "kube-system", "name": "metrics"}
    tls = {} if "insecureSkipTLSVerify" in spec or "caBundle" in spec else {"caBundle": server.bundle}
    (await client.post(PATH, api_service(name, **{"service": namespace, **tls, **spec}))).ok(201)
    await wait_for_condition(client, name, "True" if available else "False")


async def wait_for_condition(client: Client, name: str, status: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    async def look() -> bool:
        obj = (await client.get(f"{PATH}/{name}")).ok(200)
        found.update(next(iter((obj.get("status") or {}).get("conditions") or []), {}))
        return found.get("status") == status

    await eventually(look)
    return found
