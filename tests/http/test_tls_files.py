"""Certificates and client CAs that are replaced while the server runs."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from registry.authentication.x509 import user_of_connection
from registry.http.serving import server as module
from registry.http.serving.server import Server, bind
from registry.http.serving.tls import Certificates, ensure_certificates
from registry.settings.declarations import Settings
from tests.api.client import eventually
from tests.authentication.authority import CN, Authority
from tests.http.applications import application
from tests.http.streams import REQUEST, answer, ended


async def _who(request: Request) -> PlainTextResponse:
    user = user_of_connection(request.scope.get("extensions", {}).get("tls"))
    return PlainTextResponse("nobody" if user is None else user.name)


@contextlib.asynccontextmanager
async def serving(folder: Path, client_ca: Path, served: Certificates) -> AsyncIterator[int]:
    """A server that says who asks; its port."""
    [listener] = bind("127.0.0.1", 0, 1)
    settings = Settings(
        data_dir=folder,
        client_ca_file=client_ca,
        tls_cert_file=served.certificate,
        tls_private_key_file=served.key,
        shutdown_seconds=1,
    )
    ready = asyncio.Event()
    server = Server(settings, application(routes=[Route("/", _who)]), ready.set, None)
    port = listener.getsockname()[1]
    task = asyncio.create_task(server.serve([listener]))
    try:
        await asyncio.wait([task, asyncio.ensure_future(ready.wait())], return_when=asyncio.FIRST_COMPLETED)
        yield port
    finally:
        server.should_exit = True
        await task


class Asker:
    def __init__(self, port: int, *authorities: Path | None) -> None:
        self._port = port
        self._authorities = authorities

    async def connect(self, certificate: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        trust = ssl.create_default_context()
        for authority in self._authorities:
            trust.load_verify_locations(authority)
        trust.load_cert_chain(certificate)
        return await asyncio.open_connection("127.0.0.1", self._port, ssl=trust, server_hostname="localhost")

    async def who(self, certificate: Path) -> str:
        """On a new connection; "" where TLS refuses."""
        try:
            reader, writer = await self.connect(certificate)
        except (OSError, EOFError):
            return ""
        try:
            writer.write(REQUEST)
            return (await answer(reader))[1].decode()
        except (OSError, EOFError):
            return ""
        finally:
            writer.transport.abort()

    async def serial(self, certificate: Path) -> bytes:
        """What the server shows."""
        _, writer = await self.connect(certificate)
        shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.transport.abort()
        return shown


async def test_files_that_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.1)
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    ann, bob = old.files((CN, "ann")), new.files((CN, "bob"))
    first, second = (ensure_certificates(tmp_path / name, "127.0.0.1") for name in ("first", "second"))
    served = Certificates(tmp_path / "served.crt", tmp_path / "served.key", None)
    client_ca = tmp_path / "clients.crt"
    shutil.copy(old.path, client_ca)
    shutil.copy(first.certificate, served.certificate)
    shutil.copy(first.key, served.key)
    async with serving(tmp_path, client_ca, served) as port:
        asker = Asker(port, first.authority, second.authority)
        assert [await asker.who(one) for one in (ann, bob)] == ["ann", ""]
        kept = await asker.connect(ann)
        kept[1].write(REQUEST)
        assert await answer(kept[0]) == (200, b"ann")

        async def refused() -> bool:
            return "cannot be used, the old ones stay" in caplog.text

        # What cannot be used changes nothing: no CA, and a certificate without its key.
        client_ca.write_text("nothing")
        await eventually(refused)
        assert [await asker.who(one) for one in (ann, bob)] == ["ann", ""]
        shutil.copy(old.path, client_ca)
        caplog.clear()
        shutil.copy(second.certificate, served.certificate)
        await eventually(refused)
        before = await asker.serial(ann)
        shutil.copy(second.key, served.key)

        async def is_shown() -> bool:
            return await asker.serial(ann) != before

        await eventually(is_shown)

        async def is_taken() -> bool:
            return await asker.who(bob) == "bob"

        shutil.copy(new.path, client_ca)
        await eventually(is_taken)
        assert await asker.who(ann) == ""
        # A client from before has to connect again, and is checked again.
        assert await ended(kept[0]) == b""
        kept[1].transport.abort()
