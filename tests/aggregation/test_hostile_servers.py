"""What servers of APIServices send to cost: this server's own requests to them, and what is kept of the answers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.aggregation.backend import NAME, RESOURCES, Request, backend, placed, register, wait_for_condition
from tests.application import serving


async def test_discovery_in_tiny_pieces(api_database: str, tmp_path: Path) -> None:
    """Four megabytes in chunks of one byte took seconds, and hundreds of megabytes."""

    async def drip(request: Request) -> None:
        request.writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        document = json.dumps(RESOURCES).encode() + b" " * 10_000
        request.writer.write(b"".join(b"1\r\n%c\r\n" % byte for byte in document) + b"0\r\n\r\n")
        await asyncio.sleep(0)

    async with backend(tmp_path / "server") as server, serving(api_database, tmp_path, **placed(server)) as client:
        server.discovery = drip
        await register(client, server, available=False)
        condition = await wait_for_condition(client, NAME, "False")
        assert "too many pieces of few bytes" in condition["message"]
