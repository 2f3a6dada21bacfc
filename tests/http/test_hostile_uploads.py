"""Many uploads that never end, on a started server: its memory, its responses, and those to another tenant."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import httpx
import psutil
import pytest

from registry.http.bodies import BODY_LIMIT_BYTES
from tests.folders import data_folder
from tests.running import RunningServer, running_server

UPLOADS = 200
LIMIT_MIB = 64
# Beside what is held: connections, buffers, and what has been freed but not given back to the system.
OTHER_MIB = 100
# What comes about however busy the machine is: how much is held of a tenant that may hold half, and how many are refused.
LEAST_HELD_BYTES = LIMIT_MIB * 2**20 / 4
LEAST_REFUSED = UPLOADS - 2 * LIMIT_MIB / 3
PATH = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def server(empty_database_url: str) -> Iterator[RunningServer]:
    with (
        data_folder() as folder,
        running_server(
            folder / "data",
            "--database-url",
            empty_database_url,
            "--plain-http",
            "--upload-limit-megabytes",
            str(LIMIT_MIB),
        ) as running,
    ):
        yield running


def resident_mib(server: RunningServer) -> float:
    processes = [psutil.Process(server.process.pid), *psutil.Process(server.process.pid).children(recursive=True)]
    return sum(float(process.memory_info().rss) for process in processes) / 2**20


async def unfinished(server: RunningServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """An upload of which the last byte is missing."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(
        f"POST {PATH} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {server.token}\r\n"
        f"content-type: application/json\r\ncontent-length: {BODY_LIMIT_BYTES}\r\n\r\n".encode()
    )
    writer.write(b" " * (BODY_LIMIT_BYTES - 1))
    await writer.drain()
    return reader, writer


async def test_endless_uploads(server: RunningServer) -> None:
    headers = {"authorization": f"Bearer {server.token}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=60, trust_env=False) as client:

        async def held_bytes() -> float:
            lines = (await client.get("/metrics")).text.splitlines()
            return next(float(line.split()[1]) for line in lines if line.startswith("registry_upload_bytes "))

        async def until_steady() -> float:
            """What is held once most uploads are refused and nothing more comes."""
            last, now = -1.0, await held_bytes()
            async with asyncio.timeout(120):
                while last != now or now <= LEAST_HELD_BYTES or len(refusals()) <= LEAST_REFUSED:
                    await asyncio.sleep(0.3)
                    last, now = now, await held_bytes()
            return now

        def refusals() -> list[asyncio.StreamReader]:
            return [reader for reader, _ in uploads if reader._buffer]  # type: ignore[attr-defined]

        (await client.get(PATH)).raise_for_status()
        before = resident_mib(server)
        uploads = await asyncio.gather(*(unfinished(server) for _ in range(UPLOADS)))
        try:
            held = await until_steady()
            assert held <= LIMIT_MIB * 2**20 / 2, "one tenant has half at the most"
            assert resident_mib(server) - before < LIMIT_MIB + OTHER_MIB

            heads = []
            for reader in refusals():
                heads.append(await reader.readuntil(b"\r\n\r\n"))
                length = next(
                    int(line[15:]) for line in heads[-1].split(b"\r\n") if line.startswith(b"content-length:")
                )
                status = json.loads(await reader.readexactly(length))
                assert status["reason"] == "TooManyRequests"
            assert all(b" 429 " in head.split(b"\r\n")[0] and b"retry-after: 1" in head.lower() for head in heads)

            small = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "small"}, "data": {"x": "y"}}
            own = await client.post(PATH, json=small)
            assert own.status_code == 201, "the small writes of the tenant itself go on"

            other = await client.post(
                f"/clusters/system{PATH}",
                json={"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "y" * 500_000}},
            )
            assert other.status_code == 201, other.text
        finally:
            for _, writer in uploads:
                writer.transport.abort()
        async with asyncio.timeout(60):
            while await held_bytes():  # noqa: ASYNC110 - it is another process
                await asyncio.sleep(0.1)
