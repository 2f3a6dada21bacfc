"""Heads that are refused before any work is started, and the log of refusals."""

from __future__ import annotations

import logging

import pytest

from registry.http.serving import heads
from registry.http.serving.heads import PARAMETERS_LIMIT, HeadRefused, RefusalLog, check_head

HOST = (b"host", b"x")
CHUNKED = (b"transfer-encoding", b"chunked")

Head = tuple[bytes, str, bytes, list[tuple[bytes, bytes]], bool]


def head(
    *headers: tuple[bytes, bytes],
    method: bytes = b"GET",
    version: str = "1.1",
    url: bytes = b"/",
    upgrades: bool = False,
) -> Head:
    return method, version, url, list(headers), upgrades


ACCEPTED: dict[str, Head] = {
    "a get": head(HOST),
    "an empty host": head((b"host", b"")),
    "an address": head((b"host", b"[::1]:6443")),
    "a target with its host": head(HOST, url=b"http://X?a=http://y"),
    "an address in a query": head(HOST, url=b"/?a=http://y"),
    "no host in HTTP/1.0": head(version="1.0"),
    "chunks": head(HOST, CHUNKED, method=b"POST"),
    "chunks in capitals": head(HOST, (b"transfer-encoding", b"Chunked"), method=b"POST"),
    "100-continue": head(HOST, (b"expect", b"100-Continue"), method=b"POST"),
    "an upgrade": head(HOST, (b"content-length", b"0"), upgrades=True),
    "parameters": head(HOST, url=b"/?" + b"&" * (PARAMETERS_LIMIT - 1)),
    "escapes in a path, and others in a query": head(HOST, url=b"/%2f%Aa?%zz&%"),
    "TRACE, which the application answers": head(HOST, method=b"TRACE"),
}

REFUSED: dict[str, tuple[Head, int]] = {
    "no host": (head(), 400),
    "two hosts": (head(HOST, HOST), 400),
    "two hosts in HTTP/1.0": (head(HOST, HOST, version="1.0"), 400),
    "a space in the host": (head((b"host", b"a b")), 400),
    "a slash in the host": (head((b"host", b"a/b")), 400),
    "a user in the host": (head((b"host", b"a@b")), 400),
    "a target of another host": (head(HOST, url=b"http://y/"), 400),
    "a target of another port": (head(HOST, url=b"http://x:1/"), 400),
    "gzip, chunked": (head(HOST, (b"transfer-encoding", b"gzip, chunked")), 501),
    "gzip and chunked": (head(HOST, (b"transfer-encoding", b"gzip"), CHUNKED), 501),
    "chunked, gzip": (head(HOST, (b"transfer-encoding", b"chunked, gzip")), 400),
    "chunked twice": (head(HOST, CHUNKED, CHUNKED), 400),
    "an empty encoding": (head(HOST, (b"transfer-encoding", b"")), 400),
    "identity": (head(HOST, (b"transfer-encoding", b"identity")), 400),
    "chunks in HTTP/1.0": (head(HOST, CHUNKED, version="1.0"), 400),
    "CONNECT": (head(HOST, method=b"CONNECT"), 400),
    "an expectation": (head(HOST, (b"expect", b"tea")), 417),
    "an upgrade with a length": (head(HOST, (b"content-length", b"3"), upgrades=True), 400),
    "an upgrade with chunks": (head(HOST, CHUNKED, upgrades=True), 400),
    "parameters": (head(HOST, url=b"/?" + b"&" * PARAMETERS_LIMIT), 400),
    "an invalid escape": (head(HOST, url=b"/a%zz"), 400),
    "half an escape": (head(HOST, url=b"/%2?a"), 400),
    "a fragment": (head(HOST, url=b"/a#b"), 400),
    "a fragment of a query": (head(HOST, url=b"/a?b#c"), 400),
}


@pytest.mark.parametrize("given", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_heads_that_are_accepted(given: Head) -> None:
    try:
        check_head(*given[:4], upgrades=given[4])
    except HeadRefused as refused:
        pytest.fail(f"{refused.code}: {refused}")


@pytest.mark.parametrize("given, code", REFUSED.values(), ids=REFUSED.keys())
def test_heads_that_are_refused(given: Head, code: int) -> None:
    with pytest.raises(HeadRefused) as refused:
        check_head(*given[:4], upgrades=given[4])
    assert refused.value.code == code
    lines = refused.value.encode([(b"x-content-type-options", b"nosniff")]).split(b"\r\n")
    assert lines[0].startswith(b"HTTP/1.1 %d " % code)
    assert {b"connection: close", b"x-content-type-options: nosniff"} <= set(lines)


def test_refusals_are_logged_at_a_limited_rate(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    log = RefusalLog(lambda: now)
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            log.note(("192.0.2.1", 1), HeadRefused(400, "too many Host headers"))
        now = heads.LOG_SECONDS
        log.note(None, HeadRefused(431))
    assert caplog.messages == [
        "requests refused: 1, the last from 192.0.2.1 with 400: too many Host headers",
        "requests refused: 100, the last from an unknown address with 431: Request Header Fields Too Large",
    ]
    assert all(record.exc_info is None for record in caplog.records)
