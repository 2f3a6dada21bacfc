"""`registry serve`; registry/cli/server_process.py does it."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from typing import Any

from registry.settings.loading import add_flags, find_misspelled, load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Run the server."
    add_flags(parser)


def run(typed: dict[str, Any]) -> int:
    # Modules and their objects are permanent: searching them for cycles takes a fifth of the startup time. The
    # application turns the collector on again.
    gc.disable()
    for name, like in find_misspelled(os.environ):
        print(f"registry: {name} is not a setting; did you mean {like}?", file=sys.stderr)
    from registry.cli.server_process import serve

    return serve(load(typed, os.environ))
