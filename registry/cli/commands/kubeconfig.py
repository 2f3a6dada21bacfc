"""`registry kubeconfig`: for a tenant's administrator or, with a flag, the platform's."""

from __future__ import annotations

import argparse
from typing import Any, Final

from registry.cli import kubeconfig as made
from registry.cli import tenant_access
from registry.cli.errors import CommandError
from registry.cli.platform import Platform, add_server_flags, open_platform

DEFAULT_TENANT: Final = "default"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Prints a kubeconfig of the administrator of one tenant, who can do everything in it and nothing outside it."
    )
    parser.add_argument("--tenant", help=f"the tenant (default: {DEFAULT_TENANT})")
    add_credential_flags(parser)
    add_server_flags(parser)


def add_credential_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that select whose credentials a kubeconfig holds."""
    who = parser.add_mutually_exclusive_group()
    who.add_argument(
        "--platform-admin", action="store_true", help="put in the platform administrator's token: it owns every tenant"
    )
    who.add_argument("--token", help="put in this bearer token")
    add_lifetime_flag(parser)


def add_lifetime_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--expires",
        metavar="TIME",
        default=tenant_access.DEFAULT_LIFETIME,
        help="how long the token of the tenant's administrator is good, as 12h or 90d (default: %(default)s)",
    )


def run(typed: dict[str, Any]) -> int:
    wanted = {name: typed.pop(name) for name in ("tenant", "platform_admin", "token", "expires")}
    print_kubeconfig(open_platform(typed), **wanted)
    return 0


def print_kubeconfig(
    platform: Platform, tenant: str | None, *, platform_admin: bool, token: str | None, expires: str
) -> None:
    several = (tenant or "").startswith("*")  # `*` and `*.shop` are many tenants
    if platform_admin or token:
        if tenant and not several:
            tenant_access.check_exists(platform, tenant, token)
        url, name = made.with_tenant(platform.url, tenant), tenant or "registry"
        text = made.kubeconfig(url, token or platform.token(), platform.authority, name=name)
    elif several:
        raise CommandError("nobody is the administrator of several tenants: name --token, or --platform-admin")
    else:
        tenant = tenant or DEFAULT_TENANT
        seconds = tenant_access.lifetime_seconds(expires)
        tenant_access.check_exists(platform, tenant)
        text, _ = tenant_access.administrator_kubeconfig(platform, tenant, seconds)
    tenant_access.print_credentials(text)
