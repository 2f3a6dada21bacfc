"""What a client needs to connect: the administrator's token and a kubeconfig."""

from __future__ import annotations

import base64
import secrets
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml

from registry.cli.errors import describe
from registry.files import write_private
from registry.settings.declarations import WILDCARD_HOSTS, Settings, SettingsError

# 256 bits cannot be guessed, so a fast hash is enough for comparison.
TOKEN_BYTES = 32


def ensure_admin_token(settings: Settings) -> str:
    """Returns the administrator's token, creating it if missing. A file named by the user must exist and not be
    empty."""
    path = settings.admin_token_path
    try:
        token = path.read_text().strip()
    except FileNotFoundError:
        if settings.admin_token_file is not None:
            raise SettingsError(f"--admin-token-file: {path} does not exist") from None
        token = secrets.token_urlsafe(TOKEN_BYTES)
        write_private(path, f"{token}\n".encode())
    except (OSError, UnicodeDecodeError) as problem:
        raise SettingsError(f"cannot read the administrator's token: {describe(problem, of=path)}") from problem
    if not token:
        raise SettingsError(f"{path} is empty: it should hold the administrator's token")
    if not is_token(token):
        raise SettingsError(f"{path} holds no token: a token is one word of ASCII")
    return token


def is_token(text: str) -> bool:
    """Returns whether a text can be sent in a header; one that cannot must not appear in an error about headers
    either."""
    return text.isascii() and text.isprintable() and " " not in text and bool(text)


def server_url(settings: Settings, port: int | None) -> str:
    """Returns where clients on this machine reach the server: 'https://127.0.0.1:6443'."""
    host = settings.host
    if host in WILDCARD_HOSTS:
        host = "::1" if host == "::" else "127.0.0.1"
    scheme = "http" if settings.plain_http else "https"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{settings.port if port is None else port}"


def with_tenant(server: str, tenant: str | None) -> str:
    """'https://127.0.0.1:6443/clusters/acme'"""
    return f"{server.rstrip('/')}/clusters/{tenant}" if tenant else server


class Reached(NamedTuple):
    """How clients on this machine reach the server; `authority` None: its CA is known to the machine."""

    server: str
    authority: Path | None


def resolve_server(settings: Settings, server: str | None, *, named: bool) -> Reached:
    """Returns how to reach the server: at `server`, else by the settings if they are `named` (typed, or in the
    environment), else as it was last started in the data folder, by its kubeconfig."""
    authority: Path | None = settings.data_dir / "ca.crt"
    cluster = _last_start(settings)
    if settings.tls_cert_file or settings.plain_http or not (settings.data_dir / "ca.crt").exists():
        authority = None
    if cluster and "certificate-authority-data" not in cluster:
        authority = None
    if server is None and cluster and not named:
        server = str(cluster["server"])
    if server is None:
        port = urlsplit(str(cluster["server"])).port if cluster and settings.port == 0 else None
        server = server_url(settings, port)
    return Reached(server.rstrip("/"), authority)


def _last_start(settings: Settings) -> dict[str, Any] | None:
    """Returns the cluster of the last start's kubeconfig:
    {'server': 'https://127.0.0.1:6443', 'certificate-authority-data': '...'}"""
    try:
        cluster: dict[str, Any] = yaml.safe_load((settings.data_dir / "kubeconfig").read_text())["clusters"][0][
            "cluster"
        ]
        return cluster if urlsplit(cluster["server"]).hostname else None
    except (OSError, ValueError, KeyError, TypeError, IndexError, yaml.YAMLError):
        return None


def kubeconfig(server: str, token: str, authority: Path | None, name: str = "registry") -> str:
    """Returns the text of a kubeconfig. `authority` None: the certificate's CA is known to the machine.

    `name` is that of the context: with one per tenant, several files can be merged.
    """
    cluster: dict[str, Any] = {"server": server}
    if authority is not None:
        cluster["certificate-authority-data"] = base64.b64encode(authority.read_bytes()).decode()
    user = "admin" if name == "registry" else f"admin-{name}"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        "current-context": name,
    }
    return yaml.safe_dump(content, sort_keys=False)


def write_kubeconfig(settings: Settings, token: str, authority: Path | None, port: int) -> Path:
    path = settings.data_dir / "kubeconfig"
    write_private(path, kubeconfig(server_url(settings, port), token, authority).encode())
    return path
