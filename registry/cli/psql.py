"""`registry psql`: the embedded server must be running; its socket is found in the data folder."""

from __future__ import annotations

import argparse
import os
import shutil
from typing import Any

from registry.cli.servers import database_url
from registry.settings import DATABASE, add_flags, load


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
    # With its path: a psql that is not on the PATH finds itself by it.
    os.execv(program, [program, url, *arguments])
