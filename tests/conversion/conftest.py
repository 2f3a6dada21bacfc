"""A webhook over real TLS, and an application that may call it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import importlib.util
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import yaml
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from registry.http.app import create_app
from registry.http.serving.tls import ensure_certificates
from registry.settings import Settings
from tests.api.client import Client
from tests.api.conftest import TOKEN, api_database, api_template

__all__ = ["api_database", "api_template"]

EXAMPLE = Path(__file__).parents[2] / "examples/conversion-webhook"


class Webhook:
    """A webhook that is served: `calls` counts the requests, `application` may be replaced while it runs."""

    def __init__(self, application: ASGIApp, port: int, ca_bundle: str) -> None:
        self.application = application
        self.url = f"https://127.0.0.1:{port}/convert"
        self.ca_bundle = ca_bundle
        self.calls = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.calls += 1
        await self.application(scope, receive, send)


def example() -> Starlette:
    """The application of examples/conversion-webhook."""
    spec = importlib.util.spec_from_file_location("conversion_webhook", EXAMPLE / "webhook.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    app: Starlette = module.app
    return app


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[Webhook]:
    """The example, on a port of its own with a certificate of its own CA."""
    folder = tmp_path / "webhook"
    folder.mkdir()
    certificates = ensure_certificates(folder, "127.0.0.1")
    assert certificates.authority is not None
    listener = socket.create_server(("127.0.0.1", 0))
    served = Webhook(
        example(), listener.getsockname()[1], base64.b64encode(certificates.authority.read_bytes()).decode()
    )
    server = uvicorn.Server(
        uvicorn.Config(
            served,
            lifespan="off",
            log_config=None,
            timeout_keep_alive=600,
            ssl_certfile=str(certificates.certificate),
            ssl_keyfile=str(certificates.key),
        )
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    yield served
    server.should_exit = True
    thread.join(60)


@pytest.fixture
def definition(webhook: Webhook) -> dict[str, Any]:
    """The example's definition, with the webhook's address and CA."""
    made: dict[str, Any] = yaml.safe_load((EXAMPLE / "definition.yaml").read_text())
    made["spec"]["conversion"]["webhook"]["clientConfig"] = {"url": webhook.url, "caBundle": webhook.ca_bundle}
    return made


@contextlib.asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Client]:
    """The administrator of a started application."""
    (settings.data_dir / "admin-token").write_text(TOKEN)
    app = create_app(settings)
    app.state.stopping = asyncio.Event()
    async with app.router.lifespan_context(app):
        try:
            yield Client(app, TOKEN)
        finally:
            app.state.stopping.set()


@pytest.fixture
async def api(api_database: str, tmp_path: Path, webhook: Webhook) -> AsyncIterator[Client]:
    """A server that may call webhooks on this machine. It ends before the webhook, which waits for its connections."""
    settings = Settings(data_dir=tmp_path, database_url=api_database, plain_http=True, allow_egress_to=("127.0.0.0/8",))
    async with running(settings) as client:
        yield client


@pytest.fixture
async def guarded(api_database: str, tmp_path: Path, webhook: Webhook) -> AsyncIterator[Client]:
    """A server whose operator has allowed nothing."""
    async with running(Settings(data_dir=tmp_path, database_url=api_database, plain_http=True)) as client:
        yield client
