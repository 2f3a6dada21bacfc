"""`registry tenant create|list|delete|undelete|kubeconfig`; registry/cli/tenant_commands.py does it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from registry.cli.commands.kubeconfig import add_credential_flags, add_lifetime_flag
from registry.cli.platform import add_server_flags

LIMITS: Final = ("objects", "bytes", "definitions", "namespaces")
DEFAULT_KEPT: Final = "7d"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Tenants, as objects of a running server: what `kubectl` does with the kind Tenant in the tenant system."
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_create(actions)
    actions.add_parser("list", help="list tenants, with their phases, parents, and what they use")
    delete = actions.add_parser("delete", help="delete a tenant with all that it holds, after asking")
    delete.add_argument("name")
    delete.add_argument("--yes", action="store_true", help="do not ask")
    lifetime = delete.add_mutually_exclusive_group()
    lifetime.add_argument(
        "--keep",
        metavar="TIME",
        default=DEFAULT_KEPT,
        help="how long `registry tenant undelete` can bring it back, as 12h or 7d (default: %(default)s)",
    )
    lifetime.add_argument("--purge", action="store_true", help="remove all of it at once, for good")
    delete.add_argument("--wait", action="store_true", help="wait until nothing is left, and show the progress; "
                        "with --purge")  # fmt: skip
    undelete = actions.add_parser("undelete", help="bring back a deleted tenant, as it was, while it is kept")
    undelete.add_argument("name")
    kubeconfig = actions.add_parser(
        "kubeconfig", help="the same as `registry kubeconfig --tenant NAME`: print a kubeconfig of its administrator"
    )
    kubeconfig.add_argument("name")
    add_credential_flags(kubeconfig)
    for action in actions.choices.values():
        add_server_flags(action)


def _add_create(actions: Any) -> None:
    create = actions.add_parser(
        "create",
        help="make a tenant, its administrator, and a kubeconfig of the administrator",
        description="Makes a tenant, an administrator of that tenant, and a kubeconfig that only you can read. With it "
        "one can do everything in the tenant and nothing outside it.",
    )
    create.add_argument("name")
    create.add_argument("--display-name", help="the name for people")
    create.add_argument("--parent", help="the tenant above it")
    create.add_argument("--domain", help="the revision domain that it shares with others")
    create.add_argument("--sql-schema", help="the PostgreSQL schema of its reporting views")
    create.add_argument("--protected", action="store_true", help="refuse its deletion until that is lifted")
    for limit in LIMITS:
        create.add_argument(f"--max-{limit}", type=int, metavar="NUMBER", help=f"limit of its {limit}")
    file = create.add_mutually_exclusive_group()
    file.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="where to write the kubeconfig (default: kubeconfigs/NAME in the data folder)",
    )
    file.add_argument("--no-administrator", action="store_true", help="make the tenant only")
    add_lifetime_flag(create)


def run(typed: dict[str, Any]) -> int:
    from registry.cli.tenant_commands import run

    return run(typed)
