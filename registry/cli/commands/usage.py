"""`registry usage [TENANT]`: shows a tenant's usage and limits."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

from registry.cli.errors import CommandError, RequestRefused
from registry.cli.kubeconfig_client import add_client_flags, open_session
from registry.cli.table import add_output_flag, print_output

TENANTS: Final = "/clusters/system/apis/tenancy.registry/v1/tenants"
FIGURES: Final = ("objects", "bytes", "definitions", "namespaces")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Prints what a tenant uses, and its limits (docs/tenants.md). It needs rights in `system`."
    parser.add_argument("name", nargs="?", metavar="TENANT", help="default: the tenant of the kubeconfig")
    add_output_flag(parser)
    add_client_flags(parser)


def run(typed: dict[str, Any]) -> int:
    session = open_session(typed)
    name = typed["name"] or session.tenant
    with explaining_rights():
        usage = session.platform.request("GET", f"{TENANTS}/{quote(name, safe='')}/usage")
    used, limits = usage["used"], usage.get("limits") or {}
    rows = [(figure, str(used.get(figure, 0)), *_share(used.get(figure, 0), limits.get(figure))) for figure in FIGURES]
    print_output(typed, usage, ("WHAT", "USED", "LIMIT", "SHARE"), rows)
    return 0


@contextlib.contextmanager
def explaining_rights() -> Iterator[None]:
    """Adds to a refusal for lack of rights who has them."""
    try:
        yield
    except RequestRefused as refused:
        if refused.code != 403:
            raise
        needed = "it needs rights in the tenant `system`, as `registry kubeconfig --platform-admin` gives"
        raise CommandError(f"{refused}; {needed}") from refused


def _share(used: int, limit: int | None) -> tuple[str, str]:
    if limit is None:
        return "-", "-"
    return str(limit), f"{100 * used // limit}%" if limit else "-"
