"""Resolves resource names as users type them: bk, backup, backups, backups.demo.example.com,
backups.v1.demo.example.com, Backup/a.

Like kubectl's RESTMapper, from the aggregated discovery of the server.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final, NamedTuple
from urllib.parse import quote

from registry.cli.api_client import ApiClient, Object
from registry.cli.errors import CommandError
from registry.cli.kubeconfig_client import Session

_ACCEPT: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class NamedResource(NamedTuple):
    """`names` are all names that it can be addressed by, in lower case."""

    group: str
    version: str
    plural: str
    kind: str
    is_namespaced: bool
    names: frozenset[str]

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """Returns the URL path; `namespace` "" means all namespaces."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [root]
        if self.is_namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        parts += [quote(part, safe="") for part in (name, subresource) if part]
        return "/".join(parts)


def find_resource(client: ApiClient, wanted: str) -> NamedResource:
    """Returns the first resource, in the server's order, with this name. Raises CommandError."""
    word = wanted.lower()
    known = list(resources(client))
    for resource in known:
        qualified = {f"{name}.{resource.group}" for name in resource.names}
        qualified |= {f"{name}.{resource.version}.{resource.group}" for name in resource.names}
        if word in resource.names or word in qualified:
            return resource
    raise CommandError(f'the server doesn\'t have a resource type "{wanted}"')


def add_target(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s KIND NAME [flags]"
    parser.add_argument("target", nargs="+", metavar="KIND NAME", help="the object, also as KIND/NAME")


def find_target(session: Session, words: list[str]) -> tuple[NamedResource, str]:
    kind, name = split_target(words)
    return find_resource(session.client, kind), name


def split_target(words: list[str]) -> tuple[str, str]:
    """Splits ['crontab', 'backup'] or ['crontab/backup'] into ('crontab', 'backup'). Raises CommandError."""
    parts = words[0].split("/") if len(words) == 1 else words
    if len(parts) != 2 or not all(parts) or any("/" in part for part in parts):
        raise CommandError("name one object: KIND NAME, or KIND/NAME")
    return parts[0], parts[1]


def resources(client: ApiClient) -> Iterator[NamedResource]:
    for path in ("/api", "/apis"):
        for group in client.request("GET", path, accept=_ACCEPT).get("items") or ():
            name = (group.get("metadata") or {}).get("name") or ""
            for version in group.get("versions") or ():
                for entry in version.get("resources") or ():
                    yield _resource(name, version["version"], entry)


def _resource(group: str, version: str, entry: Object) -> NamedResource:
    kind = (entry.get("responseKind") or {}).get("kind") or ""
    plural = entry["resource"]
    names = {plural, entry.get("singularResource") or kind.lower(), kind.lower(), *(entry.get("shortNames") or ())}
    return NamedResource(group, version, plural, kind, entry.get("scope") == "Namespaced", frozenset(names))
