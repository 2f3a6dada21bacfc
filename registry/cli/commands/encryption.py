"""`registry encryption generate-key|status|rotate`; registry/cli/encryption_commands.py does it."""

from __future__ import annotations

import argparse
from typing import Any, Final

from registry.settings.loading import ENCRYPTED_DATABASE, add_flags

KEYS: Final = (*ENCRYPTED_DATABASE, "encrypt_resources")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    generate = actions.add_parser("generate-key", help="print a new line for the key file")
    generate.add_argument("name", help="name of the key, such as 2026-11")
    status = actions.add_parser("status", help="which master keys are in use, and whether a rotation is unfinished")
    add_flags(status, KEYS)
    rotate = actions.add_parser(
        "rotate", help="seal everything again with new data keys and the first master key; interrupted, run it again"
    )
    rotate.add_argument("--rate", type=_rate, help="rows a second (default: 1000)")
    add_flags(rotate, KEYS)


def _rate(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 1_000_000):
        raise argparse.ArgumentTypeError("must be a whole number from 1 to 1000000")
    return int(text)


def run(typed: dict[str, Any]) -> int:
    from registry.cli.encryption_commands import run

    return run(typed)
