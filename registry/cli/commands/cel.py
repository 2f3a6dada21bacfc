"""`registry cel check|eval`: the validation rules of a definition, without a server; registry/cli/cel_commands.py does
it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser(
        "check",
        help="check the rules of a definition as the server does",
        description="Prints each rule of the definition (x-kubernetes-validations) with its type, its estimated cost "
        "against the limits, and what the server would refuse. The exit code is 1 if it refuses anything.",
    )
    evaluate = actions.add_parser(
        "eval",
        help="evaluate the rules of a definition on an object",
        description="Prints each evaluation of a rule on the object with its result, its message and its actual cost "
        "against the limits. The exit code is 1 if a rule does not hold.",
    )
    evaluate.add_argument("--object", type=Path, required=True, metavar="FILE", help="the object, in YAML or JSON")
    evaluate.add_argument("--old", type=Path, metavar="FILE", help="the object that it replaces, as oldSelf")
    for action in (check, evaluate):
        action.add_argument("file", type=Path, help="YAML with the CustomResourceDefinition")
        action.add_argument(
            "--no-second-opinion", action="store_true", help="do not ask cel-python what it says of the same rules"
        )


def run(typed: dict[str, Any]) -> int:
    from registry.cli.cel_commands import run

    return run(typed)
