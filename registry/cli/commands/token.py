"""`registry token create|list|revoke|rotate-keys` on the command line; registry/cli/token_commands.py does it."""

from __future__ import annotations

import argparse
import os
from typing import Any, Final

from registry.settings.loading import DATABASE, ENCRYPTED_DATABASE, add_flags

DEFAULT_LIFETIME: Final = "90d"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Bearer tokens of a tenant. They are stored hashed: a token is shown once, when it is made."
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser("create", help="make a token and print it")
    create.add_argument("--user", required=True, help="name of the user that it stands for")
    create.add_argument(
        "--group",
        action="append",
        default=[],
        dest="groups",
        metavar="GROUP",
        help="a group of that user, such as system:masters (administrator of the tenant); repeatable",
    )
    create.add_argument("--description", default="", help="what it is for")
    create.add_argument(
        "--expires",
        default=DEFAULT_LIFETIME,
        metavar="TIME",
        help="how long it is good, as 30m, 12h, 90d, or never (default: %(default)s)",
    )
    actions.add_parser("list", help="list the tokens of a tenant, without their secrets")
    revoke = actions.add_parser("revoke", help="end a token; running servers refuse it within two seconds")
    revoke.add_argument("id", help="its id, as `list` shows it")
    actions.add_parser(
        "rotate-keys", help="sign tokens of service accounts with a new key from now on; those that are out stay good"
    )
    for action in actions.choices.values():
        rotates = action.prog.endswith("rotate-keys")
        if not rotates:
            action.add_argument("--tenant", default="default", help="the token's home (default: %(default)s)")
        add_flags(action, ENCRYPTED_DATABASE if rotates else DATABASE)


def run(typed: dict[str, Any]) -> int:
    from registry.cli.token_commands import run

    return run(typed, dict(os.environ))
