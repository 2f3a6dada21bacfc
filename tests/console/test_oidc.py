"""Signing in with an external OIDC issuer: the token exchange, and the whole flow in a browser."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest
import yaml
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse
from starlette.types import Receive, Scope, Send

from registry.console import oidc
from tests.api.client import Client
from tests.application import serving
from tests.authentication.issuer import Issuer
from tests.console.browser import Browser
from tests.console.editing import edit
from tests.console.seed import client as http_client
from tests.console.seed import ok
from tests.folders import data_folder
from tests.https import Endpoint, serving_https
from tests.running import RunningServer, running_server

CLIENT_ID = "registry"
PATH = "/console/api/oidc"
VERIFIER = "v" * 43
HOST = {"host": "registry.example"}
REDIRECT = "https://registry.example/console/"


class SigningIssuer(Issuer):
    """It signs everybody in as ann, and exchanges each code once, for whom has the verifier of its challenge."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self.codes: dict[str, dict[str, str]] = {}
        # What may be exchanged for a token without the user, each once; with `gives_refresh_tokens`.
        self.gives_refresh_tokens = False
        self.refresh_tokens: set[str] = set()
        self.forms: list[dict[str, str]] = []
        self.metadata = {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/keys",
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token?tenant=1",
            "scopes_supported": ["openid", "email"],
        }
        self.document("/.well-known/openid-configuration", self.metadata)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if scope["path"] == "/authorize":
            asked = dict(request.query_params)
            code = f"code-{len(self.codes)}"
            self.codes[code] = asked
            back = urlencode({"code": code, "state": asked["state"]})
            await RedirectResponse(f"{asked['redirect_uri']}?{back}")(scope, receive, send)
        elif scope["path"] == "/token":
            await self._exchange((await request.body()).decode())(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    def _exchange(self, body: str) -> JSONResponse:
        form = {name: values[0] for name, values in parse_qs(body).items()}
        self.forms.append(form)
        if form["grant_type"] == "refresh_token":
            if form["refresh_token"] not in self.refresh_tokens or form["client_id"] != CLIENT_ID:
                return JSONResponse({"error": "invalid_grant"}, 400)
            self.refresh_tokens.remove(form["refresh_token"])
            return self._tokens()
        asked = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if asked is None or base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != asked["code_challenge"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        return self._tokens()

    def _tokens(self) -> JSONResponse:
        answer = {"id_token": self.token(aud=CLIENT_ID), "access_token": "other", "token_type": "Bearer"}
        if self.gives_refresh_tokens:
            answer["refresh_token"] = f"refresh-{len(self.forms)}"
            self.refresh_tokens.add(answer["refresh_token"])
        return JSONResponse(answer)


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[SigningIssuer]:
    with serving_https(SigningIssuer, tmp_path / "issuer") as issuer:
        yield issuer


def settings_of(issuer: SigningIssuer, folder: Path) -> dict[str, Any]:
    entry = {
        "issuer": {
            "url": issuer.url,
            "certificateAuthority": issuer.ca,
            "audiences": ["other", CLIENT_ID],
            "audienceMatchPolicy": "MatchAny",
        },
        "claimMappings": {"username": {"claim": "sub", "prefix": "oidc:"}},
    }
    path = folder / "authentication.yaml"
    document = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": [entry]}
    path.write_text(yaml.safe_dump(document))
    return {"authentication_config": path, "console_oidc_client_id": CLIENT_ID, "allow_egress_to": ("127.0.0.0/8",)}


def code_for(issuer: SigningIssuer, verifier: str = VERIFIER) -> str:
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    issuer.codes["code"] = {"code_challenge": challenge}
    return "code"


async def exchange(client: Client, **more: str) -> Any:
    body = {"code": "code", "codeVerifier": VERIFIER, "redirectUri": REDIRECT, **more}
    return await client.with_token("").post(PATH, body, headers=HOST)


async def test_a_code_becomes_a_token(issuer: SigningIssuer, api_database: str, tmp_path: Path) -> None:
    async with serving(api_database, tmp_path / "data", **settings_of(issuer, tmp_path)) as client:
        begin = (await client.with_token("").get(PATH)).ok()
        assert begin == {
            "issuer": issuer.url,
            "authorizationEndpoint": f"{issuer.url}/authorize",
            "clientId": CLIENT_ID,
            "scope": "openid email",
        }
        code_for(issuer)
        answer = await exchange(client)
        assert answer.header("cache-control") == "no-store"
        token = answer.ok()["idToken"]
        assert set(answer.json) == {"idToken"}, "nothing else of the issuer's answer is passed on"
        assert issuer.forms[-1]["redirect_uri"] == REDIRECT
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        who = await client.with_token(token).post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
        assert who.ok()["status"]["userInfo"]["username"] == "oidc:ann"
        refused = await exchange(client)  # a code is good once
        assert (refused.code, refused.json) == (400, {"message": "the issuer refuses: invalid_grant"})


@pytest.mark.parametrize(
    "more, message",
    [
        ({"redirectUri": "https://evil.example/console/"}, "redirectUri must be the console of this server"),
        ({"redirectUri": "https://registry.example/console/?x"}, "redirectUri must be the console of this server"),
        ({"redirectUri": "https://["}, "redirectUri must be the console of this server"),
        ({"codeVerifier": "short"}, "codeVerifier must have 43 to 128 unreserved characters"),
        ({"codeVerifier": "v" * 42 + "\n"}, "codeVerifier must have 43 to 128 unreserved characters"),
        ({"codeVerifier": "w" * 43}, "the issuer refuses: invalid_grant"),
    ],
    ids=["another host", "a query", "no URL", "a short verifier", "a line end", "the wrong verifier"],
)
async def test_what_is_refused(
    more: dict[str, str], message: str, issuer: SigningIssuer, api_database: str, tmp_path: Path
) -> None:
    async with serving(api_database, tmp_path / "data", **settings_of(issuer, tmp_path)) as client:
        code_for(issuer)
        answer = await exchange(client, **more)
        assert (answer.code, answer.json["message"]) == (400, message)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"code": 1}', b'{"code": "a"}', b"[" * 9000], ids=lambda body: str(body)[:20]
)
async def test_what_is_no_request(body: bytes, issuer: SigningIssuer, api_database: str, tmp_path: Path) -> None:
    async with serving(api_database, tmp_path / "data", **settings_of(issuer, tmp_path)) as client:
        answer = await client.with_token("").post(PATH, body)
        assert answer.code == 400
        assert set(answer.json) == {"message"}
        assert (await client.post(PATH, b"x" * 20_000)).code == 413
        assert (await client.request("DELETE", PATH)).code == 405


@pytest.mark.parametrize(
    "change, message",
    [
        ({"issuer": "https://evil.example"}, "is the document of another issuer"),
        ({"authorization_endpoint": "http://plain.example/"}, "has no authorization_endpoint"),
        ({"authorization_endpoint": None}, "has no authorization_endpoint"),
    ],
    ids=["another issuer", "plain http", "none"],
)
async def test_a_document_that_is_not_the_issuers(
    change: dict[str, Any], message: str, issuer: SigningIssuer, api_database: str, tmp_path: Path
) -> None:
    issuer.document("/.well-known/openid-configuration", issuer.metadata | change)
    async with serving(api_database, tmp_path / "data", **settings_of(issuer, tmp_path)) as client:
        answer = await client.with_token("").get(PATH)
        assert answer.code == 502
        assert message in answer.json["message"]


async def test_an_issuer_inside_the_network_is_not_called(
    issuer: SigningIssuer, api_database: str, tmp_path: Path
) -> None:
    settings = settings_of(issuer, tmp_path) | {"allow_egress_to": ()}
    async with serving(api_database, tmp_path / "data", **settings) as client:
        answer = await client.with_token("").get(PATH)
        assert (answer.code, answer.json) == (502, {"message": "the issuer cannot be reached"})
        assert issuer.calls == []


async def test_without_an_issuer(issuer: SigningIssuer, api_database: str, tmp_path: Path) -> None:
    async with serving(api_database, tmp_path / "data") as client:
        assert (await client.with_token("").get(PATH)).ok() == {}
        assert (await exchange(client)).code == 404
    settings = settings_of(issuer, tmp_path) | {"console_oidc_client_id": "unknown"}
    async with serving(api_database, tmp_path / "data", **settings) as client:
        answer = await client.get(PATH)
        assert (answer.code, answer.json["message"]) == (
            500,
            "no issuer of the server accepts tokens for the client unknown",
        )


async def test_exchanges_under_way_are_bounded(
    issuer: SigningIssuer, api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "_AT_ONCE", 0)
    async with serving(api_database, tmp_path / "data", **settings_of(issuer, tmp_path)) as client:
        assert (await client.with_token("").get(PATH)).code == 429
        assert issuer.calls == []


async def test_requests_to_the_issuer_are_limited(issuer: SigningIssuer, api_database: str, tmp_path: Path) -> None:
    async with serving(api_database, tmp_path / "data", **settings_of(issuer, tmp_path)) as client:
        codes = [(await exchange(client)).code for _ in range(60)]
        assert set(codes) == {400, 429}
        assert len(issuer.calls) + len(issuer.forms) < 60


async def test_a_refresh_token_becomes_a_token(issuer: SigningIssuer, api_database: str, tmp_path: Path) -> None:
    issuer.gives_refresh_tokens = True
    metadata = issuer.metadata | {"scopes_supported": ["openid", "offline_access"]}
    issuer.document("/.well-known/openid-configuration", metadata)
    async with serving(api_database, tmp_path / "data", **settings_of(issuer, tmp_path)) as client:
        stranger = client.with_token("")
        assert (await stranger.get(PATH)).ok()["scope"] == "openid offline_access"
        code_for(issuer)
        first = (await exchange(client)).ok()
        second = (await stranger.post(PATH, {"refreshToken": first["refreshToken"]})).ok()
        assert issuer.forms[-1] == {
            "grant_type": "refresh_token",
            "refresh_token": first["refreshToken"],
            "client_id": CLIENT_ID,
        }
        assert second["refreshToken"] != first["refreshToken"]
        answer = await client.with_token(second["idToken"]).get("/apis")
        assert answer.code == 200
        again = await stranger.post(PATH, {"refreshToken": first["refreshToken"]})
        assert (again.code, again.json) == (400, {"message": "the issuer refuses: invalid_grant"})


@contextlib.contextmanager
def serving_issuer(issuer: SigningIssuer, tmp_path: Path) -> Iterator[RunningServer]:
    """A started server that accepts the issuer's tokens, and whose console signs in there."""
    with data_folder() as folder:
        config = folder / "authentication.yaml"
        config.write_text(settings_of(issuer, tmp_path)["authentication_config"].read_text())
        flags = ["--authentication-config", str(config), "--console-oidc-client-id", CLIENT_ID, "--access-log"]
        with running_server(folder / "data", *flags, "--allow-egress-to", "127.0.0.0/8") as server:
            yield server


@pytest.mark.slow
@pytest.mark.parametrize("renewable", [True, False], ids=["silent renewal", "signing in again"])
def test_an_expired_token_in_a_browser(
    browser: Browser, issuer: SigningIssuer, tmp_path: Path, renewable: bool
) -> None:
    """With a refresh token the page gets another token by itself; without one it asks, and what was typed is kept."""
    issuer.gives_refresh_tokens = renewable
    expired = issuer.token(aud=CLIENT_ID, exp=1)
    with serving_issuer(issuer, tmp_path) as server, browser.page() as page:
        grant = {
            "metadata": {"name": "ann"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "User", "name": "oidc:ann", "apiGroup": "rbac.authorization.k8s.io"}],
        }
        with http_client(server) as http:
            ok(http.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", json=grant))
        page.open(f"{server.url}/console/#/~/new/core/v1/configmaps")
        sign_in_at = f"Sign in at {issuer.url.removeprefix('https://')}"
        page.click(sign_in_at)
        edit(page, 'name: ""', "name: typed")
        page.wait_text("The server would accept this")
        # As if the time of the token had passed: the page holds one that the server refuses.
        page.evaluate(
            "(() => { const held = JSON.parse(sessionStorage.getItem('registry.session'));"
            f" held.token = {expired!r}; sessionStorage.setItem('registry.session', JSON.stringify(held));"
            " location.reload(); })()"
        )
        if not renewable:
            page.wait_text("Your session has expired.")
            page.click(sign_in_at)
        page.wait_text("ago is restored")
        page.click("Create")
        page.wait_text("Created.")
        assert page.evaluate("document.querySelector('dialog')") is None
        grants = [form["grant_type"] for form in issuer.forms]
        assert grants == ["authorization_code", "refresh_token" if renewable else "authorization_code"]
        held = json.loads(page.evaluate("sessionStorage.getItem('registry.session')"))
        assert held["token"] != expired
        assert (held.get("refreshToken") in issuer.refresh_tokens) is renewable
        assert not renewable or held["refreshToken"] not in server.log
        assert page.problems == []


@pytest.mark.slow
def test_in_a_browser(browser: Browser, issuer: SigningIssuer, tmp_path: Path) -> None:
    """To the issuer, back with a code, and on the page that was left; neither code nor token is in a URL or a log."""
    with serving_issuer(issuer, tmp_path) as server, browser.page() as page:
        page.open(f"{server.url}/console/#/~/kinds")
        page.click(f"Sign in at {issuer.url.removeprefix('https://')}")
        page.wait_text("oidc:ann")
        page.wait_text("Short names")
        assert page.evaluate("location.href") == f"{server.url}/console/#/~/kinds"
        token = json.loads(page.evaluate("sessionStorage.getItem('registry.session')"))["token"]
        assert token not in server.log
        assert issuer.forms[-1]["code"] not in server.log
        assert page.evaluate("sessionStorage.getItem('registry.sign-in')") is None
        # An answer that was not asked for is not taken.
        page.open(f"{server.url}/console/?code=stolen&state=forged")
        page.wait_text("This sign-in was not begun in this tab.")
        assert page.evaluate("location.search") == ""
        assert page.problems == []
