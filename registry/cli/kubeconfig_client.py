"""A client configured like kubectl: from a kubeconfig, its context, and the flags that override them.

Follows the clientcmd of client-go: --kubeconfig, else the files of KUBECONFIG merged, else ~/.kube/config.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import os
import re
import ssl
import tempfile
from collections.abc import Sequence
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
    paths = _paths(wanted)
    files = [_read(path) for path in paths]
    try:
        context = _entry_named(files, "contexts", name or _current_context(files)).value["context"]
        in_cluster = _entry_named(files, "clusters", context["cluster"])
        of_user = (
            _entry_named(files, "users", context["user"]) if context.get("user") else _ConfigEntry({"user": {}}, Path())
        )
        cluster, user = in_cluster.value["cluster"], of_user.value["user"] or {}
        server = str(cluster["server"]).rstrip("/")
    except (KeyError, TypeError, AttributeError) as problem:
        named = os.pathsep.join(map(str, paths))
        raise CommandError(f"{named}: not a kubeconfig with a context that can be used") from problem
    except LookupError as problem:
        raise CommandError(f"{os.pathsep.join(map(str, paths))}: {problem}") from problem
    tls = _tls(cluster, in_cluster.folder, user, of_user.folder)
    headers = _headers(user, of_user.folder)
    in_url = _TENANT_IN_URL.search(server)
    bare = server[: in_url.start()] if in_url else server
    url = f"{bare}/clusters/{tenant}" if tenant else server
    return Session(
        ApiClient(url, tls, headers),
        ApiClient(bare, tls, headers),
        tenant or (in_url[1] if in_url else DEFAULT_TENANT),
        namespace or context.get("namespace") or "default",
    )


class _File(NamedTuple):
    content: dict[str, Any]
    folder: Path


class _ConfigEntry(NamedTuple):
    """An item of `clusters`, `contexts` or `users`. Paths in it are relative to `folder`, which is that of its file."""

    value: dict[str, Any]
    folder: Path


def _paths(wanted: Path | None) -> list[Path]:
    if wanted is not None:
        return [wanted]
    named = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if existing := [path for path in named if path.exists()]:
        return existing
    if named:
        raise CommandError(f"{named[0]} does not exist (KUBECONFIG)")
    path = Path.home() / ".kube" / "config"
    if not path.exists():
        raise CommandError("there is no kubeconfig: registry kubeconfig > FILE writes one, KUBECONFIG names it")
    return [path]


def _read(path: Path) -> _File:
    try:
        return _File(yaml.safe_load(path.read_text()) or {}, path.parent)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        raise CommandError(describe(problem, of=path).partition("\n")[0]) from problem


def _current_context(files: Sequence[_File]) -> str:
    context = next((file.content["current-context"] for file in files if file.content.get("current-context")), "")
    if not context:
        raise LookupError("it has no current context: choose one with --context")
    return str(context)


def _entry_named(files: Sequence[_File], kind: str, name: str) -> _ConfigEntry:
    """Returns the first entry with this name, as client-go merges files. Raises LookupError."""
    known = [_ConfigEntry(one, file.folder) for file in files for one in file.content.get(kind) or ()]
    for entry in known:
        if entry.value.get("name") == name:
            return entry
    names = ", ".join(sorted({str(entry.value.get("name")) for entry in known})) or "none"
    raise LookupError(f"it has no {kind.removesuffix('s')} {name!r}; it has: {names}")


def _tls(
    cluster: dict[str, Any], cluster_folder: Path, user: dict[str, Any], user_folder: Path
) -> ssl.SSLContext | None:
    if not str(cluster["server"]).startswith("https://"):
        return None
    try:
        context = ssl.create_default_context()
        if cluster.get("insecure-skip-tls-verify"):
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        elif authority := _content(cluster, "certificate-authority", cluster_folder):
            context = ssl.create_default_context(cadata=authority.decode("ascii"))
        certificate = _content(user, "client-certificate", user_folder)
        key = _content(user, "client-key", user_folder)
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
            raise CommandError(f"the kubeconfig's {name}-data is not base64") from problem
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
        raise CommandError("the kubeconfig's token is not valid: a token is one word of ASCII")
    return {"Authorization": f"Bearer {token}"} if token else {}
