"""An application with the widgets' definition, and a webhook over real TLS whose answers a test says."""

from __future__ import annotations

import base64
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio
import uvicorn
from starlette.types import Receive, Scope, Send

from registry.http.serving.tls import ensure_certificates
from registry.settings import Settings
from tests.api.client import Client
from tests.api.conftest import api_template
from tests.api.widgets import WIDGETS
from tests.conftest import _database
from tests.conversion.conftest import running

__all__ = ["api_template"]

Response = dict[str, Any]


class Hook:
    """`answer` gives the response to the request of a review; `asked` are the requests, with the path first."""

    def __init__(self, port: int, ca_bundle: str) -> None:
        self.url = f"https://127.0.0.1:{port}"
        self.ca_bundle = ca_bundle
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answer: Callable[[str, dict[str, Any]], Response] = lambda path, request: {"allowed": True}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        more = True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        review = orjson.loads(body)
        request = review["request"]
        self.asked.append((scope["path"], request))
        response = {"uid": request["uid"], **self.answer(scope["path"], request)}
        answer = orjson.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": answer})


def patch(*operations: dict[str, Any]) -> Response:
    return {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(orjson.dumps(operations)).decode()}


@pytest.fixture(scope="module")
def shared_hook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hook]:
    folder = tmp_path_factory.mktemp("hook")
    certificates = ensure_certificates(folder, "127.0.0.1")
    assert certificates.authority is not None
    listener = socket.create_server(("127.0.0.1", 0))
    served = Hook(listener.getsockname()[1], base64.b64encode(certificates.authority.read_bytes()).decode())
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
def hook(shared_hook: Hook) -> Hook:
    """The webhook, which allows everything until a test says otherwise."""
    shared_hook.asked.clear()
    shared_hook.answer = lambda path, request: {"allowed": True}
    return shared_hook


ADMISSION = "/apis/admissionregistration.k8s.io/v1"
# Bindings first: nothing that they bind may refuse what follows.
_USED = (
    f"{ADMISSION}/validatingadmissionpolicybindings",
    f"{ADMISSION}/mutatingadmissionpolicybindings",
    f"{ADMISSION}/validatingadmissionpolicies",
    f"{ADMISSION}/mutatingadmissionpolicies",
    f"{ADMISSION}/validatingwebhookconfigurations",
    f"{ADMISSION}/mutatingwebhookconfigurations",
    WIDGETS,
)


def _settings(folder: Path, database: str, **more: Any) -> Settings:
    folder.mkdir(exist_ok=True)
    return Settings(data_dir=folder, database_url=database, plain_http=True, **more)


@pytest.fixture(scope="module")
def shared_database(postgres_server: str, api_template: str) -> Iterator[str]:
    yield from _database(postgres_server, api_template)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(
    shared_database: str, shared_hook: Hook, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Client]:
    """One server for all tests of a module, which may call webhooks on this machine.

    It ends before the webhook does, which waits for the connections that are kept to it.
    """
    folder = tmp_path_factory.mktemp("one")
    async with running(_settings(folder, shared_database, allow_egress_to=("127.0.0.0/8",))) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def api(shared: Client) -> AsyncIterator[Client]:
    """The server, with what a test has made taken away after it."""
    yield shared
    for path in _USED:
        (await shared.delete(path)).ok()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def other(
    shared: Client, shared_database: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Client]:
    """A second server process, as far as what it knows goes, on the same database; it may call no webhooks here."""
    async with running(_settings(tmp_path_factory.mktemp("two"), shared_database)) as client:
        yield client
