"""To which hosts a command sends its token."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from registry.cli.api_client import ApiClient
from registry.cli.errors import RequestRefused


class Server(http.server.ThreadingHTTPServer):
    """Answers what a test wants, and keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str | None]] = []
        self.code = 200
        self.location = ""
        self.body = b"{}"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        self.send_response(self.server.code)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_: Any) -> None:
        """A test has no log of its own."""


@contextlib.contextmanager
def _serving() -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    with _serving() as made:
        yield made


@pytest.fixture
def other() -> Iterator[Server]:
    with _serving() as made:
        yield made


def client(server: Server) -> ApiClient:
    return ApiClient(server.url, None, {"Authorization": "Bearer secret"})


def test_a_token_does_not_follow_a_redirect(server: Server, other: Server) -> None:
    server.code, server.location = 302, f"{other.url}/stolen"
    with pytest.raises(RequestRefused, match="the server answered 302"):
        client(server).request("GET", "/api")
    assert other.asked == []


def test_a_token_is_not_sent_through_a_proxy_without_tls(
    server: Server, other: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, other.url)
    assert client(server).request("GET", "/api") == {}
    assert server.asked == [("/api", "Bearer secret")]
    assert other.asked == []


@pytest.mark.parametrize(
    "code, body, message",
    [
        (403, b'{"kind": "Status", "message": "no rights"}', "no rights"),
        (500, b"<html>", "the server answered 500"),
        (404, b"[]", "the server answered 404"),
        (200, b"not JSON", "cannot be reached"),
    ],
)
def test_errors_are_one_line_with_the_code(server: Server, code: int, body: bytes, message: str) -> None:
    server.code, server.body = code, body
    with pytest.raises(RequestRefused, match=message) as refused:
        client(server).request("GET", "/api")
    assert refused.value.code == (code if code >= 400 else 0)
