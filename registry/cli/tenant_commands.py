"""The `registry tenant` commands: requests to the running server, as the platform's administrator."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any, Final
from urllib.parse import quote

from registry.cli import tenant_access
from registry.cli.api_client import Object
from registry.cli.commands.kubeconfig import print_kubeconfig
from registry.cli.commands.tenants import print_tenants
from registry.cli.commands.usage import TENANTS
from registry.cli.errors import CommandError, RequestRefused
from registry.cli.platform import Platform, open_platform
from registry.settings.loading import CLIENT

_WAIT_SECONDS: Final = 0.5


def run(typed: dict[str, Any]) -> int:
    action = typed.pop("action")
    settings: dict[str, Any] = {name: typed.pop(name) for name in ("server", *CLIENT) if name in typed}
    _ACTIONS[action](open_platform(settings), argparse.Namespace(**typed))
    return 0


def _create(platform: Platform, arguments: argparse.Namespace) -> None:
    seconds = tenant_access.lifetime_seconds(arguments.expires)
    spec = {
        "displayName": arguments.display_name,
        "parent": arguments.parent,
        "domain": arguments.domain,
        "sqlSchema": arguments.sql_schema,
        "protected": arguments.protected or None,
        "quotas": {
            flag.removeprefix("max_"): value
            for flag, value in vars(arguments).items()
            if flag.startswith("max_") and value is not None
        }
        or None,
    }
    body = {
        "apiVersion": "tenancy.registry/v1",
        "kind": "Tenant",
        "metadata": {"name": arguments.name},
        "spec": {name: value for name, value in spec.items() if value is not None},
    }
    platform.client().request("POST", TENANTS, body)
    print(f"tenant {arguments.name} created")
    if arguments.no_administrator:
        return
    text, until = tenant_access.administrator_kubeconfig(platform, arguments.name, seconds)
    path = tenant_access.write_kubeconfig(platform, arguments.name, text, arguments.kubeconfig)
    print(f"kubeconfig of its administrator (until {until[:10]}):\n\n  export KUBECONFIG={path}")


def _list(platform: Platform, _arguments: argparse.Namespace) -> None:
    print_tenants(platform.client())


def _delete(platform: Platform, arguments: argparse.Namespace) -> None:
    client, path = platform.client(), f"{TENANTS}/{quote(arguments.name, safe='')}"
    seconds = 0 if arguments.purge else tenant_access.lifetime_seconds(arguments.keep, "--keep")
    tenant = client.request("GET", path)
    if not arguments.yes:
        _confirm(arguments.name, _holdings(client.request("GET", f"{path}/usage")), kept=arguments.keep * bool(seconds))
    client.request("DELETE", path, {"gracePeriodSeconds": seconds, "preconditions": {"uid": tenant["metadata"]["uid"]}})
    if seconds:
        print(f"tenant {arguments.name} deleted; until it is removed, in {arguments.keep}: "
              f"registry tenant undelete {arguments.name}")  # fmt: skip
        return
    if arguments.wait:
        _wait_until_gone(platform, path)
    print(f"tenant {arguments.name} deleted")


def _holdings(usage: Object) -> str:
    """'12 objects, 3 definitions, 5 namespaces, 40960 bytes'"""
    used = usage.get("used") or {}
    return ", ".join(f"{used.get(figure, 0)} {figure}" for figure in ("objects", "definitions", "namespaces", "bytes"))


def _confirm(name: str, holdings: str, *, kept: str) -> None:
    """Asks on stderr, and reads the answer from stdin. Raises CommandError unless it is the name."""
    print(f"This deletes the tenant {name} and all that it holds: {holdings}, with its history, tokens and reports.",
          file=sys.stderr)  # fmt: skip
    print(
        f"For {kept} it can be brought back: registry tenant undelete {name}" if kept else "This cannot be undone.",
        file=sys.stderr,
    )
    print(f"Type its name to delete it (--yes does not ask): {name}? ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() != name:
        raise CommandError("not confirmed: nothing was deleted")


def _wait_until_gone(platform: Platform, path: str) -> None:
    from registry.cli.progress import ProgressBar

    with ProgressBar("objects removed") as progress:
        while True:
            try:
                deletion = (platform.client().request("GET", path).get("status") or {}).get("deletion") or {}
            except RequestRefused as refused:
                if refused.code == 404:
                    return
                raise
            if deletion:
                progress.show(deletion["totalObjects"] - deletion["remainingObjects"], deletion["totalObjects"])
            time.sleep(_WAIT_SECONDS)


def _undelete(platform: Platform, arguments: argparse.Namespace) -> None:
    platform.client().request("POST", f"{TENANTS}/{quote(arguments.name, safe='')}/undelete", {})
    print(f"tenant {arguments.name} is back as it was")


def _kubeconfig(platform: Platform, arguments: argparse.Namespace) -> None:
    print_kubeconfig(
        platform,
        arguments.name,
        platform_admin=arguments.platform_admin,
        token=arguments.token,
        expires=arguments.expires,
    )


_ACTIONS: Final = {
    "create": _create,
    "list": _list,
    "delete": _delete,
    "undelete": _undelete,
    "kubeconfig": _kubeconfig,
}
