"""`registry recover`: prevents reuse of revisions after a restore that the server cannot detect by itself."""

from __future__ import annotations

import argparse
import os
from typing import Any

from registry.settings.loading import OWN_DATABASE, add_flags, load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Raises the revision of every tenant beyond all that clients can have seen, after the database was put back to"
        " an earlier state. Run it before the servers start again. Watches and lists from lost revisions get 410."
    )
    add_flags(parser, OWN_DATABASE)


def run(typed: dict[str, Any]) -> int:
    import asyncio

    from registry.cli.server_process import database_of_command, migration_errors

    with database_of_command(load(typed, os.environ)) as url, migration_errors():
        print(asyncio.run(_recover(url)))
    return 0


async def _recover(url: str) -> str:
    from registry.store import session, timelines

    async with await session.connect(url, "recover") as connection:
        domains = await timelines.recover(connection)
    return f"recovered: the revisions of {domains} {'domain was' if domains == 1 else 'domains were'} raised"
