"""A server on a Patroni cluster: a switchover, and the loss of the primary's machine, while clients work.

    TRY_PATRONI=1 pytest -s tests/faults/test_patroni.py

It takes some two minutes, so it is not part of `make test`.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from tests.faults import patroni
from tests.faults.actors import Actors, Cluster
from tests.faults.campaign import TENANTS, define, read_logs, recovered
from tests.faults.checker import violations
from tests.faults.history import History
from tests.running import running_server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("TRY_PATRONI"), reason="two minutes long: set TRY_PATRONI=1"),
]


@pytest.mark.parametrize("mode", ["asynchronous", "synchronous"])
async def test_clients_continue_after_a_switchover_and_a_failover(mode: str, folder: Path) -> None:
    patroni.require()
    synchronous = mode == "synchronous"
    with patroni.patroni_cluster(synchronous=synchronous) as cluster:
        one, two = cluster.members
        with running_server(folder / "server", "--database-url", cluster.url) as server:
            await define(server)
            clients = Cluster([(server.url, server.token, str(server.authority))])
            actors = Actors(clients, TENANTS, 1)
            actors.start()
            try:
                await recovered(actors, "the start")
                begun = time.monotonic()
                await asyncio.to_thread(one.switch_over_to, two)
                await asyncio.to_thread(cluster.wait_until_whole, two)
                await recovered(actors, "the switchover")
                switched = _pause(actors.history, begun)

                begun = time.monotonic()
                await asyncio.to_thread(two.kill)
                await asyncio.to_thread(cluster.wait_until_leads, one)
                await recovered(actors, "the failover")
                failed_over = _pause(actors.history, begun)

                two.start()
                await asyncio.to_thread(cluster.wait_until_whole, one)
                await recovered(actors, "the return of the old primary")
            finally:
                await actors.stop()
                await clients.aclose()
            logs = await asyncio.to_thread(read_logs, one.url, TENANTS)
            lost = sum(write.is_lost(logs[write.tenant].lost) for write in actors.history.writes)
            print(
                f"{mode}: no write for {switched:.1f} s in the switchover, {failed_over:.1f} s in the failover"
                f" (of them up to {patroni.TTL_SECONDS} s Patroni's ttl);"
                f" {sum(write.is_acknowledged for write in actors.history.writes)} writes acknowledged, {lost} lost"
            )
            assert violations(actors.history, logs, lossless=synchronous) == []
            assert actors.hung == []
            assert actors.late == []
            assert "Traceback" not in server.log, server.log[-5000:]


def _pause(history: History, since: float) -> float:
    """The longest time without an acknowledged write since then, in seconds."""
    ends = sorted(write.ended for write in history.writes if write.is_acknowledged and write.ended >= since)
    return max((later - earlier for earlier, later in zip([since, *ends], ends, strict=False)), default=0.0)
