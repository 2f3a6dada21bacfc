"""docker-compose.yml, of each profile: what Docker would only tell when it is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from registry.cli import parser

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())


@pytest.mark.parametrize("profile", [None, "reporting"])
def test_services_find_what_they_need(profile: str | None) -> None:
    services = {name: service for name, service in COMPOSE["services"].items()
                if not service.get("profiles") or profile in service["profiles"]}
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
    commands = [service["command"] for service in COMPOSE["services"].values()
                if service.get("image") == "registry" and "entrypoint" not in service]
    assert len(commands) == 3
    for command in commands:
        parser().parse_args(command)
