"""`registry serve`; registry/cli/server_process.py does it."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from typing import Any

from registry.flowcontrol.allocator import COLLECTOR_THRESHOLDS
from registry.settings import add_flags, find_misspelled, load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Run the server."
    add_flags(parser)


def run(typed: dict[str, Any]) -> int:
    # Modules and their objects are permanent: searching them for cycles takes a tenth of the startup time.
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    for name, like in find_misspelled(os.environ):
        print(f"registry: {name} is not a setting; did you mean {like}?", file=sys.stderr)
    from registry.cli.server_process import serve

    return serve(load(typed, os.environ))
