"""The server of a data folder, accessed as the platform's administrator."""

from __future__ import annotations

import argparse
import os
import ssl
from pathlib import Path
from typing import Any, NamedTuple

from registry.cli import kubeconfig as made
from registry.cli.api_client import ApiClient
from registry.cli.errors import CommandError
from registry.cli.servers import other_servers, print_data_dir
from registry.settings.declarations import Settings
from registry.settings.loading import ADDRESS, CLIENT, add_flags, any_set, load


class Platform(NamedTuple):
    """`authority` None: its CA is known to the machine."""

    settings: Settings
    url: str
    authority: Path | None

    def client(self, tenant: str = "", token: str | None = None) -> ApiClient:
        """Returns a client for a tenant, or the platform, with a token, or as the administrator."""
        context = ssl.create_default_context(cafile=str(self.authority) if self.authority else None)
        headers = {"Authorization": f"Bearer {token or self.token()}"}
        return ApiClient(made.with_tenant(self.url, tenant), context, headers)

    def token(self) -> str:
        """Returns the platform administrator's token. Raises CommandError if no server has created one yet."""
        path = self.settings.admin_token_path
        if not path.exists():
            raise CommandError(f"{path} does not exist yet: `registry serve` makes it{other_servers(self.settings)}")
        return made.ensure_admin_token(self.settings)


def add_server_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--server",
        help="URL at which the server is reached; by default that of its last start, or from --host and --port",
    )
    add_flags(parser, CLIENT)


def open_platform(typed: dict[str, Any]) -> Platform:
    """Returns the server given by the flags, or else the one last started in the data folder."""
    server = typed.pop("server", None)
    settings = load(typed, os.environ)
    print_data_dir(settings)
    return Platform(settings, *made.resolve_server(settings, server, named=any_set(typed, os.environ, *ADDRESS)))
