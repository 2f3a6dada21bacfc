"""`registry migrate plan|up|down|current`."""

from __future__ import annotations

import argparse
import os
from typing import Any

from registry.cli.errors import CommandError
from registry.settings.declarations import SettingsError
from registry.settings.loading import OWN_DATABASE, add_flags, load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    directions = ["plan", "up", "down", "current"]
    parser.add_argument("direction", choices=directions, help="plan: what up would lock, and for how long")
    what = "up and plan: newest by default; down: must be named, `base` for nothing"
    parser.add_argument("revision", nargs="?", help=what)
    add_flags(parser, OWN_DATABASE)


def run(typed: dict[str, Any]) -> int:
    from registry.cli.server_process import database_of_command, migration_errors
    from registry.store import migrate as migrations

    direction, revision = typed.pop("direction"), typed.pop("revision")
    settings = load(typed, os.environ)
    if direction == "down" and revision is None:
        raise SettingsError("migrate down: name the revision to go down to (`base` removes everything)")
    with database_of_command(settings) as url, migration_errors():
        if direction == "plan":
            plan = migrations.plan_upgrade(url, revision or "head")
            print("\n".join(plan.lines()))
            if refusal := plan.refusal():
                raise CommandError(refusal)
            return 0
        if direction == "up":
            migrations.upgrade(url, revision or "head")
        elif direction == "down":
            migrations.downgrade(url, revision)
        print(migrations.current(url) or "empty")
    return 0
