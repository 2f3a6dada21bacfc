"""`registry tenants`: lists the tenants that a kubeconfig may list, with their usage."""

from __future__ import annotations

import argparse
import json
from typing import Any

from registry.cli.api_client import ApiClient, Object
from registry.cli.commands.usage import TENANTS, explaining_rights
from registry.cli.kubeconfig_client import add_client_flags, open_session
from registry.cli.table import add_output_flag, print_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Lists tenants, with their phases, parents, and what they use. It needs rights in `system`."
    add_output_flag(parser)
    add_client_flags(parser)


def run(typed: dict[str, Any]) -> int:
    session = open_session(typed)
    with explaining_rights():
        if typed["output"] == "json":
            print(json.dumps(list(session.platform.items(TENANTS)), indent=2))
        else:
            print_tenants(session.platform)
    return 0


def print_tenants(client: ApiClient) -> None:
    usage = {one["name"]: one["used"] for one in client.items(TENANTS, "usage=true&")}
    header = ("NAME", "PHASE", "PARENT", "OBJECTS", "DEFINITIONS", "BYTES", "CREATED")
    print_table(header, (_row(tenant, usage) for tenant in client.items(TENANTS)))


def _row(tenant: Object, usage: dict[str, Object]) -> tuple[str, ...]:
    metadata, status = tenant["metadata"], tenant.get("status") or {}
    used = usage.get(metadata["name"]) or {}
    phase = status.get("phase") or "-"
    # For a tenant being deleted: until when it can be restored.
    seconds = metadata.get("deletionGracePeriodSeconds")
    return (
        metadata["name"],
        f"Deleted until {metadata['deletionTimestamp'][:16]}Z" if seconds else phase,
        (tenant.get("spec") or {}).get("parent") or "-",
        *(str(used.get(figure, "-")) for figure in ("objects", "definitions", "bytes")),
        metadata["creationTimestamp"],
    )
