"""Very many of what is small: leases, definitions, objects that one request deletes, watches, resumed TLS sessions."""

from __future__ import annotations

import asyncio
import ssl
from itertools import count, cycle
from typing import Any

from benchmarks.attacks.attacker import (
    ANYTHING,
    DEFINITIONS,
    MAPS,
    MERGE_PATCH,
    TENANT,
    Attacker,
    a_definition,
    an_object,
)
from benchmarks.client import tls

LEASES = f"{TENANT}/apis/coordination.k8s.io/v1/namespaces/default/leases"
# Requests at a time of a set-up: the server commits the creates that arrive together in one transaction.
_AT_ONCE = 32
# Connections that are made at a time.
_CONNECTIONS_AT_ONCE = 8


async def _create(attacker: Attacker, path: str, bodies: list[dict[str, Any]]) -> None:
    async def create(some: list[dict[str, Any]]) -> None:
        one = Attacker(attacker.target)
        for body in some:
            await one.ask("POST", path, body)

    await asyncio.gather(*(create(bodies[i::_AT_ONCE]) for i in range(_AT_ONCE)))


async def leases(attacker: Attacker) -> None:
    """Thousands of leases, which are renewed as fast as possible."""
    head = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    names = [f"l{i}" for i in range(5_000)]
    await _create(attacker, LEASES, [{**head, "metadata": {"name": name}} for name in names])
    numbers = count()

    async def work(one: Attacker) -> None:
        i = next(numbers)
        spec = {"holderIdentity": f"h{i}", "renewTime": f"2026-01-01T00:00:00.{i % 1_000_000:06}Z"}
        await one.ask("PATCH", f"{LEASES}/{names[i % len(names)]}", {"spec": spec}, kind=MERGE_PATCH)

    await attacker.parallel(64, work)


async def many_definitions(attacker: Attacker) -> None:
    """The documents of a thousand definitions, of which one changes again and again."""
    spec = {"type": "object", "properties": {f"f{i}": {"type": "string", "description": "x" * 40} for i in range(20)}}
    await _create(attacker, DEFINITIONS, [a_definition(f"crowded{i}", spec) for i in range(1_000)])
    numbers = count()
    documents = cycle(["/openapi/v2", "/openapi/v3", "/apis", "/openapi/v3/apis/crowded7.example.com/v1"])

    async def work(one: Attacker) -> None:
        i = next(numbers)
        if i % 8 == 0:
            changed = a_definition("crowded7", {**spec, "description": str(i)})
            await one.ask("PATCH", f"{DEFINITIONS}/crowded7.crowded7.example.com", changed, kind=MERGE_PATCH)
        accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList" if i % 3 == 0 else "*/*"
        await one.ask("GET", f"{TENANT}{next(documents)}", accept=accept)

    await attacker.parallel(8, work)


async def dry_collections(attacker: Attacker) -> None:
    """Dry runs of the deletion of 20,000 objects, with selectors of all kinds."""
    path = await attacker.define("numerous", ANYTHING)
    metadata = [{"labels": {"n": str(i % 7), "m": f"v{i % 501}"}} for i in range(20_000)]
    await _create(attacker, path, [an_object(path, f"n{i}", {"a": i}, **more) for i, more in enumerate(metadata)])
    numbers = ",".join(f"v{i}" for i in range(400))
    selectors = cycle(
        [
            "",
            "&labelSelector=n%3D3",
            f"&labelSelector=m+in+({numbers})",
            f"&labelSelector=m+notin+({numbers})",
            "&labelSelector=!other",
            "&fieldSelector=metadata.name!%3Dn1",
        ]
    )

    async def work(one: Attacker) -> None:
        await one.ask("DELETE", f"{path}?dryRun=All{next(selectors)}")

    await attacker.parallel(8, work)


async def many_watches(attacker: Attacker) -> None:
    """Two thousand watches of one user, to each of which every change of an object of 10 kB is sent."""
    await attacker.ask("POST", MAPS, {"metadata": {"name": "seen"}, "data": {"text": "x" * 10_000}})
    request = attacker.head("GET", f"{MAPS}?watch=true&allowWatchBookmarks=true&resourceVersion=0", 0)
    open_ones: set[asyncio.Transport] = set()

    class Watch(asyncio.Protocol):
        transport: asyncio.Transport

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            self.transport = transport
            open_ones.add(transport)
            transport.write(request)

        def connection_lost(self, error: Exception | None) -> None:
            open_ones.discard(self.transport)

    loop, numbers = asyncio.get_running_loop(), count()

    async def watch() -> None:
        try:
            await loop.create_connection(Watch, *attacker.target.address, ssl=tls())
        except OSError:
            attacker.answers["closed"] += 1

    for _ in range(2_000 // _CONNECTIONS_AT_ONCE):
        await asyncio.gather(*(watch() for _ in range(_CONNECTIONS_AT_ONCE)))

    async def work(one: Attacker) -> None:
        i = next(numbers)
        if len(open_ones) < 2_000:
            await watch()
        await one.ask("PATCH", f"{MAPS}/seen", {"data": {"n": str(i)}}, kind=MERGE_PATCH)

    await attacker.parallel(2, work)


async def resumptions(attacker: Attacker) -> None:
    """TLS sessions without a token that are resumed again and again, with 60 kB of protocols to choose from."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([f"{i:0>250}" for i in range(240)])

    async def work(one: Attacker) -> None:
        session: ssl.SSLSession | None = None
        for _ in range(20):
            reader, writer = await asyncio.open_connection(*one.target.address)
            try:
                session = await _resume(one, context, session, reader, writer)
            except (OSError, ssl.SSLError):
                one.answers["closed"] += 1
            finally:
                writer.transport.abort()

    await attacker.parallel(16, work)


async def _resume(
    one: Attacker,
    context: ssl.SSLContext,
    session: ssl.SSLSession | None,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> ssl.SSLSession | None:
    """Returns the session of a new connection, which is that of `session` if the server accepts it."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    connection = context.wrap_bio(incoming, outgoing, session=session)
    asked = False
    while True:
        try:
            if not asked:
                connection.do_handshake()
                connection.write(b"GET /version HTTP/1.1\r\nHost: a\r\n\r\n")
                asked = True
            connection.read(1 << 12)
            break
        except ssl.SSLWantReadError:
            writer.write(outgoing.read())
            data = await reader.read(1 << 14)
            if not data:
                one.answers["closed"] += 1
                return None
            incoming.write(data)
    one.answers["resumed" if connection.session_reused else "new"] += 1
    return connection.session
