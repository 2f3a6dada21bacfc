"""PostgreSQL crashes, is down, read-only or full: 503 with Retry-After, no partial writes, recovery."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg
import pytest

from registry.postgres.account import account_for
from registry.postgres.server import EmbeddedPostgres
from tests.api.widgets import WIDGETS
from tests.faults.clients import ServerClient, Watcher, Writers, assert_unavailable, eventually, revision_of
from tests.running import running_server

pytestmark = pytest.mark.slow


async def test_a_kill_of_postgresql_in_the_middle_of_writes(
    postgres: EmbeddedPostgres, clients: Sequence[ServerClient]
) -> None:
    one, two = clients
    await one.define_widgets()
    start = await one.revision()
    watcher = Watcher(two, start)
    writers = Writers([one, two])
    await writers.more(150)
    for _ in range(2):
        pid = postgres.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await writers.more(100)  # it is started again, and the servers find it by themselves
    await writers.stop()
    await watcher.reach(max(writers.acknowledged))
    await watcher.stop()
    for answer in writers.refused:
        if answer.status_code != 409:  # a write whose outcome was lost had been made
            assert_unavailable(answer)
    revisions = [revision for revision, _, _ in watcher.seen]
    assert revisions == sorted(set(revisions))
    assert writers.acknowledged.items() <= {r: (type_, name) for r, type_, name in watcher.seen}.items()


async def test_requests_fail_during_an_outage_and_succeed_afterwards(
    postgres: EmbeddedPostgres, clients: Sequence[ServerClient]
) -> None:
    one, _ = clients
    await one.define_widgets()
    assert (await one.create("a")).status_code == 201
    postgres.stop()
    assert_unavailable(await one.create("b"))
    assert_unavailable(await one.request("GET", f"{WIDGETS}/a"))
    assert_unavailable(await one.request("GET", WIDGETS))
    assert_unavailable(await one.request("DELETE", f"{WIDGETS}/a"))
    assert (await one.request("GET", "/livez")).status_code == 200
    assert (await one.request("GET", "/readyz")).status_code == 500
    with EmbeddedPostgres(postgres.folder, settings={"fsync": "off"}) as again:
        assert again.url == postgres.url

        async def back() -> bool:
            return (await one.create("b")).status_code in (201, 409)

        await eventually(back)
        assert [i["metadata"]["name"] for i in (await one.get(WIDGETS))["items"]] == ["a", "b"]

        async def ready() -> bool:
            return (await one.request("GET", "/readyz")).status_code == 200

        await eventually(ready)


async def test_a_read_only_database(postgres: EmbeddedPostgres, clients: Sequence[ServerClient]) -> None:
    one, two = clients
    await one.define_widgets()
    assert (await one.create("a", size=1)).status_code == 201
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        connection.execute("SELECT pg_reload_conf()")

        async def refused() -> bool:
            # Each backend hears of it by itself.
            label = {"metadata": {"labels": {"at": str(time.monotonic_ns())}}}
            return all([(await client.patch(f"{WIDGETS}/a", label)).status_code == 503 for client in (one, two)])

        await eventually(refused)
        before = await one.get(f"{WIDGETS}/a")
        for client in (one, two):
            assert_unavailable(await client.create("b"))
            assert_unavailable(await client.patch(f"{WIDGETS}/a", {"spec": {"size": 2}}))
            assert_unavailable(await client.request("DELETE", f"{WIDGETS}/a"))
            assert await client.get(f"{WIDGETS}/a") == before
        connection.execute("SET default_transaction_read_only = off")
        connection.execute("ALTER SYSTEM RESET default_transaction_read_only")
        connection.execute("SELECT pg_reload_conf()")

    async def is_written() -> bool:
        return (await two.create("b")).status_code == 201

    await eventually(is_written)
    assert [i["metadata"]["name"] for i in (await one.get(WIDGETS))["items"]] == ["a", "b"]


async def test_a_disk_that_is_full(postgres: EmbeddedPostgres, clients: Sequence[ServerClient]) -> None:
    """Full in the middle of a transaction: the object has been written, its change cannot be."""
    one, _ = clients
    await one.define_widgets()
    assert (await one.create("a", size=1)).status_code == 201
    revision = await one.revision()
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION "
            "'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$"
        )
        connection.execute(
            "CREATE TRIGGER full_disk BEFORE INSERT ON changes FOR EACH ROW EXECUTE FUNCTION full_disk()"
        )
        assert_unavailable(await one.create("b"))
        assert_unavailable(await one.patch(f"{WIDGETS}/a", {"spec": {"size": 2}}))
        assert_unavailable(await one.request("DELETE", f"{WIDGETS}/a"))
        connection.execute("DROP TRIGGER full_disk ON changes")
    found = await one.get(WIDGETS)
    assert [(i["metadata"]["name"], i["spec"]["size"]) for i in found["items"]] == [("a", 1)]
    assert int(found["metadata"]["resourceVersion"]) == revision
    assert (await one.create("b")).status_code == 201


@pytest.fixture
def small_disk(postgres: EmbeddedPostgres, folder: Path) -> Iterator[tuple[str, Path]]:
    """The URL of a database on a disk of its own, and where that is mounted."""
    disk = folder / "disk"
    disk.mkdir()
    size = 96 << 20
    try:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("there is no mount")
    if done.returncode:
        pytest.skip(f"a disk cannot be mounted: {done.stderr.strip()}")
    try:
        data = disk / "data"
        account_for(None).make_folder(data)
        with psycopg.connect(postgres.url, autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{data}'".encode())
            connection.execute("CREATE DATABASE small TABLESPACE small")
        yield psycopg.conninfo.make_conninfo(postgres.url, dbname="small"), disk
    finally:
        postgres.stop()
        subprocess.run(["umount", "--lazy", disk], check=False)


async def test_a_disk_without_room(small_disk: tuple[str, Path], folder: Path) -> None:
    """Nothing is faked: PostgreSQL cannot extend its files. Reads go on, and writes do when there is room again."""
    url, disk = small_disk
    with running_server(folder / "server", "--database-url", url, "--plain-http", "--no-sql-views") as server:
        async with ServerClient(server.url, server.token) as client:
            await client.define_widgets()
            acknowledged = [revision_of((await client.create("first")).json())]
            ballast = disk / "ballast"
            _fill(ballast)
            number = 0
            while True:
                # What is random cannot be compressed.
                text = random.Random(number).randbytes(64 << 10).hex()
                settings = {"metadata": {"name": f"s{number}"}, "data": {"text": text}}
                answer = await client.request("POST", SETTINGS, settings)
                if answer.status_code != 201:
                    break
                acknowledged.append(revision_of(answer.json()))
                number += 1
            assert_unavailable(answer)
            ready = await client.request("GET", "/readyz?verbose")
            assert "[-]disk failed" in ready.text
            assert (await client.request("GET", "/readyz?exclude=disk")).status_code == 200
            kept = await client.get(SETTINGS)
            assert len([one for one in kept["items"] if one["metadata"]["name"].startswith("s")]) == number
            ballast.unlink()

            async def can_write() -> bool:
                return (await client.request("POST", SETTINGS, settings)).status_code == 201

            await eventually(can_write)
            assert "[+]disk ok" in (await client.request("GET", "/readyz?verbose")).text
            acknowledged.append(int((await client.get(f"{SETTINGS}/s{number}"))["metadata"]["resourceVersion"]))
            assert acknowledged == sorted(set(acknowledged))
        line, *_ = [line for line in server.log.splitlines() if "PostgreSQL refuses writes: " in line]
        assert "No space left on device" in line
        assert "Traceback" not in server.log


SETTINGS = "/api/v1/namespaces/default/configmaps"


def _fill(file: Path) -> None:
    with open(file, "wb", buffering=0) as ballast, contextlib.suppress(OSError):
        for size in (1 << 20, 1 << 12):
            with contextlib.suppress(OSError):
                while ballast.write(bytes(size)) == size:
                    pass
