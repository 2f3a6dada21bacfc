"""Request smuggling, slow clients and old TLS versions, on real sockets."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from registry.http.serving import backlog, timed_protocol
from registry.http.serving.server import security_headers
from registry.http.serving.tls import ensure_certificates, server_context
from registry.settings.declarations import Settings, SettingsError
from registry.settings.loading import load
from tests.http.streams import POST, SECOND, answer, connection, ended

AMBIGUOUS: dict[str, bytes] = {
    "length and chunks": POST + b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + SECOND,
    "chunks and length": POST + b"transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n" + SECOND,
    "two lengths": POST + b"content-length: 0\r\ncontent-length: 36\r\n\r\n" + SECOND,
    "a list of lengths": POST + b"content-length: 0, 36\r\n\r\n" + SECOND,
    "a signed length": POST + b"content-length: +36\r\n\r\n" + SECOND,
    "a negative length": POST + b"content-length: -1\r\n\r\n" + SECOND,
    "a length in hex": POST + b"content-length: 0x24\r\n\r\n" + SECOND,
    "an enormous length": POST + b"content-length: 99999999999999999999\r\n\r\n" + SECOND,
    "chunked is not last": POST + b"transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n" + SECOND,
    "chunked twice": POST + b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n" + SECOND,
    "an unknown encoding": POST + b"transfer-encoding: xchunked\r\n\r\n" + SECOND,
    "a space before the colon": POST + b"transfer-encoding : chunked\r\n\r\n0\r\n\r\n" + SECOND,
    "a folded header": POST + b"x: a\r\n transfer-encoding: chunked\r\n\r\n" + SECOND,
    "a header without colon": POST + b"transfer-encoding chunked\r\n\r\n" + SECOND,
    "no name": POST + b": chunked\r\n\r\n" + SECOND,
    "NUL in a value": POST + b"x: a\0b\r\n\r\n" + SECOND,
    "a bare carriage return": POST + b"x: a\rtransfer-encoding: chunked\r\n\r\n" + SECOND,
    "a bad chunk size": POST + b"transfer-encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n" + SECOND,
    "an enormous chunk size": POST + b"transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\na" + SECOND,
    "a chunk without its end": POST + b"transfer-encoding: chunked\r\n\r\n1\r\nab0\r\n\r\n" + SECOND,
    "two hosts": b"GET / HTTP/1.1\r\nhost: x\r\nhost: y\r\n\r\n" + SECOND,
    "no host": b"GET / HTTP/1.1\r\naccept: x\r\n\r\n" + SECOND,
    "two hosts of old": b"GET / HTTP/1.0\r\nhost: x\r\nhost: y\r\n\r\n" + SECOND,
    "HTTP/0.9": b"GET /\r\n" + SECOND,
    "HTTP/2 in the clear": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SECOND,
    "an invalid method": b"GET/ / HTTP/1.1\r\nhost: x\r\n\r\n" + SECOND,
    "a tunnel": b"CONNECT evil:443 HTTP/1.1\r\nhost: x\r\n\r\n" + SECOND,
}


@pytest.mark.parametrize("text", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
async def test_ambiguous_requests_are_refused(text: bytes) -> None:
    asked: list[str] = []

    async def note(scope: dict[str, Any], receive: Any, send: Any) -> None:
        asked.append(scope["path"])
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async with connection(note) as (reader, writer):
        writer.write(text)
        seen = await ended(reader)
        # 400 and the end of the connection, at the latest after the first request; never the second.
        assert b" 400 " in seen.splitlines()[-1] or b"HTTP/1.1 400" in seen, seen
    assert "/smuggled" not in asked


async def test_a_request_without_its_body_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "BODY_SECONDS", 0.1)
    async with connection() as (reader, writer):
        writer.write(POST + b"content-length: 5\r\n\r\nab")
        assert (await answer(reader))[0] == 408
        assert await ended(reader) == b""


async def test_trickling_chunks_do_not_extend_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "BODY_SECONDS", 0.2)
    async with connection() as (reader, writer):
        writer.write(POST + b"transfer-encoding: chunked\r\n\r\n")

        async def trickle() -> None:
            while True:
                writer.write(b"1;an-extension\r\na\r\n")
                await asyncio.sleep(0.01)

        task = asyncio.create_task(trickle())
        try:
            async with asyncio.timeout(60):
                try:
                    assert (await answer(reader))[0] == 408
                except ConnectionError:
                    pass  # what came after the end of the connection takes the answer away with it
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_the_body_timeout_pauses_while_the_server_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "BODY_SECONDS", 0.05)
    goes_on, fired = asyncio.Event(), asyncio.Event()
    check = backlog.ReceivedBody._check

    def once(self: backlog.ReceivedBody, *arguments: Any) -> None:
        monkeypatch.setattr(backlog, "BODY_SECONDS", 60.0)
        check(self, *arguments)
        fired.set()

    monkeypatch.setattr(backlog.ReceivedBody, "_check", once)

    async def waits(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await goes_on.wait()
        length, more = 0, True
        while more:
            message = await receive()
            assert message["type"] == "http.request", message
            length += len(message["body"])
            more = message["more_body"]
        body = str(length).encode()
        head = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": body})

    async with connection(waits) as (reader, writer):
        writer.write(POST + b"content-length: 400000\r\n\r\n" + b"x" * 200_000)
        await writer.drain()
        async with asyncio.timeout(60):
            await fired.wait()
        goes_on.set()
        writer.write(b"x" * 200_000)
        assert await answer(reader) == (200, b"400000")


async def test_a_client_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_protocol, "READ_SECONDS", 0.1)
    gone = asyncio.Event()

    async def pours(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        message = asyncio.ensure_future(receive())
        while not message.done() or message.result()["type"] != "http.disconnect":
            if message.done():
                message = asyncio.ensure_future(receive())
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
            await asyncio.sleep(0)
        gone.set()

    async with connection(pours) as (_, writer):
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        async with asyncio.timeout(60):
            await gone.wait()


TLS: dict[str, tuple[ssl.TLSVersion, str, bool]] = {
    "1.3": (ssl.TLSVersion.TLSv1_3, "", True),
    "1.2 with ECDHE and GCM": (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-GCM-SHA256", True),
    "1.2 with CBC": (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-SHA256:@SECLEVEL=0", False),
    "1.2 without forward secrecy": (ssl.TLSVersion.TLSv1_2, "AES128-GCM-SHA256:@SECLEVEL=0", False),
    "1.1": (ssl.TLSVersion.TLSv1_1, "ALL:@SECLEVEL=0", False),
    "1.0": (ssl.TLSVersion.TLSv1, "ALL:@SECLEVEL=0", False),
}


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("version, ciphers, accepted", TLS.values(), ids=TLS.keys())
async def test_versions_and_ciphers(tmp_path: Path, version: ssl.TLSVersion, ciphers: str, accepted: bool) -> None:
    made = ensure_certificates(tmp_path, "127.0.0.1")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_context(made.certificate, made.key))
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.minimum_version = client.maximum_version = version
    if ciphers:
        client.set_ciphers(ciphers)
    assert made.authority is not None
    client.load_verify_locations(made.authority)
    try:
        if not accepted:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.open_connection(*server.sockets[0].getsockname(), ssl=client)
            return
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), ssl=client)
        assert await reader.read() == b"hello"
        writer.close()
        await writer.wait_closed()
    finally:
        server.close()
        await server.wait_closed()


def test_headers_of_every_answer(tmp_path: Path) -> None:
    assert security_headers(Settings(data_dir=tmp_path)) == [("x-content-type-options", "nosniff")]
    settings = Settings(data_dir=tmp_path, strict_transport_security="max-age=1")
    assert security_headers(settings)[1] == ("strict-transport-security", "max-age=1")
    with pytest.raises(SettingsError):
        load({"strict_transport_security": "max-age=1\r\nx: y", "data_dir": str(tmp_path)}, {})
