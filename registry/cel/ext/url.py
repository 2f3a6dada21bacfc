"""URLs: url(), isURL() and their members.

Follows apiserver pkg/cel/library/urls.go and Go's net/url/url.go (EscapedPath, Query).
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote_to_bytes

from registry.budget import spend
from registry.cel.common.maps import Map
from registry.cel.common.values import EvalError, Opaque, TypeValue, Value
from registry.cel.ext.conversions import TYPE_NAMES
from registry.cel.ext.strings import CHARACTERS
from registry.cel.ext.table import can_parse, function, member, traversal
from registry.codec import go_url
from registry.codec.text_cache import cache_short

URL: Final = TypeValue("kubernetes.URL")
TYPE_NAMES[URL.name] = URL

_PATH_SAFE: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~$&+,/:;=@")
_ESCAPED: Final = [chr(byte) if chr(byte) in _PATH_SAFE else f"%{byte:02X}" for byte in range(256)]
_PATH_VALID: Final = _PATH_SAFE | frozenset("!'()*[]%")


class UrlValue(Opaque):
    __slots__ = ("parts",)

    type = URL
    has_text = False

    def __init__(self, parts: go_url.Url) -> None:
        self.parts = parts

    def is_same(self, other: UrlValue) -> bool:
        return self.parts == other.parts


@cache_short(200, 2048)
def parse_request_uri(text: str) -> None:
    """Raises EvalError unless net/url.ParseRequestURI accepts `text`: an absolute URL or an absolute path."""
    try:
        go_url.parse_request_uri(text)
    except go_url.UrlError as error:
        raise EvalError(str(error)) from None


@cache_short(200, 2048)
def parse_url(text: str) -> UrlValue:
    try:
        go_url.parse_request_uri(text)
        return UrlValue(go_url.parse_url(text))
    except go_url.UrlError as error:
        raise EvalError(f"URL parse error during conversion from string: {error}") from None


# --- functions


@function("url", 1, of=(str,), cost=traversal())
def url(value: str) -> UrlValue:
    return parse_url(value)


@function("isURL", 1, of=(str,))
def is_url(value: str) -> bool:
    return can_parse(parse_request_uri, value)


@member("getScheme", 1, of=(UrlValue,))
def get_scheme(value: UrlValue) -> str:
    return value.parts.scheme


@member("getHost", 1, of=(UrlValue,))
def get_host(value: UrlValue) -> str:
    return value.parts.host


@member("getHostname", 1, of=(UrlValue,))
def get_hostname(value: UrlValue) -> str:
    """The host without port and brackets."""
    return _split_host(value.parts.host)[0]


@member("getPort", 1, of=(UrlValue,))
def get_port(value: UrlValue) -> str:
    return _split_host(value.parts.host)[1]


def _split_host(host: str) -> tuple[str, str]:
    name, port = host, ""
    colon = host.rfind(":")
    if colon >= 0 and go_url.PORT.fullmatch(host[colon:]):
        name, port = host[:colon], host[colon + 1 :]
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    return name, port


@member("getEscapedPath", 1, of=(UrlValue,))
def get_escaped_path(value: UrlValue) -> str:
    """The path as it was written if that is a valid encoding, else the encoded path."""
    if _PATH_VALID.issuperset(value.parts.raw_path):
        return value.parts.raw_path
    spend(len(value.parts.path) // CHARACTERS)
    return "".join(map(_ESCAPED.__getitem__, value.parts.path.encode("utf-8", "surrogateescape")))


@member("getQuery", 1, of=(UrlValue,))
def get_query(value: UrlValue) -> Map:
    """{'x': ['1', '2']}; pairs that cannot be decoded are omitted."""
    parameters: dict[str, Value] = {}
    query = value.parts.query.removeprefix("?")
    spend(len(query))
    for pair in query.split("&"):
        if not pair or ";" in pair:
            continue
        name, _, text = pair.partition("=")
        if go_url.BAD_ESCAPE.search(pair):
            continue
        parameters.setdefault(_plain(name), []).append(_plain(text))
    return Map.of_strings(parameters)


def _plain(text: str) -> str:
    if "%" not in text and "+" not in text:
        return text
    return unquote_to_bytes(text.replace("+", " ")).decode("utf-8", "replace")
