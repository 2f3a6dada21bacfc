"""The runbooks of docs/troubleshooting.md, each run as pasted in the situation that it describes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import psycopg
import pytest

from registry.store import migrate
from registry.store.errors import Unavailable
from registry.store.store import Store
from registry.store.types import TenantName
from tests.docs.pages import ROOT
from tests.faults.clients import ServerClient, eventually
from tests.faults.disturbances import CLOCK, FULL_DISK
from tests.folders import data_folder
from tests.replication import Node, cluster, running_node
from tests.running import RunningServer, running_server
from tests.store.writes import create

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs/troubleshooting.md").read_text()
# Where Debian puts what is no part of its psql.
DEBIAN = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


def blocks(heading: str) -> list[str]:
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^```sh\n(.*?)^```", section, re.DOTALL | re.MULTILINE)


def run(script: str, node: Node, examples: Mapping[str, object] | None = None, *, fails: bool = False) -> str:
    """The output of a block. `examples` are put in for the names that stand in the page as examples."""
    for name, value in (examples or {}).items():
        assert name in script
        script = script.replace(name, str(value))
    programs = [str(node.binaries.folder), *map(str, DEBIAN[::-1])]
    environment = os.environ | {
        "REGISTRY_DATABASE_URL": node.url,
        "PATH": os.pathsep.join([os.environ["PATH"], *programs]),
        "PAGER": "",
    }
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    if "command not found" in done.stdout:
        pytest.skip(done.stdout.strip().splitlines()[-1])
    assert (done.returncode != 0) == fails, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with running_node() as node:
        node.execute(CLOCK)
        yield node


@pytest.fixture(scope="module")
def server(node: Node) -> Iterator[RunningServer]:
    with (
        data_folder() as folder,
        running_server(folder / "server", "--database-url", node.url, "--plain-http", "--no-sql-views") as server,
    ):
        yield server


@pytest.fixture
async def client(server: RunningServer) -> AsyncIterator[ServerClient]:
    async with ServerClient(server.url, server.token) as client:
        yield client


SETTINGS = "/api/v1/namespaces/default/configmaps"


async def code_of_a_write(client: ServerClient) -> int:
    return (await client.request("POST", SETTINGS, {"metadata": {"generateName": "a-"}})).status_code


async def checks(client: ServerClient, line: str) -> None:
    """Waits until /readyz says so, and the metric of the check with it."""
    name = line[3:].partition(" ")[0]
    outcome = f'kubernetes_healthcheck{{name="{name}",type="readyz"}} {"1.0" if line.startswith("[+]") else "0.0"}'

    async def there() -> bool:
        ready, metrics = await client.request("GET", "/readyz?verbose"), await client.request("GET", "/metrics")
        return line in ready.text and outcome in metrics.text

    await eventually(there)


async def test_a_full_disk(node: Node, client: ServerClient) -> None:
    sizes, slots = blocks("A full disk")
    node.execute("SELECT pg_create_physical_replication_slot('gone', true)")
    node.execute(FULL_DISK)
    try:
        assert await code_of_a_write(client) == 503
        await checks(client, "[-]disk failed")
        excluded = await client.request("GET", "/readyz?exclude=disk")
        assert excluded.status_code == 200
        assert (await client.request("GET", SETTINGS)).status_code == 200
        output = run(sizes, node)
        assert re.search(r"\d+ MB", output)
        assert "changes_p" in output
        assert re.search(r"gone +\| f", run(slots, node))
        assert node.execute("SELECT slot_name FROM pg_replication_slots") == []
    finally:
        node.execute("DROP TRIGGER full_disk ON changes")
    assert await code_of_a_write(client) == 201
    await checks(client, "[+]disk ok")


def test_a_lost_replica(migrated_node: Node) -> None:
    state, without, again = blocks("A replica is lost")
    with cluster(migrated_node, synchronous=True) as (primary, standby):
        assert re.search(r"b +\| streaming +\| sync", run(state, primary))
        standby.kill()
        with psycopg.connect(primary.url, autocommit=True) as connection:
            connection.execute("SET statement_timeout = '2s'")
            run(without, primary)
            # Waits for no standby.
            connection.execute("CREATE TABLE written ()")
        standby.start()
        run(again, primary)
        deadline = time.monotonic() + 120
        while not re.search(r"b +\| streaming +\| sync", run(state, primary)):
            assert time.monotonic() < deadline


async def test_a_corrupted_index(node: Node, client: ServerClient) -> None:
    check, repair = blocks("A corrupted index")
    assert await code_of_a_write(client) == 201
    run(check, node)
    [(path, size)] = node.execute("SELECT pg_relation_filepath('objects_uid_idx'), pg_relation_size('objects_uid_idx')")
    node.execute("CHECKPOINT")
    assert size > 8192
    # The page after the first, which is the index's own: its entries are turned over.
    data = (node.data / path).read_bytes()
    flipped = bytes(byte ^ 0xFF for byte in data[8192 + 4096 : 2 * 8192])
    (node.data / path).write_bytes(data[: 8192 + 4096] + flipped + data[2 * 8192 :])
    node.execute("SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    node.stop()
    node.start()
    assert "objects_uid_idx" in run(check, node, fails=True)
    run(repair, node)
    run(check, node)
    await eventually(lambda: can_write(client))


async def can_write(client: ServerClient) -> bool:
    return await code_of_a_write(client) == 201


async def test_a_vacuum_that_does_not_get_through(node: Node, client: ServerClient) -> None:
    find, end, vacuum = blocks("Vacuum does not get through")
    with contextlib.suppress(psycopg.OperationalError), psycopg.connect(node.url) as forgotten:
        forgotten.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        forgotten.execute("SELECT 'forgotten', count(*) FROM domains")
        for _ in range(5):
            assert await code_of_a_write(client) == 201
        pid = forgotten.info.backend_pid
        assert re.search(rf"{pid} +\| idle in transaction", run(find, node))
        assert not_removable(run(vacuum, node)) > 0
        run(end, node, {"4711": pid})

    async def vacuumed() -> bool:
        return not_removable(await asyncio.to_thread(run, vacuum, node)) == 0

    await eventually(vacuumed)


def not_removable(output: str) -> int:
    """Dead rows that VACUUM had to leave, by its report on the first table."""
    found = re.search(r"(\d+) (are dead but not yet removable|dead row versions cannot be removed)", output)
    assert found is not None, output
    return int(found[1])


async def test_a_change_log_without_a_partition(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    show, grant = blocks("The change log has no partition for now")
    for statement in ("CREATE ROLE application LOGIN", "CREATE DATABASE apart OWNER application"):
        node.execute(statement)
    apart = node.database("apart")
    apart.execute("ALTER SCHEMA public OWNER TO registry")
    apart.execute("GRANT ALL ON SCHEMA public TO application")
    url = apart.url.replace("//registry@", "//application@")
    await asyncio.to_thread(migrate.upgrade, url)
    store = await Store.open(url, housekeeping=False)
    try:
        tenant = await store.create_tenant(TenantName("acme"))
        for (name,) in apart.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'changes'::regclass"
        ):
            assert f"{name} | FOR VALUES FROM" in run(show, apart)
            apart.execute(f"DROP TABLE {name}")
        apart.execute("REVOKE CREATE ON SCHEMA public FROM application, PUBLIC")
        for number in range(3):
            with pytest.raises(Unavailable, match="permission denied for schema public"):
                await store.commit(tenant, create(f"ns/{number}"))
        assert "permission denied" in str(store.problems()["writes"]())
        assert len([line for line in caplog.messages if line.startswith("PostgreSQL refuses writes: ")]) == 1
        run(grant, apart, {"TO registry": "TO application"})
        await store.commit(tenant, create("ns/a"))
        assert store.problems()["writes"]() is None
    finally:
        await store.close()


async def test_a_clock_that_has_jumped(node: Node, client: ServerClient) -> None:
    [compare] = blocks("A clock has jumped")
    node.execute("UPDATE clock_jump SET seconds = 3600")
    try:
        await checks(client, "[-]clock failed")
        of_postgresql, here = map(int, run(compare, node).split())
        assert 3600 <= of_postgresql - here + 60 < 3720
        assert await code_of_a_write(client) == 201
    finally:
        node.execute("UPDATE clock_jump SET seconds = 0")
    await checks(client, "[+]clock ok")
