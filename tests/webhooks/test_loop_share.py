"""Streams, handshakes and CA bundles of a tenant, as many as it likes: the event loop serves others meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import gc
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from registry.flowcontrol.loop_share import LoopShare
from registry.webhooks.connection import Origin, Unreachable
from registry.webhooks.egress import EgressPolicy
from registry.webhooks.http1 import HttpConnection
from registry.webhooks.https import HttpsClient
from registry.webhooks.streaming import Connections, PooledServer, TooManyConnections
from registry.webhooks.tls import TlsContexts
from tests.api.client import eventually
from tests.webhooks.hostile import Certificates, Server, answering, certificates, head, serving

LOCAL = EgressPolicy(["127.0.0.0/8"])


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture
async def https() -> AsyncIterator[HttpsClient]:
    made = HttpsClient(LOCAL)
    yield made
    await made.aclose()


async def have_ended(connections: list[HttpConnection]) -> None:
    """Waits until asyncio has closed the connections, whose sockets would be reported as leaks."""

    async def all_have() -> bool:
        return all(connection.is_lost for connection in connections)

    await eventually(all_have)


@contextlib.contextmanager
def elsewhere(trusted: Certificates, piece: bytes) -> Iterator[Server]:
    """A server in a thread, which answers with `piece` without end."""
    ready, servers = threading.Event(), list[Server]()
    loop, ended = asyncio.new_event_loop(), asyncio.Event()

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head(transfer_encoding="chunked"))
        while not ended.is_set():
            writer.write(piece)
            await writer.drain()
            # drain waits only for room in the buffer: without this, the loop might see neither `ended` nor a lost connection.
            await asyncio.sleep(0)

    async def run() -> None:
        async with serving(trusted, endless) as server:
            servers.append(server)
            ready.set()
            await ended.wait()
        await asyncio.sleep(0.1)  # until the connections have ended, if their clients read

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    try:
        assert ready.wait(60)
        yield servers[0]
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


async def longest_hold(seconds: float) -> float:
    """The most processor time that the loop has spent before it came round again, in seconds."""
    longest, until = 0.0, time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - began)
    return longest


async def test_streams_in_tiny_pieces_leave_the_loop_to_others(trusted: Certificates, https: HttpsClient) -> None:
    """64 of them kept it for 25 seconds."""
    connections = Connections(https.dialer)
    context = ssl.create_default_context(cadata=trusted.ca)

    async def read() -> None:
        connection = await connections.acquire(server)
        try:
            connection.begin(b"GET / HTTP/1.1\r\n\r\n")
            await connection.head()
            while await connection.read():
                pass
        finally:
            connections.release(server, connection)

    with elsewhere(trusted, b"1\r\na\r\n" * 10_000) as there:
        server = PooledServer(1, there.origin, "", context)
        readers = [asyncio.create_task(read()) for _ in range(64)]
        held = await longest_hold(3)
        assert not any(reader.done() for reader in readers)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
    assert held < 0.2  # processor time grows by half beside others' load


class InRecords:
    """A server whose answers are TLS records of one byte, which are ready before they are sent."""

    def __init__(self, trusted: Certificates, records: int) -> None:
        self._context, self._records = trusted.context, records
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ready = list[tuple[socket.socket, bytes]]()
        self.origin = Origin("127.0.0.1", self._listener.getsockname()[1], trusted.ca)

    def serve(self, count: int) -> None:
        for _ in range(count):
            accepted, _address = self._listener.accept()
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            session = self._context.wrap_bio(incoming, outgoing, server_side=True)
            received = b""
            while not received.endswith(b"\r\n\r\n"):
                try:
                    received += session.read(65536)
                except ssl.SSLWantReadError:
                    accepted.sendall(outgoing.read())
                    incoming.write(accepted.recv(65536))
            session.write(head(content_length=str(self._records)))
            for _ in range(self._records):
                session.write(b"x")
            self._ready.append((accepted, outgoing.read()))

    def answer(self) -> None:
        for accepted, data in self._ready:
            accepted.setblocking(False)
            accepted.send(data)  # as much as the system takes

    def close(self) -> None:
        for accepted, _ in self._ready:
            accepted.close()
        self._listener.close()


async def test_answers_in_tiny_records_leave_the_loop_to_others(trusted: Certificates, https: HttpsClient) -> None:
    """48 of them kept it for 0.4 seconds, and a tenant has hundreds of connections."""
    connections, count, there = Connections(https.dialer), 48, InRecords(trusted, 4_000)
    context = ssl.create_default_context(cadata=trusted.ca)
    server = PooledServer(1, there.origin, "", context)

    opened: list[HttpConnection] = []

    async def read() -> int:
        connection = await connections.acquire(server, new=True)
        opened.append(connection)
        try:
            connection.begin(b"GET / HTTP/1.1\r\n\r\n")
            await connection.head()
            length = 0
            while piece := await connection.read():
                length += len(piece)
            return length
        finally:
            connections.release(server, connection)

    readers = [asyncio.create_task(read()) for _ in range(count)]
    await asyncio.to_thread(there.serve, count)
    there.answer()
    held = await longest_hold(2)
    async with asyncio.timeout(60):
        assert await readers[0] == 4_000
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    connections.close()
    there.close()
    await have_ended(opened)
    assert held < 0.08


async def test_the_connections_of_all_tenants_are_bounded(
    trusted: Certificates, https: HttpsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tenant could have 512 at once, which take 300 MB while nobody reads what the servers send."""
    monkeypatch.setattr("registry.webhooks.streaming.CONNECTIONS_OF_PROCESS", 12)
    connections, context = Connections(https.dialer), ssl.create_default_context(cadata=trusted.ca)
    async with serving(trusted, answering([])) as there:
        servers = [PooledServer(tenant, there.origin, "", context) for tenant in range(5)]
        opened = list[tuple[PooledServer, HttpConnection]]()
        ever_opened: list[HttpConnection] = []

        async def take_all(server: PooledServer) -> int:
            count = 0
            with contextlib.suppress(TooManyConnections):
                while True:
                    connection = await connections.acquire(server, new=True)
                    opened.append((server, connection))
                    ever_opened.append(connection)
                    count += 1
            return count

        assert [await take_all(server) for server in servers[:3]] == [6, 3, 1]  # half of what is free to each
        server, connection = opened.pop(0)
        connections.release(server, connection)
        assert await take_all(servers[3]) == 1
        for server, connection in opened:
            connections.release(server, connection)
        opened.clear()
        assert await take_all(servers[4]) == 6
        for server, connection in opened:
            connections.release(server, connection)
        connections.close()
        await have_ended(ever_opened)


async def test_what_waits_for_its_share_comes_in_its_order() -> None:
    share = LoopShare()
    assert share.is_free
    share.charge(0.06)
    began, done = time.monotonic(), list[int]()

    async def work(number: int) -> None:
        await share.turn()
        done.append(number)

    tasks = [asyncio.create_task(work(number)) for number in range(4)]
    await asyncio.sleep(0)
    tasks[1].cancel()  # a client that has left
    await asyncio.gather(*tasks, return_exceptions=True)
    assert done == [0, 2, 3]
    assert time.monotonic() - began > 0.1
    assert share.is_free


# -- CA bundles


def _certificates(count: int) -> str:
    key = ed25519.Ed25519PrivateKey.generate()
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    made = []
    for number in range(count):
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"c{number}")])
        builder = x509.CertificateBuilder(name, name, key.public_key(), number + 1, now - day, now + day)
        made.append(builder.sign(key, None).public_bytes(Encoding.PEM).decode())
    return "".join(made)


async def test_a_bundle_of_many_certificates_leaves_the_loop_to_others() -> None:
    """One took a third of a second, and a tenant has as many bundles as it likes."""
    contexts, bundle = TlsContexts(), _certificates(1200)
    making = asyncio.create_task(contexts.get(1, bundle))
    longest, rounds = 0.0, 0
    while not making.done():
        began = time.thread_time()
        await asyncio.sleep(0)
        longest, rounds = max(longest, time.thread_time() - began), rounds + 1
    assert longest < 0.05
    assert rounds > 5  # a single call of OpenSSL would have kept the interpreter to itself
    assert (await making).cert_store_stats()["x509"] == 1200
    assert await contexts.get(1, bundle) is await making


async def test_the_bundles_of_a_tenant_are_bounded() -> None:
    """Each bundle that an APIService ever had was kept for half a day."""
    contexts, one = TlsContexts(), _certificates(1)
    bundles = [one + "#" * 500_000 + str(number) for number in range(30)]
    for bundle in bundles:
        await contexts.get(1, bundle)  # those that nobody uses are dropped
    used = list[ssl.SSLContext]()
    for bundle in bundles[:8]:
        used.append(await contexts.get(1, bundle))
    with pytest.raises(Unreachable, match="too many long CA bundles"):
        await contexts.get(1, bundles[8])
    await contexts.get(2, bundles[0])  # another tenant has its own
    used.clear()
    gc.collect()
    await contexts.get(1, bundles[29])


async def test_the_bundles_of_all_tenants_are_bounded() -> None:
    """Each of two hundred tenants could have 28 MB of them in use."""
    contexts, one = TlsContexts(), _certificates(1)
    used, refused = list[ssl.SSLContext](), 0
    for tenant in range(200):
        try:
            for number in range(8):
                used.append(await contexts.get(tenant, one + "#" * 500_000 + str(number)))
        except Unreachable:
            refused += 1
    assert 40 < len(used) < 50
    assert refused > 190
    used.append(await contexts.get(1000, one))  # a short one of a tenant that has none finds room
    del used[:30]
    gc.collect()
    await contexts.get(1000, one + "#" * 500_000)


@pytest.mark.parametrize(
    "around, count",
    [
        pytest.param("a comment\n{}another", 3, id="comments"),
        pytest.param("-----BEGIN CERTIFICATE-----\n" * 15_000 + "{}", 3, id="begun very often"),
        pytest.param("-----BEGIN X-----\nAAAA\n-----END X-----\n{}", 3, id="something else"),
    ],
)
async def test_certificates_of_a_bundle(around: str, count: int) -> None:
    context = await TlsContexts().get(1, around.format(_certificates(count)))
    assert context.cert_store_stats()["x509"] == count


@pytest.mark.parametrize(
    "bundle", ["-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "x", "-----END CERTIFICATE-----"]
)
async def test_what_is_no_bundle(bundle: str) -> None:
    with pytest.raises(ssl.SSLError):
        await TlsContexts().get(1, bundle)


async def test_an_insecure_context_verifies_nothing(trusted: Certificates, https: HttpsClient) -> None:
    context = await TlsContexts().get(1, "", insecure=True)
    assert not context.check_hostname
    assert context.verify_mode is ssl.CERT_NONE
    assert not context.cert_store_stats()["x509"]
    async with serving(trusted, answering([])) as server:
        origin = replace(server.origin, ca="")
        connection = await Connections(https.dialer).acquire(PooledServer(1, origin, "", context))
        connection.close()
