"""`registry psql`: runs psql on the embedded server, which must be running; finds its socket by the data folder."""

from __future__ import annotations

import argparse
import os
import shutil
from typing import Any

from registry.cli.servers import database_url
from registry.settings.loading import DATABASE, add_flags, load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tenant", help="read this tenant's reporting views (docs/sql.md) instead of all tables")
    add_flags(parser, DATABASE)
    parser.add_argument("arguments", nargs="*", help="handed to psql, after --")


def run(typed: dict[str, Any]) -> int:
    arguments, tenant = typed.pop("arguments"), typed.pop("tenant")
    settings = load(typed, os.environ)
    url, programs = database_url(settings)
    program = shutil.which("psql") or (str(programs / "psql") if programs and (programs / "psql").exists() else None)
    if program is None:
        print(url)
        return 0
    if tenant is not None:
        from registry.cli.sql_commands import options_for

        os.environ["PGOPTIONS"] = options_for(url, tenant)
    # With its full path, by which a psql that is not on the PATH finds its own files.
    os.execv(program, [program, url, *arguments])
