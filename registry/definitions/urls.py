"""Parses URLs as Go's net/url does, with its error texts.

Follows Go's src/net/url/url.go (Parse), restricted to what the validation of webhook URLs needs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from registry.codec.go_text import go_quote


class UrlError(ValueError):
    """The URL is invalid. The text is Go's: `parse "x": first path segment in URL cannot contain colon`."""


@dataclass(frozen=True, slots=True)
class Url:
    """`user` is the user information as Go prints it, `u:p`; None if there is none."""

    scheme: str = ""
    user: str | None = None
    host: str = ""
    query: str = ""
    fragment: str = ""


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*", re.ASCII)
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_PORT = re.compile(r":[0-9]*", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", re.ASCII)
_UNFIT_IN_HOST = frozenset(' "\\^`{|}')


def parse_url(text: str) -> Url:
    """Parses a URL. Raises UrlError if Go does not parse it."""
    try:
        rest, _, fragment = text.partition("#")
        url = _parse(rest)
        _check_escapes(fragment)
    except ValueError as error:
        raise UrlError(f"parse {go_quote(text)}: {error}") from error
    return Url(url.scheme, url.user, url.host, url.query, fragment)


def is_request_uri(text: str) -> Url | None:
    """Go's ParseRequestURI: accepts an absolute URL or an absolute path; None for anything else."""
    try:
        url = _parse(text)
    except ValueError:
        return None
    return url if url.scheme or text.startswith("/") else None


def _parse(text: str) -> Url:
    if any(c < " " or c == "\x7f" for c in text):
        raise ValueError("net/url: invalid control character in URL")
    scheme, rest = _scheme(text)
    rest, _, query = rest.partition("?")
    user, host = None, ""
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, query=query)  # opaque, such as mailto:a@b
        if ":" in rest.partition("/")[0]:
            raise ValueError("first path segment in URL cannot contain colon")
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        user, host = _authority(authority)
        rest = slash + path
    _check_escapes(rest)
    return Url(scheme, user, host, query)


def _scheme(text: str) -> tuple[str, str]:
    if text.startswith(":"):
        raise ValueError("missing protocol scheme")
    match = _SCHEME.match(text)
    if match and text[match.end() : match.end() + 1] == ":":
        return match[0].lower(), text[match.end() + 1 :]
    return "", text


def _authority(authority: str) -> tuple[str | None, str]:
    before, at, after = authority.rpartition("@")
    host = after if at else authority
    _check_host(host)
    if not at:
        return None, host
    if not _USER.fullmatch(before):
        raise ValueError("net/url: invalid userinfo")
    _check_escapes(before)
    return before, host


def _check_host(host: str) -> None:
    if host.startswith("["):
        end = host.rfind("]")
        if end < 0:
            raise ValueError("missing ']' in host")
        port = host[end + 1 :]
    else:
        colon = host.rfind(":")
        port = host[colon:] if colon >= 0 else ""
    if port and not _PORT.fullmatch(port):
        raise ValueError(f"invalid port {go_quote(port)} after host")
    for c in host:
        if c in _UNFIT_IN_HOST:
            raise ValueError(f"invalid character {go_quote(c)} in host name")
    _check_escapes(host)
    escape = re.search("%[0-7][0-9A-Fa-f]", host)
    if escape and escape[0] != "%25":
        raise ValueError(f"invalid URL escape {go_quote(escape[0])}")


def _check_escapes(text: str) -> None:
    bad = _BAD_ESCAPE.search(text)
    if bad:
        raise ValueError(f"invalid URL escape {go_quote(bad[0])}")
