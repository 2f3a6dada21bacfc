"""A client for a command's requests to a server: JSON over HTTPS, one at a time."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from registry.cli.errors import RequestRefused, describe

Object = dict[str, Any]

_TIMEOUT_SECONDS: Final = 60
_PAGE: Final = 500


class ApiClient:
    """A client of a server, or of one of its tenants. `url` is the prefix of each path."""

    def __init__(self, url: str, context: ssl.SSLContext | None, headers: Mapping[str, str]) -> None:
        if not url.startswith(("https://", "http://")):
            raise RequestRefused(f"{url} is not the address of a server: it must begin with https://")
        self.url = url.rstrip("/")
        self._context = context
        self._headers = {"Accept": "application/json", **headers}

    def request(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json", accept: str = ""
    ) -> Object:
        """Returns the decoded response. Raises Refused with the server's message."""
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={**self._headers, "Content-Type": content_type, **({"Accept": accept} if accept else {})},
        )
        # Proxies from the environment for HTTPS only: without TLS they could read the token.
        proxies = {scheme: url for scheme, url in urllib.request.getproxies().items() if scheme == "https"}
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler(proxies), urllib.request.HTTPSHandler(context=self._context), _NoRedirects()
        )
        try:
            with opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
                document: Object = json.loads(answer.read())
                return document
        except urllib.error.HTTPError as error:
            with error:
                message = _message(error.read()) or f"the server answered {error.code}"
                raise RequestRefused(message, error.code) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise RequestRefused(
                f"{self.url} cannot be reached: {_reason(error)} (is `registry serve` running?)"
            ) from error

    def items(self, path: str, query: str = "") -> Iterator[Object]:
        """Yields all items of a list, page by page."""
        for page in self.pages(path, query):
            yield from page["items"]

    def pages(self, path: str, query: str = "") -> Iterator[Object]:
        """Yields a list in pages of 500; a non-empty `query` must end with '&'."""
        following = ""
        while True:
            page = self.request("GET", f"{path}?{query}limit={_PAGE}&continue={quote(following, safe='')}")
            yield page
            following = page["metadata"].get("continue") or ""
            if not following:
                return

    def create_unless_exists(self, path: str, body: Object) -> None:
        try:
            self.request("POST", path, body)
        except RequestRefused as refused:
            if refused.code != 409:
                raise


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Refuses redirects: an API server sends none, and the token must not follow one."""
        return None


def _message(body: bytes) -> str:
    try:
        status = json.loads(body)
    except ValueError:
        return ""
    return str(status.get("message") or "") if isinstance(status, dict) else ""


def _reason(error: BaseException) -> str:
    """Returns the underlying error, which urllib wraps."""
    reason = getattr(error, "reason", error)
    return describe(reason) if isinstance(reason, BaseException) else str(reason)
