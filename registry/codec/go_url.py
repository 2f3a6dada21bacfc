"""Parses URLs as Go's net/url does, with its error texts.

Follows Go's src/net/url/url.go (Parse, ParseRequestURI).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from registry.codec.go_netip import AddressError, parse_addr
from registry.codec.go_text import go_quote

BAD_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2})")
_ESCAPE: Final = re.compile(rb"%(?=[0-9a-fA-F]{2})")
PORT: Final = re.compile(r"(?::[0-9]*)?", re.ASCII)
_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_USER: Final = re.compile(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*", re.ASCII)
# In a host, only bytes beyond ASCII and the percent sign may be escaped.
_HOST_ESCAPE_REFUSED: Final = re.compile(r"%(?!25|[89a-fA-F][0-9a-fA-F]).{0,2}", re.DOTALL)
_HOST_REFUSED: Final = re.compile(r"[ #/?@\\^`{|}]")


class UrlError(ValueError):
    """A text is not a URL. The message is Go's: `parse "x": first path segment in URL cannot contain colon`."""


@dataclass(frozen=True, slots=True)
class Url:
    """The parts of a URL, as they are written.

    Only `host` is percent-decoded, with surrogates for bytes that are not UTF-8. `user` is None if there is none,
    `query` has its question mark, and `opaque` is what follows the scheme in `mailto:a@b`.
    """

    scheme: str = ""
    user: str | None = None
    host: str = ""
    raw_path: str = ""
    query: str = ""
    fragment: str = ""
    opaque: str = ""

    @property
    def path(self) -> str:
        """The percent-decoded path."""
        return _decode(self.raw_path)


def parse_url(text: str) -> Url:
    """Parses any URL, also a relative one. Raises UrlError."""
    try:
        before, _, fragment = text.partition("#")
        url = _parse(before, request=False)
        _check_escapes(fragment)
    except UrlError as error:
        raise UrlError(f"parse {go_quote(text)}: {error}") from None
    return replace(url, fragment=fragment) if fragment else url


def parse_request_uri(text: str) -> Url:
    """Parses an absolute URL or an absolute path, which have no fragment. Raises UrlError."""
    try:
        return _parse(text, request=True)
    except UrlError as error:
        raise UrlError(f"parse {go_quote(text)}: {error}") from None


def _parse(text: str, *, request: bool) -> Url:
    if _CONTROL.search(text):
        raise UrlError("net/url: invalid control character in URL")
    if not text and request:
        raise UrlError("empty url")
    if text == "*":
        return Url(raw_path="*")
    scheme, rest = _scheme(text)
    rest, mark, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, query=mark + query, opaque=rest)
        if request:
            raise UrlError("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise UrlError("first path segment in URL cannot contain colon")
    user, host = None, ""
    if (scheme or not (request or rest.startswith("///"))) and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, host = _authority(authority)
    _check_escapes(rest)
    return Url(scheme, user, host, rest, mark + query)


def _scheme(text: str) -> tuple[str, str]:
    """The scheme in lower case, and the rest. Raises UrlError for a text that begins with a colon."""
    head, colon, rest = text.partition(":")
    if colon and not head:
        raise UrlError("missing protocol scheme")
    if not colon or not _SCHEME.fullmatch(head):
        return "", text
    return head.lower(), rest


def _authority(text: str) -> tuple[str | None, str]:
    user, at, host = text.rpartition("@")
    if not at:
        return None, _host(host)
    if not _USER.fullmatch(user):
        raise UrlError("net/url: invalid userinfo")
    _check_escapes(user)
    return user, _host(host)


def _host(text: str) -> str:
    bracket = text.rfind("[")
    if bracket > 0:
        raise UrlError("invalid IP-literal")
    if bracket == 0:
        return _bracket(text)
    if ":" in text:
        colon = text.rindex(":")
        if not PORT.fullmatch(text[colon:]):
            raise UrlError(f"invalid port {go_quote(text[colon:])} after host")
    match = _HOST_ESCAPE_REFUSED.search(text)
    if match:
        raise UrlError(f"invalid URL escape {go_quote(match[0])}")
    refused = _HOST_REFUSED.search(text)
    if refused:
        raise UrlError(f"invalid character {go_quote(refused[0])} in host name")
    return _decode(text)


def _bracket(text: str) -> str:
    end = text.rfind("]")
    if end < 0:
        raise UrlError("missing ']' in host")
    port = text[end + 1 :]
    if not PORT.fullmatch(port):
        raise UrlError(f"invalid port {go_quote(port)} after host")
    address, percent, zone = text[1:end].partition("%25")
    if BAD_ESCAPE.search(zone) or "%" in address:
        raise UrlError(_escape_error(text))
    full = f"{address}%{unquote_to_bytes(zone).decode('utf-8', 'replace')}" if percent else address
    try:
        if parse_addr(full).bits == 32:
            raise UrlError("invalid IP-literal")
    except AddressError as error:
        raise UrlError(f"invalid host: ParseAddr({go_quote(full)}): {error}") from None
    return f"[{full}]{port}"


def unescape(raw: bytes) -> str:
    """Percent-decodes a part of a URL; invalid escapes stay as they are, and bytes that are not UTF-8 are replaced."""
    try:
        return unescape_valid(raw)
    except ValueError:
        return _unescaped(_ESCAPE.sub(rb"\\x", raw.replace(b"\\", rb"\\")))


def unescape_valid(raw: bytes) -> str:
    """Like `unescape`, but raises ValueError for an invalid escape.

    In C code: urllib takes 10 ms for 20,000 escapes, which the head of a request may have without a credential.
    """
    return (
        _unescaped(raw.replace(b"\\", rb"\\").replace(b"%", rb"\x")) if b"%" in raw else raw.decode("utf-8", "replace")
    )


def _unescaped(raw: bytes) -> str:
    """`raw` has the escapes of Python's literals."""
    return raw.decode("unicode_escape").encode("latin-1").decode("utf-8", "replace")


def escape_path(path: str) -> str:
    """Encodes a decoded path as Url.String does (encodePath)."""
    return quote(path, safe="$&+,/:;=@-_.~", errors="surrogateescape")


def _decode(text: str) -> str:
    return unquote_to_bytes(text).decode("utf-8", "surrogateescape") if "%" in text else text


def _check_escapes(text: str) -> None:
    if BAD_ESCAPE.search(text):
        raise UrlError(_escape_error(text))


def _escape_error(text: str) -> str:
    match = BAD_ESCAPE.search(text) or re.search("%", text)
    start = match.start() if match else 0
    return f"invalid URL escape {go_quote(text[start : start + 3])}"
