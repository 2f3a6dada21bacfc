"""What `registry tenant` does: requests to the running server, as the administrator."""

from __future__ import annotations

import argparse
import http.client
import json
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from registry.cli import kubeconfig as made
from registry.cli.tenant import LIMITS
from registry.settings import ADDRESS, Settings, SettingsError, any_set, load

_PATH: Final = "/clusters/system/apis/tenancy.registry/v1/tenants"
_TIMEOUT_SECONDS: Final = 60
_PAGE: Final = 500
_ARGUMENTS: Final = (
    "name",
    "display_name",
    "parent",
    "domain",
    "sql_schema",
    "protected",
    "wait",
    "token",
    "server",
    *(f"max_{limit}" for limit in LIMITS),
)


class Refused(Exception):
    """What the server answered, or why it was not reached: a line for the user."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class _Server(NamedTuple):
    settings: Settings
    url: str
    authority: Path | None


def run(typed: dict[str, Any], environ: dict[str, str]) -> int:
    """The exit code."""
    action = typed.pop("action")
    arguments = argparse.Namespace(**{name: typed.pop(name) for name in _ARGUMENTS if name in typed})
    settings = load(typed, environ)
    reached = made.resolve_server(settings, arguments.server, named=any_set(typed, environ, *ADDRESS))
    try:
        _ACTIONS[action](_Server(settings, *reached), arguments)
    except Refused as problem:
        print(f"registry: {problem}", file=sys.stderr)
        return 1
    return 0


def _create(server: _Server, arguments: argparse.Namespace) -> None:
    spec = {
        "displayName": arguments.display_name,
        "parent": arguments.parent,
        "domain": arguments.domain,
        "sqlSchema": arguments.sql_schema,
        "protected": arguments.protected or None,
        "quotas": {limit: value for limit in LIMITS if (value := getattr(arguments, f"max_{limit}")) is not None}
        or None,
    }
    body = {
        "apiVersion": "tenancy.registry/v1",
        "kind": "Tenant",
        "metadata": {"name": arguments.name},
        "spec": {name: value for name, value in spec.items() if value is not None},
    }
    _ask(server, "POST", _PATH, body)
    print(f"tenant {arguments.name} created")


def _list(server: _Server, arguments: argparse.Namespace) -> None:
    rows = [("NAME", "PHASE", "PARENT", "OBJECTS", "DEFINITIONS", "BYTES", "CREATED")]
    usage = {one["name"]: one["used"] for one in _all(server, "usage=true&")}
    for tenant in _all(server):
        metadata = tenant["metadata"]
        used = usage.get(metadata["name"]) or {}
        rows.append(
            (
                metadata["name"],
                (tenant.get("status") or {}).get("phase") or "-",
                (tenant.get("spec") or {}).get("parent") or "-",
                *(str(used.get(figure, "-")) for figure in ("objects", "definitions", "bytes")),
                metadata["creationTimestamp"],
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _all(server: _Server, query: str = "") -> Iterator[dict[str, Any]]:
    following = ""
    while True:
        page = _ask(server, "GET", f"{_PATH}?{query}limit={_PAGE}&continue={quote(following, safe='')}")
        yield from page["items"]
        following = page["metadata"].get("continue") or ""
        if not following:
            return


def _delete(server: _Server, arguments: argparse.Namespace) -> None:
    path = f"{_PATH}/{quote(arguments.name, safe='')}"
    _ask(server, "DELETE", path)
    while arguments.wait:
        try:
            deletion = (_ask(server, "GET", path).get("status") or {}).get("deletion") or {}
        except Refused as refused:
            if refused.code == 404:
                break
            raise
        if deletion:
            print(f"{deletion['remainingObjects']} of {deletion['totalObjects']} objects are left", file=sys.stderr)
        time.sleep(0.5)
    print(f"tenant {arguments.name} deleted")


def _kubeconfig(server: _Server, arguments: argparse.Namespace) -> None:
    token = arguments.token or _token(server.settings)
    if not arguments.name.startswith("*"):  # `*` and `*.shop` are many tenants
        _check_exists(server, arguments.name, token)
    url = made.with_tenant(server.url, arguments.name)
    print(made.kubeconfig(url, token, server.authority, name=arguments.name), end="")


def _check_exists(server: _Server, name: str, token: str) -> None:
    """Raises Refused where there is no such tenant, as far as can be known: the administrator sees it, where their
    token is at hand; of others, only who belongs there."""
    knows = _token(server.settings) if server.settings.admin_token_path.exists() else token
    try:
        _ask(server, "GET", f"/clusters/{quote(name, safe='')}/version", token=knows)
    except Refused as refused:
        if refused.code == 404:
            raise Refused(f"there is no tenant {name!r}", 404) from refused
        if refused.code != 403:
            raise


_ACTIONS: Final = {"create": _create, "list": _list, "delete": _delete, "kubeconfig": _kubeconfig}


def _token(settings: Settings) -> str:
    if not settings.admin_token_path.exists():
        raise SettingsError(f"{settings.admin_token_path} does not exist yet: `registry serve` makes it")
    return made.ensure_admin_token(settings)


def _ask(server: _Server, method: str, path: str, body: Any = None, *, token: str | None = None) -> dict[str, Any]:
    """The decoded answer, to the administrator or to whose `token` it is. Raises Refused."""
    request = urllib.request.Request(
        server.url + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {token or _token(server.settings)}",
            "Accept": "application/json",
            "Content-Type": "application/json",
        },
    )
    context = ssl.create_default_context(cafile=str(server.authority) if server.authority else None)
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS, context=context) as answer:
            found: dict[str, Any] = json.loads(answer.read())
            return found
    except urllib.error.HTTPError as error:
        with error:
            raise Refused(_message(error.read()) or f"the server answered {error.code}", error.code) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise Refused(f"{server.url} cannot be asked: {reason} (is `registry serve` running?)") from error


def _message(body: bytes) -> str:
    try:
        status = json.loads(body)
    except ValueError:
        return ""
    return str(status.get("message") or "") if isinstance(status, dict) else ""
