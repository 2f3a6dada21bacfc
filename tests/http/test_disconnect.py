"""Clients that disconnect at each point at which a request waits: nothing is done by halves, and nothing stays taken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Mapping
from typing import Any, Final

import pytest

from registry.flowcontrol.interruption import WHEN_GONE
from tests.api.client import APPLY, JSON_PATCH, MERGE, TABLE, Answer, Client, NotAnswered
from tests.api.widgets import GROUP, WIDGETS, widget
from tests.application import shares_application

# Waits of a request after which its client disconnects; most requests wait less often.
_MOST: Final = 60
_ONE: Final = f"{WIDGETS}/one"
_SCALE: Final = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "one"}, "spec": {"replicas": 3}}
_APPLIED: Final = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": {"size": 5}}

Request = Callable[[Client, Mapping[str, Any]], Coroutine[Any, Any, Answer]]


class Disconnecting:
    """Runs a request, whose client disconnects when it waits for the `number`th time; `waits` counts."""

    def __init__(self, request: Request, client: Client, number: int) -> None:
        self._running = request(client, {WHEN_GONE: self._when_gone})
        self._number = number
        self._call: Callable[[], None] | None = None
        self.waits = 0

    def _when_gone(self, call: Callable[[], None] | None) -> None:
        self._call = call

    def __await__(self) -> Generator[Any, None, Answer | None]:
        """Returns None if there is no answer."""
        steps = self._running.__await__()
        error: BaseException | None = None
        while True:
            try:
                waited_for = steps.send(None) if error is None else steps.throw(error)
            except StopIteration as end:
                answer: Answer = end.value
                return answer
            except NotAnswered:
                return None
            self.waits += 1
            if self.waits == self._number and self._call is not None:
                self._call()
            try:
                yield waited_for
                error = None
            except BaseException as raised:  # it is for the request
                error = raised


REQUESTS: dict[str, Request] = {
    "get": lambda api, scope: api.get(_ONE, scope=scope),
    "list": lambda api, scope: api.get(f"{WIDGETS}?limit=1", scope=scope),
    "table": lambda api, scope: api.get(WIDGETS, accept=TABLE, scope=scope),
    "create": lambda api, scope: api.post(WIDGETS, widget("new", size=1), scope=scope),
    "update": lambda api, scope: api.put(_ONE, widget("one", size=2), scope=scope),
    "merge patch": lambda api, scope: api.patch(_ONE, {"spec": {"size": 3}}, MERGE, scope=scope),
    "json patch": lambda api, scope: api.patch(
        _ONE, [{"op": "replace", "path": "/spec/size", "value": 4}], JSON_PATCH, scope=scope
    ),
    "apply": lambda api, scope: api.patch(f"{_ONE}?fieldManager=m&force=true", _APPLIED, APPLY, scope=scope),
    "scale": lambda api, scope: api.put(f"{_ONE}/scale", _SCALE, scope=scope),
    "delete": lambda api, scope: api.delete(_ONE, scope=scope),
    "delete all": lambda api, scope: api.delete(WIDGETS, scope=scope),
    "discovery": lambda api, scope: api.get("/apis", scope=scope),
    "openapi": lambda api, scope: api.get(f"/openapi/v3/apis/{GROUP}/v1", scope=scope),
}


@shares_application
@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
async def test_a_client_that_disconnects_at_any_point(shared_api: Client, request_: Request) -> None:
    """Each object is as before the request or as after it, and the next requests find nothing taken."""
    answered = unanswered = 0
    for number in range(1, _MOST):
        (await shared_api.post(WIDGETS, widget("two", size=1))).ok(201)
        (await shared_api.patch(f"{_ONE}?fieldManager=test&force=true", _APPLIED, APPLY)).ok()
        disconnecting = Disconnecting(request_, shared_api, number)
        async with asyncio.timeout(30):
            answer = await disconnecting
        # A write that was sent already is committed, before the next one of the tenant.
        (await shared_api.post(WIDGETS, widget("later", size=1))).ok(201)
        for item in (await shared_api.get(WIDGETS)).ok()["items"]:
            path = f"{WIDGETS}/{item['metadata']['name']}"
            assert (await shared_api.get(path)).ok() == item
            assert item["spec"]["color"] == "grey"
            (await shared_api.delete(path)).ok()
        if answer is None:
            unanswered += 1
        elif disconnecting.waits < number:
            answered += 1
            break
    assert unanswered
    assert answered
    async with asyncio.timeout(30):
        again = await asyncio.gather(*(shared_api.post(WIDGETS, widget(f"w{i}")) for i in range(40)))
        assert {answer.code for answer in again} == {201}
        listed = await asyncio.gather(*(shared_api.get(f"{WIDGETS}?limit=3") for _ in range(40)))
        assert {answer.code for answer in listed} == {200}
