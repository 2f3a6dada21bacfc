"""Watches by filters equal lists plus changes while processes write at random; benchmarks/filtered_watch.py at length."""

from __future__ import annotations

import pytest

from benchmarks.client import Target
from benchmarks.filtered_watch import FILTERS, check
from tests.folders import data_folder
from tests.running import running_server


@pytest.mark.slow  # a server of two processes, and two that write
async def test_watches_equal_lists_while_processes_write(database_url: str) -> None:
    arguments = ("--database-url", database_url, "--workers", "2")
    with data_folder() as folder, running_server(folder, *arguments) as running:
        watches = await check(Target(running.url, running.token), 1200, 2)
    assert len(watches) == 2 * len(FILTERS)
    assert all(watch.events > 10 for watch in watches)
    assert any(watch.resumed for watch in watches)
