"""The server that a clientConfig or an issuer names, with an unambiguous parse of its URL."""

from __future__ import annotations

import base64
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

from registry.codec.go_text import go_quote
from registry.codec.go_url import UrlError, escape_path, parse_url
from registry.schema.hosts import HostError, split_host_port
from registry.webhooks.connection import Origin
from registry.webhooks.errors import CallFailed
from registry.webhooks.services import Services

# Characters of a path or query that are kept; the rest is percent-encoded.
_SAFE = "/%:@!$&'()*+,;=~-._"


class HttpsUrl(NamedTuple):
    """`https://hook.example.com:8443/a?b` is ("hook.example.com", 8443, "/a", "b")."""

    host: str
    port: int
    path: str
    query: str

    @property
    def target(self) -> str:
        """The path with its query, as a request line has them."""
        return f"{self.path or '/'}{'?' if self.query else ''}{self.query}"


def parse_https_url(text: str) -> HttpsUrl:
    """Parses a URL. Raises CallFailed for one that may not be called, whatever its host resolves to."""
    try:
        url = parse_url(text)
        if url.scheme != "https" or not url.host or url.user is not None:
            raise HostError("must be of the form https://host[/path]")
        host, port = split_host_port(url.host)
    except (UrlError, HostError) as error:
        raise CallFailed(f"the URL {go_quote(text[:200])} cannot be called: {error}") from error
    rest, _, query = text.partition("#")[0].partition("?")
    _, slash, path = rest.partition("://")[2].partition("/")
    return HttpsUrl(host, port, quote(slash + path, safe=_SAFE), quote(query, safe=_SAFE + "?"))


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A webhook as a definition names it. `url` is for errors; `place` is where a service is.

    A service that the operator has named is `trusted`: it need not be at a public address.
    """

    url: str
    host: str
    port: int
    path: str
    ca_bundle: str
    service: str = ""
    place: tuple[str, int] | None = None
    trusted: bool = False

    def origin(self) -> Origin:
        """Raises CallFailed for a CA bundle that is not base64."""
        try:
            ca = base64.b64decode(self.ca_bundle).decode("ascii", "replace").replace("\ufffd", "?")
        except ValueError as error:
            raise bad_bundle() from error
        return Origin(self.host, self.port, ca, self.place, self.trusted)


def bad_bundle() -> CallFailed:
    return CallFailed("unable to load root certificates: unable to parse bytes as PEM block")


def endpoint_of(config: Mapping[str, Any], services: Services) -> Endpoint:
    """Returns the endpoint of a validated clientConfig. Raises CallFailed for a URL that may not be called."""
    bundle = config.get("caBundle") or ""
    service = config.get("service")
    if service is None:
        url = parse_https_url(config["url"])
        path = _clean(parse_url(config["url"]).path)
        authority = config["url"].partition("://")[2].partition("/")[0]
        return Endpoint(f"https://{authority}{path}", url.host, url.port, path, bundle)
    name, namespace, port = service["name"], service["namespace"], service.get("port") or 443
    path = _clean(service.get("path") or "")
    host = f"{name}.{namespace}.svc"
    return Endpoint(
        f"https://{host}:{port}{path}",
        host,
        port,
        path,
        bundle,
        name,
        services.find(name, namespace, port),
        services.is_named(name, namespace),
    )


def _clean(path: str) -> str:
    """Normalizes and encodes a decoded path as client-go does: `/a//b%2F` becomes `/a/b`, and an empty one `/`."""
    return escape_path("/" + posixpath.normpath(f"/{path}").lstrip("/"))
