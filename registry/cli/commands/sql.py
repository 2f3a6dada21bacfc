"""`registry sql grant|revoke|list`: logins that read reports (docs/sql.md); registry/cli/sql_commands.py does it."""

from __future__ import annotations

import argparse
from typing import Any

from registry.settings.loading import OWN_DATABASE, add_flags
from registry.settings.values import whole_number
from registry.store.reporting.login_limits import CONNECTIONS, TIMEOUT_SECONDS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    grant = actions.add_parser("grant", help="make a login, or change one; prints its URL with a new password")
    grant.add_argument("name", help="name of the login: lower case letters, digits, underscores")
    which = grant.add_mutually_exclusive_group(required=True)
    which.add_argument("--tenant", help="the one tenant whose objects it sees")
    which.add_argument("--tenants", help="tenants whose objects it sees, separated by commas")
    which.add_argument("--all-tenants", action="store_true", help="it sees the objects of every tenant")
    which.add_argument(
        "--provider",
        metavar="TENANT",
        help="it sees the objects of what other tenants have bound of this tenant's exports",
    )
    grant.add_argument(
        "--connections",
        type=whole_number(1, 1000),
        default=CONNECTIONS,
        help=f"connections at a time (default: {CONNECTIONS})",
    )
    grant.add_argument(
        "--timeout",
        type=whole_number(1, 86_400),
        default=TIMEOUT_SECONDS,
        help=f"seconds that a statement may take (default: {TIMEOUT_SECONDS})",
    )
    grant.add_argument(
        "--move", action="store_true", help="let an existing login read these tenants instead of those it reads now"
    )
    grant.add_argument("--password-file", help="file with the password to give it instead of a new one")
    add_flags(grant, OWN_DATABASE)

    revoke = actions.add_parser("revoke", help="end a login's sessions and remove it")
    revoke.add_argument("name")
    add_flags(revoke, OWN_DATABASE)

    add_flags(actions.add_parser("list", help="list the logins for reports"), OWN_DATABASE)


def run(typed: dict[str, Any]) -> int:
    from registry.cli.sql_commands import run

    return run(typed)
