"""OpenID metadata, for verifying tokens of service accounts. Follows kubernetes pkg/routes/openidmetadata.go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from registry.authentication.tokens.keys import DOCUMENT_SECONDS
from registry.authentication.tokens.service_accounts import AccountTokens
from registry.codec.json_encode import encode_json
from registry.http.documents.answers import require_get
from registry.http.request_state import STATE, RequestState
from registry.http.responses import headers_for, send_body

_CONFIGURATION: Final = "application/json"
_KEY_SET: Final = "application/jwk-set+json"


class OpenIDEndpoint:
    def __init__(self, tokens: AccountTokens, jwks_uri: str) -> None:
        """`jwks_uri` is empty if it is the address at which requests arrive."""
        self._tokens = tokens
        self._jwks_uri = jwks_uri

    async def configuration(self, scope: Scope, receive: Receive, send: Send) -> None:
        require_get(scope, _CONFIGURATION)
        state: RequestState = scope[STATE]
        address = self._jwks_uri or _address(scope)
        value = self._tokens.metadata(state.authorized.tenant.name, address)
        await _send(send, scope, _CONFIGURATION, value)

    async def key_set(self, scope: Scope, receive: Receive, send: Send) -> None:
        require_get(scope, _KEY_SET)
        await _send(send, scope, _KEY_SET, await self._tokens.key_set())


async def _send(send: Send, scope: Scope, media_type: str, value: Mapping[str, Any]) -> None:
    state: RequestState = scope[STATE]
    headers = [(n, v) for n, v in headers_for(media_type, state.warnings) if n != b"cache-control"]
    headers.append((b"cache-control", f"public, max-age={DOCUMENT_SECONDS}".encode()))
    await send_body(send, scope, 200, headers, encode_json(value))


def _address(scope: Scope) -> str:
    """Returns the address at which the request arrived."""
    host, port = scope["server"]
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
