"""The headers of proxied requests and responses.

Pure. Only X-Remote-* headers identify the user: credentials are not forwarded, and X-Remote-* headers sent by a client
are dropped.

Follows Go's net/http/httputil/reverseproxy.go, apimachinery pkg/util/proxy/{transport,upgradeaware}.go and client-go
transport/round_trippers.go (SetAuthProxyHeaders).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from registry.authentication.user import User
from registry.authentication.websocket_protocol import PROTOCOLS, without_tokens
from registry.codec.go_url import escape_path

Headers = list[tuple[bytes, bytes]]

# RFC 9110, 7.6.1, and others that the original removes.
_HOP_BY_HOP: Final = frozenset(
    {
        b"connection", b"proxy-connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te",
        b"trailer", b"transfer-encoding", b"upgrade",
    }
)  # fmt: skip
# Credentials, which may be in cookies of a proxy before this server, and headers that this server sets itself.
_OURS: Final = frozenset(
    {b"host", b"authorization", b"cookie", b"audit-id", b"expect", b"content-length", b"x-forwarded-for",
     b"x-forwarded-host", b"x-forwarded-proto", b"x-forwarded-uri"}
)  # fmt: skip
_IDENTITY_PREFIXES: Final = (b"x-remote-", b"impersonate-")
# Browsers would treat these as this server's own, which has a Date of its own in every answer.
_NOT_ANSWERED: Final = frozenset(
    {b"set-cookie", b"strict-transport-security", b"content-security-policy", b"x-content-type-options", b"alt-svc",
     b"service-worker-allowed", b"clear-site-data", b"content-length", b"date"}
)  # fmt: skip
_SANDBOX: Final = (b"content-security-policy", b"sandbox; default-src 'none'")

# Segments that some servers drop, or take for the parent of what is before them.
_RESOLVED: Final = frozenset({"", ".", ".."})

# What no value of a header has (RFC 9110, 5.5).
_control: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
# Anything but a token character of RFC 9110; "%" is escaped as well.
_key_escaped: Final = re.compile(rb"[^!#$&'*+\-.^_`|~0-9A-Za-z]")


class InvalidHeader(Exception):
    """A user name or another value cannot be a header's value."""


def target(path: str, query: Mapping[str, Sequence[str]]) -> bytes:
    """The request target: the decoded path and the query, encoded as Go does."""
    encoded = escape_path(path)
    if query:
        encoded += "?" + urlencode([(name, value) for name in sorted(query) for value in query[name]])
    return encoded.encode()


def is_plain_path(path: str) -> bool:
    """Whether every server resolves this path to the authorized one: it has no empty or dot segments."""
    return _RESOLVED.isdisjoint(path.strip("/").split("/"))


def request_head(
    method: str,
    target: bytes,
    authority: str,
    headers: Iterable[tuple[bytes, bytes]],
    user: User,
    *,
    audit_id: str,
    client: str,
    upgrade: str = "",
) -> bytes:
    """The head of a proxied request without its framing (see `framing`). Raises InvalidHeader.

    `upgrade` is the protocol that the client requests to switch to.
    """
    headers = list(headers)
    named = _named_by_connection(headers)
    lines = [method.encode(), b" ", target, b" HTTP/1.1\r\nhost: ", authority.encode(), b"\r\n"]
    forwarded = [value for name, value in headers if name == b"x-forwarded-for"]
    for name, value in headers:
        if name in _HOP_BY_HOP or name in _OURS or name in named or _tells_identity(name):
            continue
        if name == PROTOCOLS:
            value = ", ".join(without_tokens(value)).encode("latin-1")
            if not value:
                continue
        lines += (name, b": ", value, b"\r\n")
    if client:
        forwarded.append(client.encode("latin-1", "replace"))
    if forwarded:
        lines += (b"x-forwarded-for: ", b", ".join(forwarded), b"\r\n")
    lines += (b"x-forwarded-proto: https\r\nx-forwarded-host: ", authority.encode(), b"\r\n")
    lines += (b"x-forwarded-uri: ", target.partition(b"?")[0], b"\r\naudit-id: ", audit_id.encode(), b"\r\n")
    if upgrade:
        lines += (b"connection: Upgrade\r\nupgrade: ", upgrade.encode("latin-1"), b"\r\n")
    for name, value in identity_headers(user):
        lines += (name, b": ", value, b"\r\n")
    return b"".join(lines)


def framing(length: int | None) -> bytes:
    """The end of a head: the length of the body; None for a chunked one."""
    return b"transfer-encoding: chunked\r\n\r\n" if length is None else b"content-length: %d\r\n\r\n" % length


def identity_headers(user: User) -> Headers:
    """`X-Remote-User: jane` and the other identity headers. Raises InvalidHeader."""
    headers = [(b"x-remote-user", _value(user.name))]
    if user.uid:
        headers.append((b"x-remote-uid", _value(user.uid)))
    headers += [(b"x-remote-group", _value(group)) for group in user.groups]
    for key, values in user.extra.items():
        name = b"x-remote-extra-" + _key_escaped.sub(lambda headers: b"%%%02X" % headers[0][0], key.encode())
        headers += [(name, _value(value)) for value in values]
    return headers


def answer_headers(headers: Iterable[tuple[bytes, bytes]], *, upgrade: bool = False) -> tuple[Headers, int | None]:
    """The response headers to forward to the client, and the length of the body if known."""
    headers = list(headers)
    named = _named_by_connection(headers)
    length: int | None = None
    passed: Headers = []
    for name, value in headers:
        if name == b"content-length" and value.isdigit():
            length = int(value[:20])
        if name in _HOP_BY_HOP or name in _NOT_ANSWERED or name in named:
            continue
        passed.append((name, value))
    if upgrade:
        passed += [(name, value) for name, value in headers if name in (b"upgrade", b"connection")]
        return passed, None
    return [*passed, _SANDBOX], length


def upgrade_of(headers: Mapping[bytes, bytes]) -> str:
    """The protocol that a request asks to switch to; "" if none."""
    if b"upgrade" not in headers.get(b"connection", b"").lower():
        return ""
    return headers.get(b"upgrade", b"").decode("latin-1")


def _named_by_connection(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    return frozenset(
        part.strip().lower() for name, value in headers if name == b"connection" for part in value.split(b",")
    )


def _tells_identity(name: bytes) -> bool:
    """Whether a server might read the header as an identity header; some treat `_` as `-`."""
    return name.replace(b"_", b"-").startswith(_IDENTITY_PREFIXES)


def _value(text: str) -> bytes:
    encoded = text.encode()
    if _control.search(encoded) is not None:
        raise InvalidHeader("net/http: invalid header field value for a user, a group or what is known of a user")
    return encoded
