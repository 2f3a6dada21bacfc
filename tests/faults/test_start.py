"""Start-up: duration of first and later starts, and recovery after a kill."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.faults.clients import ServerClient
from tests.running import REGISTRY, start_server

pytestmark = pytest.mark.slow


async def test_a_killed_server_restarts_with_all_data(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times: list[float] = []
    for round_ in range(3):
        started = time.monotonic()
        server = start_server(folder / "data", "--plain-http", command=REGISTRY)
        times.append(time.monotonic() - started)
        try:
            async with ServerClient(server.url, server.token) as client:
                if round_ == 0:
                    await client.define_widgets()
                assert (await client.create(f"w{round_}")).status_code == 201
                found = await client.get("/apis/test.example.com/v1/widgets")
                assert [i["metadata"]["name"] for i in found["items"]] == [f"w{n}" for n in range(round_ + 1)]
        finally:
            server.process.kill()
            server.process.wait()
    with capsys.disabled():
        print(f"\nstart to ready: {times[0]:.2f} s on a new folder, then {times[1]:.2f} and {times[2]:.2f} s")
