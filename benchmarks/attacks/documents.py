"""What is no resource: metrics, health, the console, OpenAPI and discovery, also without a token."""

from __future__ import annotations

import asyncio
import socket
from itertools import count, cycle

from benchmarks.attacks.attacker import ANYTHING, DEFINITIONS, TENANT, Attacker, a_definition
from benchmarks.client import tls


async def scrapes(attacker: Attacker) -> None:
    """Metrics of hundreds of resources, asked for by many at once."""
    for i in range(300):
        path = f"{TENANT}/apis/g{i}.example.com/v1/namespaces/default/things"
        await attacker.ask("GET", path)
    for i in range(120):
        path = await attacker.define(f"scraped{i}", ANYTHING)
        for method in ("GET", "DELETE", "PUT", "PATCH"):
            await attacker.ask(method, f"{path}/a")

    async def work(one: Attacker) -> None:
        await one.ask("GET", "/metrics")

    await attacker.parallel(40, work)


async def health(attacker: Attacker) -> None:
    """Health, version and the like without a token, with checks to exclude by the thousand."""
    many = "&".join(f"exclude=c{i}" for i in range(990))
    paths = cycle(
        ["/readyz?verbose", f"/readyz?verbose&{many}", "/readyz/new-session", "/healthz/database", "/version", "/livez"]
    )

    async def work(one: Attacker) -> None:
        one.target = type(one.target)(one.target.url, "")
        await one.ask("GET", next(paths))

    await attacker.parallel(32, work)


async def console(attacker: Attacker) -> None:
    """The longest file of the console, which nobody reads, on a thousand connections without a token."""
    host, port = attacker.target.address

    async def work(one: Attacker) -> None:
        unread = socket.socket()
        unread.setblocking(False)
        unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        try:
            await asyncio.get_running_loop().sock_connect(unread, (host, port))
            _, writer = await asyncio.open_connection(sock=unread, ssl=tls(), server_hostname=host, limit=1)
            writer.write(b"GET /console/vendor/codemirror.js HTTP/1.1\r\nHost: a\r\n\r\n")
            one.answers["asked"] += 1
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await asyncio.sleep(30)
            writer.transport.abort()
        except OSError:
            one.answers["closed"] += 1
            unread.close()

    await attacker.parallel(1_000, work)


async def openapi(attacker: Attacker) -> None:
    """Documents of OpenAPI in every form, of 200 definitions that do not change, by many at once."""
    wide = {"type": "object", "properties": {f"f{i}": {"type": "string", "description": "x" * 80} for i in range(200)}}
    for i in range(200):
        await attacker.ask("POST", DEFINITIONS, a_definition(f"open{i}", wide))
    forms = ["application/json", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf", "*/*"]
    forms += ["application/com.github.proto-openapi.spec.v3@v1.0+protobuf"]
    numbers = count()
    documents = cycle(["/openapi/v2", "/openapi/v3", "/apis", "/openapi/v3/apis/open7.example.com/v1", "/openapi/v2"])

    async def work(one: Attacker) -> None:
        i = next(numbers)
        await one.ask("GET", f"{TENANT}{next(documents)}", accept=f"{forms[i % 4]}, a/b{i}")

    await attacker.parallel(32, work)


async def long_selectors(attacker: Attacker) -> None:
    """Field selectors of 100 kB without a token, each with thousands of escapes."""
    path = f"{TENANT}/api/v1/configmaps?fieldSelector=metadata.name=" + "%5C%2C" * 10_000

    async def work(one: Attacker) -> None:
        one.target = type(one.target)(one.target.url, "")
        await one.ask("GET", path)

    await attacker.parallel(8, work)
