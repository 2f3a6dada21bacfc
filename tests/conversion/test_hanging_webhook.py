"""Reads that wait for a conversion webhook: what they hold meanwhile is bounded."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from tests.api.widgets import define
from tests.application import serving
from tests.conversion.webhook import Webhook

GROUP = "net.example.com"
V1 = f"/apis/{GROUP}/v1/namespaces/default/endpoints"
BETA = f"/apis/{GROUP}/v1beta1/namespaces/default/endpoints"

pytestmark = pytest.mark.slow  # a server, TLS and a database


async def test_objects_that_wait_for_a_webhook_count_as_answers(
    api_database: str, tmp_path: Path, webhook: Webhook, definition: dict[str, Any]
) -> None:
    """150 lists and watches of large objects took half a gigabyte while they waited."""
    asked, go = asyncio.Event(), threading.Event()
    loop, example = asyncio.get_running_loop(), webhook.application

    async def hang(scope: Scope, receive: Receive, send: Send) -> None:
        loop.call_soon_threadsafe(asked.set)
        await asyncio.to_thread(go.wait, 60)
        await example(scope, receive, send)

    async with serving(api_database, tmp_path, answer_limit_megabytes=8, allow_egress_to=("127.0.0.0/8",)) as client:
        await define(client, definition)
        for i in range(3):
            head = {"apiVersion": f"{GROUP}/v1", "kind": "Endpoint"}
            metadata = {"name": f"a{i}", "annotations": {"text": "x" * 250_000}}
            made = {**head, "metadata": metadata, "spec": {"host": "h", "port": i + 1}}
            (await client.post(V1, made)).ok(201)
        webhook.application = hang
        # Each holds 1.5 MB. One tenant may have half of the limit.
        lists = [asyncio.create_task(client.get(f"{BETA}?limit={500 + i}")) for i in range(6)]
        await asyncio.wait_for(asked.wait(), 60)
        done, waiting = await asyncio.wait(lists, timeout=30, return_when=asyncio.FIRST_COMPLETED)
        assert {answer.result().code for answer in done} == {429}
        assert waiting
        go.set()
        await asyncio.gather(*waiting)
        assert len((await client.get(f"{BETA}?limit=400")).ok()["items"]) == 3
