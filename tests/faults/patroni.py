"""A Patroni cluster of two members with its own etcd on loopback, from Debian's packages patroni and etcd-server."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
import pytest
import yaml

from registry.postgres.account import SystemAccount, account_for
from registry.postgres.binaries import find_binaries
from registry.postgres.config import environment
from tests.folders import data_folder
from tests.processes import wait_until
from tests.replication import ROLE, free_port

PROGRAMS: Final = ("patroni", "etcd")
# The least that Patroni takes: a leader that is gone with its machine is replaced after so long.
TTL_SECONDS: Final = 20


def require() -> None:
    """Skips the test where a program is missing."""
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        pytest.skip(f"not installed: {', '.join(missing)} (Debian: apt install patroni etcd-server)")


class Member:
    """A Patroni and the PostgreSQL that it runs."""

    def __init__(self, folder: Path, name: str, account: SystemAccount, etcd_port: int, *, synchronous: bool) -> None:
        self.name = name
        self.port = free_port()
        self._api = free_port()
        self._account = account
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        account.make_outer_folder(folder)
        account.make_folder(folder / "run")
        self._data = folder / "run" / "data"
        self._config = folder / "patroni.yml"
        self._config.write_text(yaml.safe_dump(self._settings(etcd_port, synchronous=synchronous)))
        account.let_read(self._config)

    @property
    def url(self) -> str:
        return f"postgresql://{ROLE}@127.0.0.1:{self.port}/postgres"

    def _settings(self, etcd_port: int, *, synchronous: bool) -> dict[str, Any]:
        binaries = find_binaries(None, self._account, self._folder / "binaries")
        user = {"username": ROLE, "password": "unused"}
        return {
            "scope": "registry",
            "name": self.name,
            "restapi": {"listen": f"127.0.0.1:{self._api}", "connect_address": f"127.0.0.1:{self._api}"},
            "etcd3": {"host": f"127.0.0.1:{etcd_port}"},
            "watchdog": {"mode": "off"},
            "bootstrap": {
                "dcs": {
                    "ttl": TTL_SECONDS,
                    "loop_wait": 1,
                    "retry_timeout": 3,
                    "synchronous_mode": synchronous,
                    "postgresql": {"use_pg_rewind": binaries.has("pg_rewind"), "parameters": {"max_connections": 60}},
                },
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, {"auth": "trust"}],
            },
            "postgresql": {
                "listen": f"127.0.0.1:{self.port}",
                "connect_address": f"127.0.0.1:{self.port}",
                "data_dir": str(self._data),
                "bin_dir": str(Path(binaries.program("postgres")).parent),
                "pgpass": str(self._folder / "run" / "pgpass"),
                "authentication": {"superuser": user, "replication": user, "rewind": user},
                "pg_hba": [f"host {database} all 127.0.0.1/32 trust" for database in ("all", "replication")],
                # Tests end processes, never the machine: what is in its cache counts as written.
                "parameters": {
                    "fsync": "off", "wal_log_hints": "on", "unix_socket_directories": str(self._folder / "run"),
                },
            },
        }  # fmt: skip

    def start(self) -> None:
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                ["patroni", str(self._config)], cwd="/", env=environment(), stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, **self._account.spawn_arguments(),
            )  # fmt: skip

    def kill(self) -> None:
        """Patroni and PostgreSQL at once, as with their machine."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGSTOP)
        for process in self._postgresql():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.kill()
        self._process.wait(20)
        self._process = None

    def _postgresql(self) -> list[psutil.Process]:
        try:
            postmaster = psutil.Process(int((self._data / "postmaster.pid").read_text().split()[0]))
        except (FileNotFoundError, IndexError, psutil.NoSuchProcess):
            return []
        return [postmaster, *postmaster.children()]

    def states(self) -> dict[str, str]:
        """What this member knows of all: name → role and state; nothing where it does not answer."""
        try:
            answer = httpx.get(f"http://127.0.0.1:{self._api}/cluster", trust_env=False, timeout=5)
            return {one["name"]: f"{one['role']} {one['state']}" for one in answer.json().get("members", ())}
        except (httpx.HTTPError, json.JSONDecodeError):
            return {}

    def switch_over_to(self, other: Member) -> None:
        answer = httpx.post(
            f"http://127.0.0.1:{self._api}/switchover", json={"leader": self.name, "candidate": other.name},
            trust_env=False, timeout=60,
        )  # fmt: skip
        assert answer.status_code == 200, answer.text

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")


class PatroniCluster:
    def __init__(self, members: tuple[Member, Member], *, synchronous: bool) -> None:
        self.members = members
        self._follows = "sync_standby" if synchronous else "replica"

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{member.port}" for member in self.members)
        return f"postgresql://{ROLE}@{hosts}/postgres?target_session_attrs=read-write"

    def wait_until_whole(self, leader: Member) -> Member:
        """Waits until one member leads and the other follows it, synchronously where that is asked for. Returns the
        follower."""
        [follower] = [member for member in self.members if member is not leader]

        def whole() -> bool:
            states = leader.states()
            role, _, state = states.get(follower.name, "").partition(" ")
            return (
                states.get(leader.name, "").startswith("leader")
                and role == self._follows
                and state in ("running", "streaming")
            )

        wait_until(whole, f"{follower.name} follows {leader.name}", seconds=180)
        return follower

    def wait_until_leads(self, member: Member) -> None:
        wait_until(
            lambda: member.states().get(member.name, "") == "leader running", f"{member.name} leads", seconds=180
        )


@contextlib.contextmanager
def patroni_cluster(*, synchronous: bool) -> Iterator[PatroniCluster]:
    """The first of its members leads."""
    with data_folder() as folder, _etcd(folder / "etcd") as etcd_port:
        account = account_for(None)
        one, two = (Member(folder / name, name, account, etcd_port, synchronous=synchronous) for name in ("one", "two"))
        cluster = PatroniCluster((one, two), synchronous=synchronous)
        try:
            one.start()
            cluster.wait_until_leads(one)
            two.start()
            cluster.wait_until_whole(one)
            yield cluster
        except BaseException:
            print(*(f"--- {member.name}\n{member.log[-4000:]}" for member in cluster.members), sep="\n")
            raise
        finally:
            for member in cluster.members:
                member.kill()


@contextlib.contextmanager
def _etcd(folder: Path) -> Iterator[int]:
    """The port for its clients."""
    port, peers = free_port(), free_port()
    folder.mkdir()
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            ["etcd", "--data-dir", str(folder / "data"), "--listen-client-urls", f"http://127.0.0.1:{port}",
             "--advertise-client-urls", f"http://127.0.0.1:{port}", "--listen-peer-urls", f"http://127.0.0.1:{peers}",
             "--initial-advertise-peer-urls", f"http://127.0.0.1:{peers}",
             "--initial-cluster", f"default=http://127.0.0.1:{peers}"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env={"PATH": os.environ.get("PATH", "/usr/bin:/bin")},
        )  # fmt: skip
    try:
        wait_until(lambda: _is_healthy(port), "etcd is healthy")
        yield port
    finally:
        process.terminate()
        process.wait(30)


def _is_healthy(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False
