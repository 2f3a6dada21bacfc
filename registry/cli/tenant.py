"""`registry tenant create|list|delete|kubeconfig` on the command line; registry/cli/tenant_commands.py does it."""

from __future__ import annotations

from typing import Any, Final

from registry.settings import CLIENT, add_flags

LIMITS: Final = ("objects", "bytes", "definitions", "namespaces")


def add_commands(commands: Any) -> None:
    """Adds `tenant` to the command line."""
    tenant = commands.add_parser(
        "tenant",
        help="make, list and delete tenants, and print their kubeconfigs",
        description="Tenants, as objects of a running server: what `kubectl` does with the kind Tenant in the tenant "
        "system.",
    )
    actions = tenant.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser("create", help="make a tenant")
    create.add_argument("name")
    create.add_argument("--display-name", help="the name for people")
    create.add_argument("--parent", help="the tenant above it")
    create.add_argument("--domain", help="the revision domain that it shares with others")
    create.add_argument("--sql-schema", help="the PostgreSQL schema of its reporting views")
    create.add_argument("--protected", action="store_true", help="refuse its deletion until that is lifted")
    for limit in LIMITS:
        create.add_argument(f"--max-{limit}", type=int, metavar="NUMBER", help=f"limit of its {limit}")
    actions.add_parser("list", help="list tenants, with their phases, parents, and what they use")
    delete = actions.add_parser("delete", help="delete a tenant with all that it holds")
    delete.add_argument("name")
    delete.add_argument("--wait", action="store_true", help="wait until nothing is left, and tell how far it is")
    kubeconfig = actions.add_parser("kubeconfig", help="print a kubeconfig whose context is the tenant")
    kubeconfig.add_argument("name")
    kubeconfig.add_argument("--token", help="bearer token to put in; the administrator's by default")
    for action in actions.choices.values():
        action.add_argument(
            "--server",
            help="URL at which the server is reached; by default that of its last start, or from --host and --port",
        )
        add_flags(action, CLIENT)
