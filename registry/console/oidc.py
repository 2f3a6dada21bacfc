"""Signing in at an external issuer: authorization code with PKCE (RFC 7636), for a public client.

The page makes the verifier, keeps it, and goes to the issuer. The code that it comes back with is exchanged here and
not by the page, so that the page needs to reach nothing but this server, and issuers need not allow its origin.

The issuer is the one of `--authentication-config` that accepts the client's id as an audience: an ID token is for the
client that asked for it. What is sent to the issuer is bounded in size, number and time; where to is fixed.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from registry.authentication.oidc.configuration import BadConfiguration, Issuer, load_configuration
from registry.authentication.oidc.provider import ISSUER_LIMITS
from registry.codec.model import DecodeError
from registry.files import Stamp, stamp_of
from registry.settings.declarations import Settings
from registry.webhooks.answers import decode_bounded_json
from registry.webhooks.connection import Origin, Unreachable
from registry.webhooks.egress import EgressPolicy
from registry.webhooks.endpoint import parse_https_url
from registry.webhooks.errors import CallFailed
from registry.webhooks.https import PLATFORM, HttpsAnswer, HttpsClient, HttpsRequest

logger = logging.getLogger(__name__)

OIDC_PATH: Final = "/api/oidc"
# Of these the ones that the issuer offers; with `offline_access` it gives refresh tokens.
SCOPE: Final = "openid profile email groups offline_access"
# The issuer's document is read again after so long.
_FRESH_SECONDS: Final = 600.0
_TIMEOUT_SECONDS: Final = 15.0
# Calls of the issuer under way in a process, and in any ten seconds: any client may cause one, and none may flood the
# issuer through this server.
_AT_ONCE: Final = 8
_IN_TEN_SECONDS: Final = 50
_BODY_BYTES: Final = 16 * 1024
_MAX_VALUES: Final = 20_000
_VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")


class SignInFailed(Exception):
    """The text is for the person who signs in; `code` is the HTTP status."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class SignIn:
    """`respond` answers requests of the page."""

    def __init__(self, settings: Settings) -> None:
        self._client_id = settings.console_oidc_client_id
        self._file = settings.authentication_config
        self._own_issuer = settings.service_account_issuer
        self._policy = EgressPolicy(settings.allow_egress_to)
        self._under_way = 0
        self._called: deque[float] = deque(maxlen=_IN_TEN_SECONDS)
        self._known_issuer: tuple[Stamp, Issuer] | None = None
        self._document: tuple[float, Issuer, Mapping[str, Any]] | None = None

    async def respond(self, request: Request) -> Response:
        headers = {"Cache-Control": "no-store"}
        try:
            if request.method == "GET":
                return JSONResponse(await self._beginning(), headers=headers)
            if request.method == "POST":
                return JSONResponse(await self._exchange(request), headers=headers)
        except SignInFailed as failure:
            return JSONResponse({"message": str(failure)}, failure.code, headers)
        return JSONResponse({"message": "only GET and POST are allowed"}, 405, {"Allow": "GET, POST"})

    async def _beginning(self) -> dict[str, str]:
        """{'issuer': ..., 'authorizationEndpoint': ..., 'clientId': ..., 'scope': ...}, or {}."""
        if self._file is None or not self._client_id:
            return {}
        issuer, document = await self._discover()
        offered = document.get("scopes_supported")
        scopes = [s for s in SCOPE.split() if s == "openid" or (isinstance(offered, list) and s in offered)]
        return {
            "issuer": issuer.url,
            "authorizationEndpoint": _endpoint(document, "authorization_endpoint"),
            "clientId": self._client_id,
            "scope": " ".join(scopes),
        }

    async def _exchange(self, request: Request) -> dict[str, str]:
        """{'idToken': ..., 'refreshToken': ...} for {'code': ..., 'codeVerifier': ..., 'redirectUri': ...}, or for
        {'refreshToken': ...}. Only some issuers give a refresh token; a new one replaces the one that was sent."""
        if self._file is None or not self._client_id:
            raise SignInFailed(404, "no issuer is configured for the console")
        form = _form(await _read(request), request.headers.get("host"))
        issuer, document = await self._discover()
        form["client_id"] = self._client_id
        answer = await self._call(issuer, _endpoint(document, "token_endpoint"), form)
        token, refresh = answer.get("id_token"), answer.get("refresh_token")
        if not isinstance(token, str):
            raise SignInFailed(502, "the issuer has sent no ID token")
        return {"idToken": token, **({"refreshToken": refresh} if isinstance(refresh, str) else {})}

    async def _discover(self) -> tuple[Issuer, Mapping[str, Any]]:
        issuer = await asyncio.to_thread(self._issuer)
        known = self._document
        if known is not None and known[1] == issuer and time.monotonic() - known[0] < _FRESH_SECONDS:
            return issuer, known[2]
        url = issuer.metadata_url
        document = await self._call(issuer, url)
        if document.get("issuer") != issuer.url:
            raise SignInFailed(502, f"{url} is the document of another issuer")
        self._document = (time.monotonic(), issuer, document)
        return issuer, document

    def _issuer(self) -> Issuer:
        """That of the file of issuers, which is read when it has changed."""
        assert self._file is not None
        stamp = stamp_of(self._file)
        if self._known_issuer is None or self._known_issuer[0] != stamp:
            self._known_issuer = (stamp, self._load_issuer(self._file))
        return self._known_issuer[1]

    def _load_issuer(self, file: Path) -> Issuer:
        try:
            issuers = load_configuration(file, self._own_issuer).issuers
        except BadConfiguration as error:
            logger.error("signing in at the console: the authentication configuration cannot be used: %s", error)
            raise SignInFailed(500, "the server's authentication configuration cannot be used") from error
        configured = next((issuer for issuer in issuers if self._client_id in issuer.audiences), None)
        if configured is None:
            raise SignInFailed(500, f"no issuer of the server accepts tokens for the client {self._client_id}")
        return configured

    async def _call(self, issuer: Issuer, text: str, form: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The JSON object with which the issuer answers a GET, or a POST of a form."""
        now = time.monotonic()
        is_frequent = len(self._called) == _IN_TEN_SECONDS and now - self._called[0] < 10
        if self._under_way >= _AT_ONCE or is_frequent:
            raise SignInFailed(429, "too many people are signing in: try again in a moment")
        self._called.append(now)
        self._under_way += 1
        client = HttpsClient(self._policy, ISSUER_LIMITS)
        try:
            url = parse_https_url(text)
            headers = {"Accept": "application/json"}
            if form is not None:
                headers["Content-Type"] = "application/x-www-form-urlencoded"
            body = urlencode(form).encode() if form is not None else b""
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                origin = Origin(url.host, url.port, issuer.ca)
                request = HttpsRequest("POST" if body else "GET", url.target, headers, body)
                return await client.exchange(PLATFORM, origin, request, _decode)
        except (CallFailed, Unreachable, ssl.SSLError, TimeoutError) as error:
            logger.warning("signing in at the console: %s: %s", text[:200], str(error) or type(error).__name__)
            raise SignInFailed(502, "the issuer cannot be reached") from error
        finally:
            self._under_way -= 1
            await client.aclose()


def _decode(answer: HttpsAnswer) -> dict[str, Any]:
    try:
        value = decode_bounded_json(answer.data, max_values=_MAX_VALUES)
    except DecodeError as error:
        raise SignInFailed(502, "the issuer's answer is not JSON") from error
    if not isinstance(value, dict):
        raise SignInFailed(502, "the issuer's answer is not a JSON object")
    if answer.status != 200:
        # RFC 6749, 5.2: one of a few words such as invalid_grant.
        raise SignInFailed(400, f"the issuer refuses: {str(value.get('error', answer.status))[:100]}")
    return value


def _endpoint(document: Mapping[str, Any], name: str) -> str:
    url = document.get(name)
    if not isinstance(url, str) or not url.startswith("https://"):
        raise SignInFailed(502, f"the issuer's document has no {name}")
    return url


async def _read(request: Request) -> dict[str, str]:
    body = b""
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > _BODY_BYTES:
                raise SignInFailed(413, "the request is too long")
    except ClientDisconnect as error:
        raise SignInFailed(400, "the request has ended early") from error
    try:
        value = decode_bounded_json(body, max_values=100)
    except DecodeError as error:
        raise SignInFailed(400, "the request is not JSON") from error
    if not isinstance(value, dict) or value.keys() not in (_OF_CODE, _OF_REFRESH):
        raise SignInFailed(400, f"the request must have {', '.join(sorted(_OF_CODE))}, or {', '.join(_OF_REFRESH)}")
    if not all(isinstance(text, str) for text in value.values()):
        raise SignInFailed(400, "the request must have texts only")
    return value


_OF_CODE: Final = frozenset({"code", "codeVerifier", "redirectUri"})
_OF_REFRESH: Final = frozenset({"refreshToken"})


def _form(body: Mapping[str, str], host: str | None) -> dict[str, str]:
    """What the issuer's token endpoint is sent (RFC 6749, sections 4.1.3 and 6)."""
    if body.keys() == _OF_REFRESH:
        return {"grant_type": "refresh_token", "refresh_token": body["refreshToken"]}
    if not _is_console(body["redirectUri"], host):
        raise SignInFailed(400, "redirectUri must be the console of this server")
    if not _VERIFIER.fullmatch(body["codeVerifier"]):
        raise SignInFailed(400, "codeVerifier must have 43 to 128 unreserved characters")
    return {
        "grant_type": "authorization_code",
        "code": body["code"],
        "code_verifier": body["codeVerifier"],
        "redirect_uri": body["redirectUri"],
    }


def _is_console(url: str, host: str | None) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.netloc == host and parts.path == "/console/" and not parts.query
