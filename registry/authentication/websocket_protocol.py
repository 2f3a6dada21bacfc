"""A bearer token among the subprotocols of a WebSocket, since browsers cannot set the Authorization header of one:

    Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.dG9rZW4, base64.binary.k8s.io

Follows apiserver pkg/authentication/request/websocket/protocol.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from registry.authentication.authenticator import Unauthenticated
from registry.codec import go_base64

TOKEN_PROTOCOL: Final = "base64url.bearer.authorization.k8s.io."
PROTOCOLS: Final = b"sec-websocket-protocol"
# Browsers send two. More than these would take time before anybody has authenticated.
_MOST_PROTOCOLS: Final = 100


def is_websocket(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a request asks to switch to a WebSocket."""
    wanted = headers.get(b"upgrade", b"").lower() == b"websocket"
    return wanted and b"upgrade" in headers.get(b"connection", b"").lower()


def authorization_of(headers: Mapping[bytes, bytes]) -> str:
    """Returns what the Authorization header of a request for a WebSocket would be; "" without a token.

    Raises Unauthenticated for hundreds of subprotocols, several tokens, a malformed one, or one without another
    subprotocol, which the answer has to name.
    """
    if PROTOCOLS not in headers or not is_websocket(headers):
        return ""
    if headers[PROTOCOLS].count(b",") >= _MOST_PROTOCOLS:
        raise Unauthenticated
    protocols = [part.strip() for part in headers[PROTOCOLS].decode("latin-1").split(",")]
    tokens = [part.removeprefix(TOKEN_PROTOCOL) for part in protocols if part.startswith(TOKEN_PROTOCOL)]
    if not tokens:
        return ""
    try:
        token = go_base64.decode(tokens[0], url=True, padded=False).decode()
    except ValueError as error:
        raise Unauthenticated from error
    if len(tokens) > 1 or len(protocols) == 1 or len(token.split()) != 1:
        raise Unauthenticated
    return f"Bearer {token}"


def without_tokens(protocols: bytes) -> list[str]:
    """The subprotocols other than a token."""
    parts = [part.strip() for part in protocols.decode("latin-1").split(",")]
    return [part for part in parts if part and TOKEN_PROTOCOL not in part]
