"""How the events of a watch are encoded."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, MutableMapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from registry.api.answers import Event, WatchAnswer
from registry.api.errors import expired
from registry.api.tables.builtin import builtin_table
from registry.codec.json_encode import encode_json, encode_json_text
from registry.codec.protobuf.envelope import encode_watch_event
from registry.http.forms import Form, form_of
from registry.http.negotiation import negotiate
from registry.http.request_info import request_info
from registry.http.request_state import RequestState
from registry.http.serving.stopping import Stopping
from registry.http.watch_stream import PART_BYTES, _EventWriter, _send_watch, plain_line
from registry.logs import begin_request
from tests.api.client import JSON, PARTIAL, TABLE

PROTOBUF = PARTIAL.replace(JSON, "application/vnd.kubernetes.protobuf")


@pytest.mark.parametrize("accept", [JSON, PARTIAL, TABLE, PROTOBUF])
async def test_an_error_is_a_status_in_the_encoding_of_the_watch(accept: str) -> None:
    status = expired("too old").status()
    form = form_of(negotiate(accept), builtin_table("", "ConfigMap"), {}, custom=False)
    expected = (
        encode_watch_event("ERROR", status)
        if accept == PROTOBUF
        else encode_json({"type": "ERROR", "object": status}) + b"\n"
    )
    assert await _parts(form, [Event("ERROR", encode_json_text(status))]) == [expected]


async def test_events_are_sent_in_parts_of_at_most_a_tls_record() -> None:
    """OpenSSL keeps a buffer as large as the largest part for as long as the watch lasts."""
    sizes = [10, 3_000, PART_BYTES, 5 * PART_BYTES, *[4_000] * 20]
    events = [Event("ADDED", encode_json_text({"data": "x" * size})) for size in sizes]
    form = form_of(negotiate(JSON), builtin_table("", "ConfigMap"), {}, custom=False)
    parts = await _parts(form, events)
    assert b"".join(parts) == b"".join(map(plain_line, events))
    assert max(map(len, parts)) <= PART_BYTES
    # Short events are joined: several for each part.
    assert len(parts) < len(events)


async def _parts(form: Form, events: Sequence[Event]) -> list[bytes]:
    parts: list[bytes] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        parts.append(message["body"])

    await _EventWriter(form).send(send, events)
    return parts


async def test_an_idle_watch_keeps_nothing_that_it_has_sent() -> None:
    """Thousands of watches would keep as many last events."""
    sent: list[bytes] = []
    idle = asyncio.Event()

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message["body"])

    async def events() -> AsyncGenerator[Sequence[Event], None]:
        yield [Event("ADDED", encode_json_text({"data": "x" * 3_000}))]
        idle.set()
        await asyncio.Event().wait()

    resource = SimpleNamespace(group="", name="configmaps")
    answer = cast(WatchAnswer, SimpleNamespace(served=SimpleNamespace(resource=resource), events=events()))
    form = form_of(negotiate(JSON), builtin_table("", "ConfigMap"), {}, custom=False)
    info = request_info("GET", "/api/v1/configmaps", b"watch=1")
    state = RequestState(info, {}, info.attributes(), begin_request(), 0.0, [])
    watch = asyncio.create_task(_send_watch(state, send, answer, form, None, None, None, None, Stopping()))
    await idle.wait()
    alone = [encode_json("y" * 3_000)]
    assert len(sent) == 1
    assert sys.getrefcount(sent[0]) == sys.getrefcount(alone[0])
    watch.cancel()
    await asyncio.wait([watch])
