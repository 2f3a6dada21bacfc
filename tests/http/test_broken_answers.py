"""A response that fails after it has started: the connection is closed, and no second head is sent."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from registry.api.answers import Event, WatchAnswer
from registry.api.errors import StatusError
from registry.flowcontrol.fair_queue import TooManyRequests
from registry.http import metrics
from registry.http.forms import form_of
from registry.http.middleware.errors import ErrorsMiddleware
from registry.http.middleware.instrumentation import InstrumentationMiddleware
from registry.http.middleware.request_info import RequestInfoMiddleware
from registry.http.negotiation import negotiate
from registry.http.request_state import STATE
from registry.http.serving.stopping import Stopping
from registry.http.watch_stream import begin_watch
from tests.api.client import JSON
from tests.http.streams import REQUEST, connection, ended

CHUNKED: list[tuple[bytes, bytes]] = []
LONG = [(b"content-length", b"1000000")]
EMPTY = [(b"content-length", b"0")]
FAILURES: dict[str, Exception] = {
    "unforeseen": ValueError("a mistake of ours"),
    "a Status": StatusError(410, "Expired", "too old", {}),
    "no room": TooManyRequests(),
}


def failing(headers: list[tuple[bytes, bytes]], parts: list[bytes], failure: Exception) -> Any:
    """What sends the beginning of an answer and fails, behind the middlewares that see it."""

    async def endpoint(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        raise failure

    return RequestInfoMiddleware(InstrumentationMiddleware(ErrorsMiddleware(endpoint), access_log=False))


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize(
    "headers, parts",
    [(CHUNKED, []), (CHUNKED, [b"beginning"]), (LONG, []), (LONG, [b"beginning"]), (EMPTY, [])],
    ids=["a stream without a body yet", "a stream", "a length without a body yet", "a length", "an empty body"],
)
async def test_a_failure_during_the_response_closes_the_connection(
    headers: list[tuple[bytes, bytes]], parts: list[bytes], failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with connection(failing(headers, parts, failure)) as (reader, writer):
            writer.write(REQUEST * 2)
            seen = await ended(reader)
    assert seen.count(b"HTTP/1.1 ") <= 1, "no second head"
    assert not seen.endswith(b"0\r\n\r\n"), "a stream must not look finished"
    assert b"a mistake of ours" not in seen
    (record,) = [record for record in caplog.records if record.name != "registry.access"]
    assert record.message.startswith("response aborted: GET /")
    assert (record.exc_info is not None) == isinstance(failure, ValueError)


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
async def test_a_failure_during_a_watch_closes_the_connection(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """It is sent when the middlewares have returned."""

    async def events() -> AsyncGenerator[Sequence[Event], None]:
        yield [Event("ADDED", "{}")]
        raise failure

    async def endpoint(scope: Any, receive: Any, send: Any) -> None:
        answer = cast(WatchAnswer, SimpleNamespace(served=SimpleNamespace(resource=resource), events=events()))
        form = form_of(negotiate(JSON), None, {}, custom=False)
        scope[STATE].stream = await begin_watch(scope, receive, send, answer, form, [], Stopping())

    resource = SimpleNamespace(group="", name="configmaps")
    open_before = metrics.WATCHES.count
    app: Any = RequestInfoMiddleware(InstrumentationMiddleware(ErrorsMiddleware(endpoint), access_log=True))
    with caplog.at_level(logging.INFO):
        async with connection(app) as (reader, writer):
            writer.write(REQUEST.replace(b"GET / ", b"GET /api/v1/configmaps?watch=1 ") * 2)
            seen = await ended(reader)
    assert seen.count(b"HTTP/1.1 ") == 1, "no second head"
    assert b'{"type":"ADDED","object":{}}\n' in seen
    assert not seen.endswith(b"0\r\n\r\n"), "a stream must not look finished"
    (record,) = [record for record in caplog.records if record.name == "registry.requests"]
    assert record.message.startswith("response aborted: watch /api/v1/configmaps")
    assert (record.exc_info is not None) == isinstance(failure, ValueError)
    (logged,) = [record for record in caplog.records if record.name == "registry.access"]
    assert logged.message == "GET /api/v1/configmaps 200"
    assert metrics.WATCHES.count == open_before


async def test_a_failure_before_the_response_is_a_status() -> None:
    async def endpoint(scope: Any, receive: Any, send: Any) -> None:
        raise ValueError("a mistake of ours")

    app: Any = RequestInfoMiddleware(InstrumentationMiddleware(ErrorsMiddleware(endpoint), access_log=False))
    async with connection(app) as (reader, writer):
        writer.write(REQUEST.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
        seen = await ended(reader)
    assert seen.startswith(b"HTTP/1.1 500 ")
    assert b'"reason":"InternalError"' in seen
