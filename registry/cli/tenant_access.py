"""A tenant's administrator, and kubeconfigs.

The administrator is a service account of the tenant, bound to cluster-admin there. It has no rights outside the tenant,
not even in tenants below it. Deleting the service account invalidates all its tokens.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path
from typing import Final
from urllib.parse import quote

from registry.cli import kubeconfig as made
from registry.cli.api_client import ApiClient
from registry.cli.errors import CommandError, RequestRefused
from registry.cli.platform import Platform
from registry.files import write_private

ADMINISTRATOR: Final = "tenant-administrator"
NAMESPACE: Final = "kube-system"
DEFAULT_LIFETIME: Final = "90d"
_UNITS: Final = {"m": 60, "h": 3600, "d": 86400}
# The API's bounds of expirationSeconds (pkg/apis/authentication/validation).
_MIN_SECONDS: Final = 600
_MAX_SECONDS: Final = 1 << 32


def administrator_kubeconfig(platform: Platform, tenant: str, seconds: int) -> tuple[str, str]:
    """Returns a kubeconfig of the tenant's administrator, creating the account if missing, and when it expires
    ('2027-02-20T10:00:00Z'). Raises Refused."""
    client = platform.client(tenant)
    _ensure_administrator(client)
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ADMINISTRATOR}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}}
    status = client.request("POST", path, body)["status"]
    text = made.kubeconfig(made.with_tenant(platform.url, tenant), status["token"], platform.authority, name=tenant)
    return text, status["expirationTimestamp"]


def _ensure_administrator(client: ApiClient) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ADMINISTRATOR}}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": ADMINISTRATOR},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": ADMINISTRATOR, "namespace": NAMESPACE}],
    }
    client.create_unless_exists(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", account)
    client.create_unless_exists("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)


def check_exists(platform: Platform, tenant: str, token: str | None = None) -> None:
    """Raises Refused if there is no such tenant, as far as the token may know, or the administrator if their token is
    at hand."""
    knows = None if platform.settings.admin_token_path.exists() else token
    try:
        platform.client(quote(tenant, safe=""), knows).request("GET", "/version")
    except RequestRefused as refused:
        if refused.code == 404:
            raise RequestRefused(f"there is no tenant {tenant!r}", 404) from refused
        if refused.code != 403:
            raise


def lifetime_seconds(text: str, flag: str = "--expires") -> int:
    """Parses '90d' to seconds. Raises CommandError."""
    form = re.fullmatch(r"([0-9]{1,9})([mhd])", text, re.ASCII)
    seconds = int(form[1]) * _UNITS[form[2]] if form is not None else 0
    if not _MIN_SECONDS <= seconds <= _MAX_SECONDS:
        raise CommandError(f"{flag}: must be a time such as 30m, 12h or 90d, of at least 10 minutes")
    return seconds


def print_credentials(text: str) -> None:
    """Prints credentials. If stdout is a file, restricts it to its owner."""
    status = os.fstat(sys.stdout.fileno())
    if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
        os.fchmod(sys.stdout.fileno(), 0o600)
    print(text, end="")


def write_kubeconfig(platform: Platform, tenant: str, text: str, wanted: Path | None) -> Path:
    """Writes the kubeconfig with mode 0600: where the user wants it, else outside any checkout, in the data folder."""
    path = wanted or platform.settings.data_dir / "kubeconfigs" / tenant
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, text.encode())
    except OSError as problem:
        raise CommandError(f"{path}: {problem.strerror or problem}") from problem
    return path.absolute()
