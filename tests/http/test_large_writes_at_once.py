"""Many large writes of one tenant at once, while its definitions change."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from registry.http import resources
from tests.api.client import eventually
from tests.api.widgets import define, definition
from tests.application import serving

MAPS = "/api/v1/namespaces/default/configmaps"

pytestmark = pytest.mark.slow  # a database


async def test_a_large_write_that_waits_is_evaluated_by_the_definitions_of_its_turn(
    api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its definitions had changed while it waited, so it was evaluated again after another wait: for fifteen seconds."""
    go, started = asyncio.Event(), list[str]()
    answer = resources._answer

    async def answer_later(request: Any, verb: str, data: bytes, *more: Any) -> Any:
        if len(data) > 1_000_000:
            started.append(data[:30].decode())
            await go.wait()
        return await answer(request, verb, data, *more)

    monkeypatch.setattr(resources, "_answer", answer_later)
    async with serving(api_database, tmp_path) as client:
        # Two of them fill what a tenant's requests may have decoded.
        bodies = [{"metadata": {"name": f"a{n}"}, "data": {"text": "x" * 1_040_000}} for n in range(3)]
        writes = [asyncio.create_task(client.post(MAPS, body)) for body in bodies]

        async def two_have_begun() -> bool:
            return len(started) == 2

        await eventually(two_have_begun)
        await define(client, definition("gears", "Gear"))
        go.set()
        assert [(await write).code for write in writes] == [201] * 3
        assert len(started) == 5, "those that had begun were evaluated again, and the one that waited was not"
