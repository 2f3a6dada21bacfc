"""docker-compose.yml in each profile: errors that Docker would report only at start."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from registry.cli.root import parser

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())


@pytest.mark.parametrize("profile", [None, "reporting"])
def test_services_find_what_they_need(profile: str | None) -> None:
    services = {
        name: service
        for name, service in COMPOSE["services"].items()
        if not service.get("profiles") or profile in service["profiles"]
    }
    for name, service in services.items():
        for other, how in (service.get("depends_on") or {}).items():
            assert other in services, f"{name} waits for {other}, which is of another profile"
            if how["condition"] == "service_healthy":
                assert "healthcheck" in services[other]
            else:
                # One that is started again never completes.
                assert services[other]["restart"] == "no"
        assert set(service.get("secrets") or ()) <= set(COMPOSE["secrets"])
        for volume in service.get("volumes") or ():
            source = volume.split(":")[0]
            assert (ROOT / source).exists() if source.startswith(".") else source in COMPOSE["volumes"], volume


def test_commands_are_ours() -> None:
    commands = [
        service["command"]
        for service in COMPOSE["services"].values()
        if service.get("image") == "registry" and "entrypoint" not in service
    ]
    assert len(commands) == 3
    for command in commands:
        parser().parse_args(command)


def test_only_root_reads_secrets() -> None:
    """They are mounted with the mode of their files, which a umask of 077 closes to every other account."""
    for name, service in COMPOSE["services"].items():
        if name != "postgres":  # its image starts as root
            assert not service.get("secrets") or service.get("user") == "root", name


@pytest.mark.parametrize(
    "service, expected",
    [
        ("credentials", {"state/pgpass": "postgres:5432:registry:registry:one\n", "state/admin-token": "two\n",
                         "state/encryption-keys": "five\n"}),
        ("report-credentials", {"state/reports-password": "three\n", "grafana/reports-password": "three\n",
                                "grafana/grafana-password": "four\n"}),
    ],
)  # fmt: skip
def test_credentials_are_copied_for_the_services_that_need_them(
    tmp_path: Path, service: str, expected: dict[str, str]
) -> None:
    (script,) = COMPOSE["services"][service]["command"]
    script = script.replace("$$", "$")
    for path, stand_in in {"/run/secrets": "secrets", "/var/lib/registry": "state", "/reporting": "grafana"}.items():
        (tmp_path / stand_in).mkdir()
        script = script.replace(path, str(tmp_path / stand_in))
    secrets = {"postgres-password": "one", "admin-token": "two", "encryption-keys": "five"}
    secrets |= {"reports-password": "three", "grafana-password": "four"}
    for name in COMPOSE["services"][service]["secrets"]:
        (tmp_path / "secrets" / name).write_text(f"{secrets[name]}\n")
    # The image's account is not on this machine.
    script = f'chown() {{ echo "$*"; }}\n{script}'
    done = subprocess.run(["sh", "-euc", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    made = [file for folder in ("state", "grafana") for file in (tmp_path / folder).iterdir()]
    assert {str(file.relative_to(tmp_path)): file.read_text() for file in made} == expected
    assert {file.stat().st_mode & 0o777 for file in made} == {0o600}
