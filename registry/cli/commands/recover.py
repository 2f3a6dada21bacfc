"""`registry recover`: prevents reuse of revisions after a restore that the server cannot detect by itself."""

from __future__ import annotations

import argparse
import os
from contextlib import nullcontext
from typing import Any

from registry.settings import OWN_DATABASE, add_flags, load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Raises the revision of every tenant beyond all that clients can have seen, after the database was put back to"
        " an earlier state. Run it before the servers start again. Watches and lists from lost revisions get 410."
    )
    add_flags(parser, OWN_DATABASE)


def run(typed: dict[str, Any]) -> int:
    import asyncio

    from registry.cli.errors import CommandError, describe
    from registry.cli.server_process import MigrationError, database, migration_errors
    from registry.postgres.folder import EmbeddedPostgresError, running_url

    settings = load(typed, os.environ)
    try:
        running = None if settings.database_url else running_url(settings.data_dir / "postgres")
        with nullcontext(running[0]) if running else database(settings) as url, migration_errors():
            print(asyncio.run(_recover(url)))
    except (MigrationError, EmbeddedPostgresError, OSError) as problem:
        raise CommandError(describe(problem)) from problem
    return 0


async def _recover(url: str) -> str:
    from registry.store import session, timelines

    connection = await session.connect(url, "recover")
    try:
        domains = await timelines.recover(connection)
    finally:
        await connection.close()
    return f"recovered: the revisions of {domains} {'domain was' if domains == 1 else 'domains were'} raised"
