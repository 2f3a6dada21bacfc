"""An HTTPS server on a thread for an ASGI application of a test, with a certificate from its own CA."""

from __future__ import annotations

import base64
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import uvicorn
from starlette.types import ASGIApp

from registry.http.serving.tls import ensure_certificates
from tests.processes import wait_until

Application = TypeVar("Application", bound=ASGIApp)


@dataclass(frozen=True)
class Endpoint:
    """Where the server listens. `authority` is the CA certificate in PEM."""

    url: str
    authority: str

    @property
    def ca_bundle(self) -> str:
        """The CA certificate in base64, as in a `caBundle` field."""
        return base64.b64encode(self.authority.encode()).decode()


@contextlib.contextmanager
def serving_https(make: Callable[[Endpoint], Application], folder: Path) -> Iterator[Application]:
    """Serves the application that `make` returns until the block ends. Certificates are written to `folder`."""
    folder.mkdir(exist_ok=True)
    certificates = ensure_certificates(folder, "127.0.0.1")
    assert certificates.authority is not None
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        application = make(Endpoint(url, certificates.authority.read_text()))
        server = uvicorn.Server(
            uvicorn.Config(
                application,
                lifespan="off",
                log_config=None,
                timeout_keep_alive=600,
                ssl_certfile=str(certificates.certificate),
                ssl_keyfile=str(certificates.key),
            )
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        wait_until(lambda: server.started, "the server of the test has started", seconds=60)
        try:
            yield application
        finally:
            server.should_exit = True
            thread.join(60)
