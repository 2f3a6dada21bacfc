"""`registry migrate plan|up|down|current`."""

from __future__ import annotations

import argparse
import os
from contextlib import nullcontext
from typing import Any

from registry.cli.errors import CommandError, describe
from registry.settings import OWN_DATABASE, SettingsError, add_flags, load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    directions = ["plan", "up", "down", "current"]
    parser.add_argument("direction", choices=directions, help="plan: what up would lock, and for how long")
    what = "up and plan: newest by default; down: must be named, `base` for nothing"
    parser.add_argument("revision", nargs="?", help=what)
    add_flags(parser, OWN_DATABASE)


def run(typed: dict[str, Any]) -> int:
    from registry.cli.server_process import MigrationError, database, migration_errors
    from registry.postgres.folder import EmbeddedPostgresError, running_url
    from registry.store import migrate as migrations

    direction, revision = typed.pop("direction"), typed.pop("revision")
    settings = load(typed, os.environ)
    if direction == "down" and revision is None:
        raise SettingsError("migrate down: name the revision to go down to (`base` removes everything)")
    try:
        # Uses the embedded server of a running `serve`, if any: its folder does not allow a second one.
        running = None if settings.database_url else running_url(settings.data_dir / "postgres")
        with nullcontext(running[0]) if running else database(settings) as url, migration_errors():
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
    except (MigrationError, EmbeddedPostgresError, OSError) as problem:
        raise CommandError(describe(problem)) from problem
    return 0
