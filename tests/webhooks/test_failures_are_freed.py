"""Calls that fail leave neither their requests nor their connections to the garbage collector: a connection keeps a
quarter of a megabyte of TLS buffers, and a request its body."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from registry.webhooks.client import WebhookClient
from registry.webhooks.egress import EgressPolicy
from registry.webhooks.errors import CallFailed
from registry.webhooks.services import Services
from tests.garbage import no_frames_are_left
from tests.http.loops import on_asyncio, on_uvloop
from tests.webhooks.hostile import answering, body, certificates, head, serving

ANSWERS = {
    "nothing": b"",
    "a head without end": b"HTTP/1.1 200 OK\r\na: ",
    "no HTTP": b"nonsense\r\n\r\n",
    "half a body": head(content_length="1000") + b'{"a":',
    "a body that is no JSON": body(b"\xff["),
    "an answer that is too long": head(content_length=str(1 << 30)),
    "a refusal": b"HTTP/1.1 500 No\r\ncontent-length: 2\r\n\r\n{}",
}


@pytest.mark.parametrize("answer", [pytest.param(answer, id=name) for name, answer in ANSWERS.items()])
@pytest.mark.parametrize("run", [on_asyncio, on_uvloop])
def test_a_failed_call_is_freed(
    run: Callable[[Callable[[], Coroutine[Any, Any, None]]], None], answer: bytes, tmp_path: Path
) -> None:
    async def fail() -> None:
        client = WebhookClient(EgressPolicy(["127.0.0.0/8"]), Services())
        async with serving(certificates(tmp_path), answering([answer])) as server:
            for repeatable in (True, False, True):
                with pytest.raises(CallFailed):
                    await client.call(1, server.endpoint, b"{}", _no_json, repeatable=repeatable)
        await client.aclose()
        await asyncio.sleep(0.05)  # until the connections have ended

    run(fail)  # what is loaded and compiled once
    with no_frames_are_left():
        run(fail)


def _no_json(data: bytes) -> Any:
    raise CallFailed(f"no review in {len(data)} bytes")
