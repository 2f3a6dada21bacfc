"""A client configured like kubectl: from a kubeconfig, its context, and the flags that override them.

Follows the clientcmd of client-go: --kubeconfig, else KUBECONFIG (the first existing file), else ~/.kube/config.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import os
import re
import ssl
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from registry.cli.api_client import ApiClient
from registry.cli.errors import CommandError, describe
from registry.cli.kubeconfig import is_token

_TENANT_IN_URL: Final = re.compile(r"/clusters/([^/]+)/?$")
DEFAULT_TENANT: Final = "default"


class Session(NamedTuple):
    """`client` sends requests to `tenant`; `namespace` is that of the flags, else of the context."""

    client: ApiClient
    platform: ApiClient
    tenant: str
    namespace: str


def add_client_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="the kubeconfig (default: as kubectl finds it)")
    parser.add_argument("--context", help="the context of the kubeconfig (default: its current one)")
    parser.add_argument("--tenant", help="the tenant (default: that of the server's URL)")
    parser.add_argument("-n", "--namespace", help="the namespace (default: that of the context, else default)")


def open_session(typed: dict[str, Any]) -> Session:
    """Opens a session for the flags in `typed`. Raises CommandError."""
    wanted, name = typed.pop("kubeconfig", None), typed.pop("context", None)
    tenant, namespace = typed.pop("tenant", None), typed.pop("namespace", None)
    path = _path(wanted)
    try:
        config = yaml.safe_load(path.read_text())
        context = _named(config, "contexts", name or config.get("current-context") or "")["context"]
        cluster = _named(config, "clusters", context["cluster"])["cluster"]
        user = _named(config, "users", context.get("user", ""))["user"] if context.get("user") else {}
        server = str(cluster["server"]).rstrip("/")
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        raise CommandError(describe(problem, of=path).partition("\n")[0]) from problem
    except (KeyError, TypeError, AttributeError) as problem:
        raise CommandError(f"{path}: not a kubeconfig with a context that can be used") from problem
    except LookupError as problem:
        raise CommandError(f"{path}: not a kubeconfig with a context that can be used: {problem}") from problem
    tls = _tls(cluster, user, path.parent)
    headers = _headers(user, path.parent)
    in_url = _TENANT_IN_URL.search(server)
    bare = server[: in_url.start()] if in_url else server
    url = f"{bare}/clusters/{tenant}" if tenant else server
    return Session(
        ApiClient(url, tls, headers),
        ApiClient(bare, tls, headers),
        tenant or (in_url[1] if in_url else DEFAULT_TENANT),
        namespace or context.get("namespace") or "default",
    )


def _path(wanted: Path | None) -> Path:
    if wanted is not None:
        return wanted
    named = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    found = next((path for path in named if path.exists()), None)
    if found is not None:
        return found
    if named:
        raise CommandError(f"{named[0]} does not exist (KUBECONFIG)")
    path = Path.home() / ".kube" / "config"
    if not path.exists():
        raise CommandError("there is no kubeconfig: registry kubeconfig > FILE writes one, KUBECONFIG names it")
    return path


def _named(config: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    for one in config.get(kind) or ():
        if one.get("name") == name:
            found: dict[str, Any] = one
            return found
    raise LookupError(f"{kind} has no {name!r}")


def _tls(cluster: dict[str, Any], user: dict[str, Any], folder: Path) -> ssl.SSLContext | None:
    if not str(cluster["server"]).startswith("https://"):
        return None
    try:
        context = ssl.create_default_context()
        if cluster.get("insecure-skip-tls-verify"):
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        elif authority := _content(cluster, "certificate-authority", folder):
            context = ssl.create_default_context(cadata=authority.decode("ascii"))
        certificate = _content(user, "client-certificate", folder)
        key = _content(user, "client-key", folder)
        if certificate and key:
            with tempfile.NamedTemporaryFile() as both:  # mode 0600; the ssl module reads only files
                both.write(certificate + b"\n" + key)
                both.flush()
                context.load_cert_chain(both.name)
    except (OSError, ValueError) as problem:
        raise CommandError(f"the kubeconfig's certificates cannot be used: {describe(problem)}") from problem
    return context


def _content(owner: dict[str, Any], name: str, folder: Path) -> bytes:
    """Returns the content of `<name>-data`, or of the file `<name>`, relative to the kubeconfig's folder."""
    if data := owner.get(f"{name}-data"):
        try:
            return base64.b64decode(data)
        except binascii.Error as problem:
            raise CommandError(f"the kubeconfig's {name}-data is no base64") from problem
    return (folder / owner[name]).read_bytes() if owner.get(name) else b""


def _headers(user: dict[str, Any], folder: Path) -> dict[str, str]:
    token = user.get("token")
    if user.get("tokenFile"):
        try:
            token = (folder / user["tokenFile"]).read_text().strip()
        except (OSError, UnicodeDecodeError) as problem:
            raise CommandError(describe(problem, of=user["tokenFile"])) from problem
    if "exec" in user or "auth-provider" in user:
        raise CommandError("credentials that a program provides are not supported here: use a token")
    if token and not is_token(str(token)):
        raise CommandError("the kubeconfig's token is none: a token is one word of ASCII")
    return {"Authorization": f"Bearer {token}"} if token else {}
