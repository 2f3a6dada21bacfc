"""URLs: url(), isURL() and their members, parsed as by Go's net/url.

Follows apiserver pkg/cel/library/urls.go and Go's net/url/url.go (Parse, ParseRequestURI, EscapedPath, Query).
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from registry.budget import spend
from registry.cel.common.caching import cache_by_text
from registry.cel.common.maps import Map
from registry.cel.common.values import EvalError, Opaque, TypeValue, Value, no_such_overload, register_type
from registry.cel.ext.conversions import TYPE_NAMES
from registry.cel.ext.net import AddressError, parse_zoned
from registry.cel.ext.strings import CHARACTERS
from registry.cel.ext.table import function, member, traversal
from registry.codec.go_text import go_quote

URL: Final = TypeValue("kubernetes.URL")
TYPE_NAMES[URL.name] = URL

_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*", re.ASCII)
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2})")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_USER: Final = re.compile(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*", re.ASCII)
_PORT: Final = re.compile(r"(?::[0-9]*)?", re.ASCII)
# In a host, only bytes beyond ASCII and the percent sign may be escaped.
_HOST_ESCAPE_REFUSED: Final = re.compile(r"%(?!25|[89a-fA-F][0-9a-fA-F]).{0,2}", re.DOTALL)
_HOST_REFUSED: Final = re.compile(r"[ #/?@\\^`{|}]")
_PATH_SAFE: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~$&+,/:;=@")
_ESCAPED: Final = [chr(byte) if chr(byte) in _PATH_SAFE else f"%{byte:02X}" for byte in range(256)]
_PATH_VALID: Final = _PATH_SAFE | frozenset("!'()*[]%")


class UrlError(ValueError):
    """A text is not a URL; the message is net/url's, without the prefix `parse "…": `."""


class Url(Opaque):
    """The parts of a URL that the library returns, percent-decoded where Go decodes them."""

    __slots__ = ("host", "identity", "path", "query", "raw_path", "scheme")

    type = URL
    has_text = False

    def __init__(self, scheme: str, host: str, path: str, raw_path: str, query: str, identity: tuple[str, ...]) -> None:
        self.scheme = scheme
        self.host = host
        self.path = path  # decoded; undecodable bytes are surrogates
        self.raw_path = raw_path  # as written
        self.query = query
        self.identity = identity  # all parts, for equality

    def equals(self, other: Value) -> bool:
        if type(other) is not Url:
            raise no_such_overload()
        return self.identity == other.identity


register_type(Url, URL)


@cache_by_text
def parse_request_uri(text: str) -> None:
    """Raises EvalError unless net/url.ParseRequestURI accepts `text`: an absolute URL or an absolute path."""
    try:
        _parse(text, request=True)
    except UrlError as error:
        raise EvalError(f"parse {go_quote(text)}: {error}") from None


@cache_by_text
def parse_url(text: str) -> Url:
    try:
        _parse(text, request=True)
        before, sharp, fragment = text.partition("#")
        if sharp and _BAD_ESCAPE.search(fragment):
            raise UrlError(_escape_error(fragment))
        url = _parse(before, request=False)
    except UrlError as error:
        raise EvalError(f"URL parse error during conversion from string: parse {go_quote(text)}: {error}") from None
    url.identity = (*url.identity, fragment)
    return url


def _parse(text: str, *, request: bool) -> Url:
    if _CONTROL.search(text):
        raise UrlError("net/url: invalid control character in URL")
    if not text and request:
        raise UrlError("empty url")
    if text == "*":
        return Url("", "", "*", "*", "", ("", "", "*", ""))
    scheme, rest = _scheme(text)
    rest, mark, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, "", "", "", query, (scheme, "", rest, mark + query))  # opaque, as mailto:a@b
        if request:
            raise UrlError("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise UrlError("first path segment in URL cannot contain colon")
    user = host = ""
    if (scheme or not (request or rest.startswith("///"))) and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, host = _authority(authority)
    path = _unescape(rest)
    return Url(scheme, host, path, rest, query, (scheme, user, host, rest, mark + query))


def _scheme(text: str) -> tuple[str, str]:
    """The scheme in lower case, and the rest. Raises UrlError for a text that begins with a colon."""
    head, colon, rest = text.partition(":")
    if colon and not head:
        raise UrlError("missing protocol scheme")
    if not colon or not _SCHEME.fullmatch(head):
        if colon and text[0] in "0123456789+-.":
            match = re.match(r"[0-9+.a-zA-Z-]*", text)
            if match and text[match.end() : match.end() + 1] == ":":
                raise UrlError("first path segment in URL cannot contain colon")
        return "", text
    return head.lower(), rest


def _authority(text: str) -> tuple[str, str]:
    user, at, host = text.rpartition("@")
    if at and not _USER.fullmatch(user):
        raise UrlError("net/url: invalid userinfo")
    if at:
        _unescape(user)
    return user, _host(host)


def _host(text: str) -> str:
    bracket = text.rfind("[")
    if bracket > 0:
        raise UrlError("invalid IP-literal")
    if bracket == 0:
        return _bracket(text)
    if ":" in text:
        colon = text.rindex(":")
        if not _PORT.fullmatch(text[colon:]):
            raise UrlError(f"invalid port {go_quote(text[colon:])} after host")
    match = _HOST_ESCAPE_REFUSED.search(text)
    if match:
        raise UrlError(f"invalid URL escape {go_quote(match[0])}")
    refused = _HOST_REFUSED.search(text)
    if refused:
        raise UrlError(f"invalid character {go_quote(refused[0])} in host name")
    return unquote_to_bytes(text).decode("utf-8", "surrogateescape")


def _bracket(text: str) -> str:
    end = text.rfind("]")
    if end < 0:
        raise UrlError("missing ']' in host")
    port = text[end + 1 :]
    if not _PORT.fullmatch(port):
        raise UrlError(f"invalid port {go_quote(port)} after host")
    address, percent, zone = text[1:end].partition("%25")
    if _BAD_ESCAPE.search(zone) or "%" in address:
        raise UrlError(_escape_error(text))
    full = f"{address}%{unquote_to_bytes(zone).decode('utf-8', 'replace')}" if percent else address
    try:
        if parse_zoned(full)[0].bits == 32:
            raise UrlError("invalid IP-literal")
    except AddressError as error:
        raise UrlError(f"invalid host: ParseAddr({go_quote(full)}): {error}") from None
    return f"[{full}]{port}"


def _unescape(text: str) -> str:
    if _BAD_ESCAPE.search(text):
        raise UrlError(_escape_error(text))
    return unquote_to_bytes(text).decode("utf-8", "surrogateescape")


def _escape_error(text: str) -> str:
    match = _BAD_ESCAPE.search(text) or re.search("%", text)
    start = match.start() if match else 0
    return f"invalid URL escape {go_quote(text[start : start + 3])}"


# --- functions


@function("url", 1, of=(str,), cost=traversal())
def url(value: str) -> Url:
    return parse_url(value)


@function("isURL", 1, of=(str,))
def is_url(value: str) -> bool:
    try:
        parse_request_uri(value)
    except EvalError:
        return False
    return True


@member("getScheme", 1, of=(Url,))
def get_scheme(value: Url) -> str:
    return value.scheme


@member("getHost", 1, of=(Url,))
def get_host(value: Url) -> str:
    return value.host


@member("getHostname", 1, of=(Url,))
def get_hostname(value: Url) -> str:
    """The host without port and brackets."""
    return _split_host(value.host)[0]


@member("getPort", 1, of=(Url,))
def get_port(value: Url) -> str:
    return _split_host(value.host)[1]


def _split_host(host: str) -> tuple[str, str]:
    name, port = host, ""
    colon = host.rfind(":")
    if colon >= 0 and _PORT.fullmatch(host[colon:]):
        name, port = host[:colon], host[colon + 1 :]
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    return name, port


@member("getEscapedPath", 1, of=(Url,))
def get_escaped_path(value: Url) -> str:
    """The path as it was written if that is a valid encoding, else the encoded path."""
    if _PATH_VALID.issuperset(value.raw_path):
        return value.raw_path
    spend(len(value.path) // CHARACTERS)
    return "".join(map(_ESCAPED.__getitem__, value.path.encode("utf-8", "surrogateescape")))


@member("getQuery", 1, of=(Url,))
def get_query(value: Url) -> Map:
    """{'x': ['1', '2']}; pairs that cannot be decoded are omitted."""
    parameters: dict[str, Value] = {}
    query = value.query
    spend(len(query))
    for pair in query.split("&"):
        if not pair or ";" in pair:
            continue
        name, _, text = pair.partition("=")
        if _BAD_ESCAPE.search(pair):
            continue
        parameters.setdefault(_plain(name), []).append(_plain(text))
    return Map.of_strings(parameters)


def _plain(text: str) -> str:
    if "%" not in text and "+" not in text:
        return text
    return unquote_to_bytes(text.replace("+", " ")).decode("utf-8", "replace")
