"""How commands find the running server, and their message if there is none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from registry.cli.servers import RunningServer as Known
from registry.cli.servers import announce, running_servers
from tests.folders import data_folder
from tests.processes import environment, refusal, registry, wait_until
from tests.running import RunningServer, running_server


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "registry"


def test_a_running_server_is_listed(runtime: Path) -> None:
    with announce("https://127.0.0.1:1", Path("/b")), announce("https://127.0.0.1:2", Path("/a")):
        assert running_servers() == [Known("https://127.0.0.1:2", Path("/a")), Known("https://127.0.0.1:1", Path("/b"))]
    assert running_servers() == []


def test_the_file_of_a_killed_server_is_ignored(runtime: Path) -> None:
    runtime.mkdir(mode=0o700)
    (runtime / "0123456789abcdef").write_text('{"url": "https://127.0.0.1:1", "dataDir": "/a"}')
    assert running_servers() == []


@pytest.mark.parametrize("mode", [0o777, 0o720], ids=oct)
def test_a_folder_writable_by_others_is_ignored(runtime: Path, mode: int) -> None:
    with announce("https://127.0.0.1:1", Path("/a")):
        runtime.chmod(mode)
        assert running_servers() == []


def test_a_link_in_place_of_the_folder_is_not_followed(runtime: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(mode=0o700)
    runtime.symlink_to(tmp_path / "theirs")
    with announce("https://127.0.0.1:1", Path("/a")):
        assert running_servers() == []
    assert not list((tmp_path / "theirs").iterdir())


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """A server that is announced in a folder of its own: other test processes run servers, and a message lists only five."""
    with data_folder() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(folder))
        with running_server(folder / "data") as running:
            yield running


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [["kubeconfig"], ["tenant", "list"], ["psql"], ["token", "list"], ["encryption", "status"]], ids=" ".join
)
def test_a_command_that_finds_nothing_names_the_servers_that_run(
    command: list[str], server: RunningServer, tmp_path: Path
) -> None:
    said = refusal(registry(*command, REGISTRY_DATA_DIR=str(tmp_path)))
    assert str(tmp_path) in said
    assert f"{server.url} (--data-dir {server.data_dir})" in said


@pytest.mark.slow
def test_serve_prints_the_environment_for_other_terminals(server: RunningServer) -> None:
    """A data folder of one's own is named once, by the line that `serve` prints."""
    line = next(
        line for line in (server.data_dir / "server.out").read_text().splitlines() if "REGISTRY_DATA_DIR" in line
    )
    export = line.split(maxsplit=1)[1]
    command = f"{export}; {sys.executable} -m registry tenant list"
    done = subprocess.run(["sh", "-c", command], env=environment(), capture_output=True, text=True, check=True)
    assert "default" in done.stdout


@pytest.mark.slow
def test_a_command_prints_the_folder_it_chose(server: RunningServer, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root's folder is one for the whole machine")
    (tmp_path / "registry").symlink_to(server.data_dir)
    done = registry("tenant", "list", XDG_DATA_HOME=str(tmp_path))
    assert done.stderr == f"data folder: {tmp_path}/registry\n"


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_server_prints_that_it_stops_and_has_stopped(workers: int) -> None:
    with data_folder() as folder, running_server(folder / "data", "--workers", str(workers)) as running:
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(120) == 0
        lines = [line for line in running.log.splitlines() if line.startswith("registry: ")]
        assert lines == [
            "registry: stopping; requests in flight have 30 s, unless Ctrl-C comes again",
            "registry: stopped",
        ]
        wait_until(lambda: running.data_dir not in [known.data_dir for known in running_servers()], "its end")
