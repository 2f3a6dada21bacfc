"""`registry version`."""

from __future__ import annotations

import argparse
from typing import Any

from registry import __version__


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command has no arguments."""


def run(_typed: dict[str, Any]) -> int:
    print(f"registry {__version__}")
    return 0
