"""Validates a request's head before anything is started for it, and defines how a connection refuses one.

Pure except for the log. Refusals at this level are plain text, with net/http's messages if it has them, and end the
connection.

Follows Go's net/http server.go (readRequest, conn.serve) and transfer.go, and RFC 9112.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Final

from prometheus_client import Counter

logger = logging.getLogger(__name__)

# net/url's own limit is 10,000; the longest request that kube-apiserver documents has some 20. Each costs 1 µs.
PARAMETERS_LIMIT: Final = 1_000
# Impersonated users may be in hundreds of groups, each of which is a header.
FIELDS_LIMIT: Final = 1_000
# How often refusals are logged.
LOG_SECONDS: Final = 10.0

REFUSED: Final = Counter("registry_requests_refused", "Requests refused before they were routed, by code.", ["code"])

# golang.org/x/net/http/httpguts.ValidHostHeader.
_HOST: Final = re.compile(rb"[!$%&'()*+,\-.:;=\[\]_~0-9A-Za-z]*\Z")
# net/url.setPath refuses it, and RFC 9112, 3.2, has no fragment in a target.
_INVALID_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_CHECKED: Final = frozenset({b"host", b"transfer-encoding", b"content-length", b"expect"})


class HeadRefused(Exception):
    """The answer to an invalid request: its code, its text and additional headers."""

    def __init__(self, code: int, text: str = "", headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.headers = tuple(headers)

    def encode(self, default_headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        status = f"{self.code} {HTTPStatus(self.code).phrase}"
        body = (f"{status}: {self.text}" if self.text else status).encode()
        head = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
            *default_headers,
            *self.headers,
        ]
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in head)
        return f"HTTP/1.1 {status}\r\n".encode() + lines + b"\r\n" + body


def check_head(
    method: bytes, version: str, url: bytes, headers: Iterable[tuple[bytes, bytes]], *, upgrades: bool
) -> None:
    """Raises HeadRefused. Names of headers are in lower case; `upgrades`: the parser skips the body because of one.

    Does not check what the parser itself refuses: invalid or differing lengths, a length beside an encoding.
    """
    hosts, host, has_body = 0, b"", False
    encodings: list[bytes] = []
    for name, value in headers:
        if name not in _CHECKED:
            continue
        if name == b"host":
            hosts, host = hosts + 1, value
            if _HOST.match(value) is None:
                raise HeadRefused(400, "malformed Host header")
        elif name == b"transfer-encoding":
            encodings += [coding.strip() for coding in value.lower().split(b",")]
        elif name == b"content-length":
            has_body = has_body or value.strip(b"0") != b""
        elif value.lower() != b"100-continue":
            raise HeadRefused(417)
    if encodings:
        _check_encodings(encodings, version)
    if hosts > 1:
        raise HeadRefused(400, "too many Host headers")
    if not hosts and version == "1.1":
        raise HeadRefused(400, "missing required Host header")
    if b"://" in url and not url.startswith(b"/") and _authority(url) != host.lower():
        raise HeadRefused(400, "the request's target and its Host header differ")
    if method == b"CONNECT":
        raise HeadRefused(400, "CONNECT is not supported: this server is not a proxy")
    if upgrades and (has_body or encodings):
        # The parser would read the body as the next request.
        raise HeadRefused(400, "upgrade of a request with a body")
    if b"#" in url or (b"%" in url and _INVALID_ESCAPE.search(url.partition(b"?")[0])):
        raise HeadRefused(400)
    if url.count(b"&") >= PARAMETERS_LIMIT:
        raise HeadRefused(400, "number of URL query parameters exceeded limit")


def _authority(url: bytes) -> bytes:
    return re.split(rb"[/?#]", url.partition(b"://")[2], maxsplit=1)[0].lower()


def _check_encodings(encodings: list[bytes], version: str) -> None:
    """RFC 9112, 6.1 and 6.3: unless chunked is the last encoding, and occurs once, the end of the body is undefined."""
    if version != "1.1" or encodings[-1] != b"chunked" or b"chunked" in encodings[:-1]:
        raise HeadRefused(400, "invalid transfer encoding")
    if len(encodings) > 1:
        raise HeadRefused(501, "unsupported transfer encoding")


class RefusalLog:
    """Logs refusals in at most one line every LOG_SECONDS, with their number since the last line."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = float("-inf")
        self._count = 0

    def note(self, client: tuple[str, int] | None, refused: HeadRefused) -> None:
        REFUSED.labels(str(refused.code)).inc()
        self._count += 1
        now = self._clock()
        if now < self._next:
            return
        self._next = now + LOG_SECONDS
        count, self._count = self._count, 0
        logger.warning(
            "requests refused: %d, the last from %s with %d: %s",
            count,
            client[0] if client else "an unknown address",
            refused.code,
            refused.text or HTTPStatus(refused.code).phrase,
        )
