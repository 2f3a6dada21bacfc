"""`registry protect KIND NAME`: refuses the deletion of a definition, a namespace or a tenant."""

from __future__ import annotations

import argparse
from typing import Any, Final
from urllib.parse import quote

from registry.cli.errors import CommandError
from registry.cli.kubeconfig_client import add_client_flags, open_session
from registry.cli.resource_names import add_target, find_resource, split_target

_ANNOTATION: Final = "tenancy.registry/deletion-protection"
_PROTECTED: Final = ("customresourcedefinitions", "namespaces")
_TENANT: Final = ("tenant", "tenants")
_MERGE: Final = "application/merge-patch+json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Protects a definition, a namespace or a tenant from deletion (docs/history.md)."
    add_target(parser)
    parser.add_argument(
        "--policy",
        choices=["Off", "WhileUsed", "Always"],
        default="WhileUsed",
        help="when its deletion is refused (default: %(default)s); a tenant is protected always or not",
    )
    add_client_flags(parser)


def run(typed: dict[str, Any]) -> int:
    session = open_session(typed)
    kind, name = split_target(typed["target"])
    policy = typed["policy"]
    if kind.lower() in _TENANT:
        body: dict[str, Any] = {"spec": {"protected": policy != "Off"}}
        path = f"/clusters/system/apis/tenancy.registry/v1/tenants/{quote(name, safe='')}"
        session.platform.request("PATCH", path, body, content_type=_MERGE)
        print(f"tenants {name}: deletion protection {'Off' if policy == 'Off' else 'Always'}")
        return 0
    resource = find_resource(session.client, kind)
    if resource.plural not in _PROTECTED:
        raise CommandError(f"{resource.plural} cannot be protected: only definitions, namespaces and tenants can")
    body = {"metadata": {"annotations": {_ANNOTATION: policy}}}
    session.client.request("PATCH", resource.path("", name), body, content_type=_MERGE)
    print(f"{resource.plural} {name}: deletion protection {policy}")
    return 0
