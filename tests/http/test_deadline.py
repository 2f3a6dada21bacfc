"""A request that exceeds its `?timeout=` is cancelled and answered with 504; one whose client disconnects is cancelled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from registry import logs
from registry.api.errors import StatusError
from registry.flowcontrol.interruption import WHEN_GONE, current_interruption
from registry.flowcontrol.time_slice import ClientGone
from registry.http.middleware.deadline import DeadlineMiddleware
from registry.http.request_info import request_info
from registry.http.request_state import STATE, RequestState
from tests.api.client import Client
from tests.api.errors import failure
from tests.api.widgets import WIDGETS, widget
from tests.application import shares_application


class Endpoint:
    """Ends when it is cancelled, or at once where `waits` is false."""

    def __init__(self, *, waits: bool = True, error: Exception | None = None) -> None:
        self.waits = waits
        self.error = error
        self.seen: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.seen.append("called")
        if self.error is not None:
            raise self.error
        try:
            if self.waits:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.seen.append("cancelled")
            raise
        self.seen.append("answered")


class Connection:
    """`lose` calls what the application wants called when its client disconnects."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None] | None] = []

    def when_gone(self, call: Callable[[], None] | None) -> None:
        self.calls.append(call)

    def lose(self) -> None:
        if (call := self.calls[-1]) is not None:
            call()


async def ask(endpoint: ASGIApp, path: str, query: bytes, connection: Connection | None = None) -> None:
    info = request_info("GET", path, query)
    state = RequestState(info, {}, info.attributes(), logs.begin_request(), time.perf_counter(), [])

    async def receive() -> dict[str, str]:
        raise AssertionError("a deadline reads nothing")

    async def send(message: object) -> None:
        raise AssertionError("a deadline sends nothing")

    scope = {STATE: state} if connection is None else {STATE: state, WHEN_GONE: connection.when_gone}
    await DeadlineMiddleware(endpoint)(scope, receive, send)


EXPIRED = "Timeout: request did not complete within the allotted timeout"


@pytest.mark.parametrize("query", [b"timeout=100ms", b"timeout=100ms&timeout=1h"])
async def test_work_beyond_the_deadline_is_cancelled(query: bytes) -> None:
    endpoint = Endpoint()
    with pytest.raises(StatusError) as raised:
        await ask(endpoint, "/api/v1/namespaces", query)
    assert (raised.value.code, raised.value.reason, str(raised.value)) == (504, "Timeout", EXPIRED)
    assert endpoint.seen == ["called", "cancelled"]


@pytest.mark.parametrize(
    "path, query",
    [
        pytest.param("/api/v1/namespaces", b"timeout=30s", id="in time"),
        pytest.param("/api/v1/namespaces", b"timeout=0", id="none"),
        pytest.param("/api/v1/namespaces", b"timeout=-1ns", id="negative"),
        pytest.param("/api/v1/namespaces", b"timeout=", id="empty"),
        pytest.param("/api/v1/namespaces", b"timeout=60s", id="beyond the maximum"),
        pytest.param("/api/v1/namespaces", b"timeout=1ns&watch=1", id="a watch"),
        pytest.param("/apis/g.example.com/v1/namespaces/n/machines/m/exec", b"timeout=1ns", id="a session"),
    ],
)
async def test_work_without_a_deadline_or_within_it_completes(path: str, query: bytes) -> None:
    endpoint = Endpoint(waits=False)
    await ask(endpoint, path, query)
    assert endpoint.seen == ["called", "answered"]


async def test_a_request_whose_client_disconnects_is_cancelled() -> None:
    endpoint, connection = Endpoint(), Connection()
    asyncio.get_running_loop().call_later(0.01, connection.lose)
    with pytest.raises(ClientGone):
        await ask(endpoint, "/api/v1/namespaces", b"timeout=30s", connection)
    assert endpoint.seen == ["called", "cancelled"]
    assert connection.calls[-1] is None  # nothing of the request is kept by its connection


async def test_a_disconnect_waits_for_what_is_deferred() -> None:
    connection, seen = Connection(), []

    async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
        interruption = current_interruption()
        interruption.defer()
        interruption.defer()
        connection.lose()
        await asyncio.sleep(0.01)  # it goes on
        interruption.allow()
        await asyncio.sleep(0.01)  # still
        seen.append("finished")
        interruption.allow()
        await asyncio.Event().wait()

    with pytest.raises(ClientGone):
        await ask(endpoint, "/api/v1/namespaces", b"", connection)
    assert seen == ["finished"]


async def test_what_a_request_has_started_outlives_it() -> None:
    """A task with the request's context may end its deferral when the request has been answered."""
    connection, started, seen = Connection(), [], []

    async def work() -> None:
        current_interruption().defer()
        await asyncio.sleep(0.01)  # longer than the request
        current_interruption().allow()
        seen.append("finished")

    async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
        started.append(asyncio.create_task(work()))
        await asyncio.sleep(0)
        connection.lose()

    await ask(endpoint, "/api/v1/namespaces", b"", connection)
    await started[0]
    assert seen == ["finished"]


async def test_a_timeout_of_something_else_is_not_the_deadline() -> None:
    with pytest.raises(TimeoutError, match="the database"):
        await ask(Endpoint(error=TimeoutError("the database")), "/api/v1/namespaces", b"timeout=30s")


@shares_application
async def test_a_deadline_that_has_passed_already(shared_api: Client) -> None:
    status = failure(await shared_api.post(f"{WIDGETS}?timeout=1ns", widget("late")), 504, "Timeout")
    assert (status["message"], status["details"]) == (EXPIRED, {})
    failure(await shared_api.get(f"{WIDGETS}/late"), 404, "NotFound")
    failure(await shared_api.with_token("").get(f"{WIDGETS}?timeout=1ns"), 504, "Timeout")


async def test_a_disconnect_before_the_deadline_is_no_timeout() -> None:
    """Both may be due in one iteration of the event loop: the client is gone, so nobody waits for a 504."""
    connection = Connection()

    async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
        time.sleep(0.05)  # noqa: ASYNC251 - the deadline passes, and the loop has not looked
        connection.lose()
        await asyncio.Event().wait()

    with pytest.raises(ClientGone):
        await ask(endpoint, "/api/v1/namespaces", b"timeout=40ms", connection)


async def test_a_task_that_another_cancels_ends_cancelled() -> None:
    connection = Connection()
    endpoint = Endpoint()
    request = asyncio.create_task(ask(endpoint, "/api/v1/namespaces", b"", connection))
    while not endpoint.seen:  # noqa: ASYNC110 - it is a list
        await asyncio.sleep(0)
    connection.lose()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
