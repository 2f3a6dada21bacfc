"""Bearer tokens among the subprotocols of a WebSocket."""

from __future__ import annotations

import base64

import pytest

from registry.authentication.authenticator import Unauthenticated
from registry.authentication.websocket_protocol import TOKEN_PROTOCOL, authorization_of, without_tokens


def protocol(token: str) -> str:
    return TOKEN_PROTOCOL + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")


def headers(protocols: str) -> dict[bytes, bytes]:
    return {b"connection": b"Upgrade", b"upgrade": b"WebSocket", b"sec-websocket-protocol": protocols.encode()}


@pytest.mark.parametrize(
    "protocols",
    [
        pytest.param(protocol("a"), id="no other protocol"),
        pytest.param(f"{protocol('a')}, {protocol('a')}, x", id="two tokens"),
        pytest.param(f"{TOKEN_PROTOCOL}!, x", id="no base64"),
        pytest.param(f"{TOKEN_PROTOCOL}_w, x", id="no UTF-8"),
        pytest.param(f"{TOKEN_PROTOCOL}, x", id="empty"),
        pytest.param(f"{protocol('a b')}, x", id="two words"),
        pytest.param("x," * 100, id="hundreds"),
    ],
)
def test_tokens_that_are_refused(protocols: str) -> None:
    with pytest.raises(Unauthenticated):
        authorization_of(headers(protocols))


def test_tokens_count_only_for_websockets() -> None:
    sent = headers(f"{protocol('secret')},x")
    assert authorization_of(sent) == "Bearer secret"
    assert authorization_of({**sent, b"upgrade": b"h2c"}) == ""
    assert authorization_of({**sent, b"connection": b"close"}) == ""
    assert authorization_of(headers("x")) == ""
    assert without_tokens(sent[b"sec-websocket-protocol"]) == ["x"]
