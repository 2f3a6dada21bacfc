"""Tokens of every wrong kind: each is a 401 that says nothing, and none is a fault of the server."""

from __future__ import annotations

import base64
import hmac
import json
import logging
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tests.api.client import Client
from tests.application import TOKEN, shares_application
from tests.authentication.identities import account, is_refused, part, parts_of, review, token_of, unsigned, who

pytestmark = shares_application

ISSUER = "https://kubernetes.default.svc.cluster.local"
CLAIMS: dict[str, Any] = {
    "iss": ISSUER,
    "aud": [ISSUER],
    "sub": "system:serviceaccount:default:robot",
    "exp": 4102444800,
    "iat": 1,
    "nbf": 1,
    "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "robot", "uid": "u"}},
}
RS256 = {"alg": "RS256", "kid": "x"}
SECRET = "A" * 43

TOKENS: dict[str, str] = {
    "a word": "wrong",
    "nearly the administrator's": TOKEN[:-1],
    "too much": TOKEN + "x",
    "not ASCII": "é",
    "outside of Latin": "токен",
    "huge": "x" * 60_000,
    "huge parts": f"{'a' * 30_000}.{'b' * 20_000}.c",
    "too long for anybody": "x" * 70_000,
    "dots": "..",
    "many dots": "." * 1000,
    "a nul": "a\x00b",
    "json": "{}",
    "parts that are no base64": "a.b.c",
    "wrong alphabet": "a+/=.b+/=.c",
    "parts that are no json": unsigned(b"x", b"y", "z"),
    "lists": unsigned([], [], "z"),
    "a number": unsigned(1, 2, "z"),
    "no issuer": unsigned(RS256, {}, "z"),
    "issuer is no text": unsigned(RS256, {"iss": [ISSUER]}, "z"),
    "deep": unsigned(b"[" * 9000, b"[" * 9000, "z"),
    "another issuer": unsigned(RS256, {**CLAIMS, "iss": "https://evil.example"}, "z"),
    "nearly our issuer": unsigned(RS256, {**CLAIMS, "iss": f"{ISSUER}/"}, "z"),
    "an invalid tenant": unsigned(RS256, {**CLAIMS, "iss": f"{ISSUER}/clusters/../default"}, "z"),
    "no signature": unsigned(RS256, CLAIMS),
    "an unknown key": unsigned(RS256, CLAIMS, part(b"x" * 256)),
    "no key": unsigned({"alg": "RS256"}, CLAIMS, part(b"x" * 256)),
    "key is no text": unsigned({"alg": "RS256", "kid": {}}, CLAIMS, part(b"x" * 256)),
    "none": unsigned({"alg": "none"}, CLAIMS),
    "None": unsigned({"alg": "None", "kid": "x"}, CLAIMS),
    "algorithm is no text": unsigned({"alg": ["RS256"], "kid": "x"}, CLAIMS, "z"),
    "of our kind": "registry.",
    "of our kind, no secret": "registry.default.abcdefghijklmnop.",
    "of our kind, unknown": f"registry.default.{'a' * 16}.{SECRET}",
    "of our kind, no tenant": f"registry.nobody.{'a' * 16}.{SECRET}",
    "of our kind, hostile tenant": f"registry.../x.{'a' * 16}.{SECRET}",
    "of our kind, long": f"registry.{'a' * 64}.{'a' * 16}.{SECRET}",
    "of our kind, not ASCII": "registry.é.é.é",
}


async def test_malformed_tokens_are_refused(api: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        for name, token in TOKENS.items():
            assert await is_refused(api, token), name
            assert (await api.with_token(token).of_tenant("nobody").get("/api/v1/namespaces")).code == 401, name
    reported = "\n".join(record.getMessage() for record in caplog.records)
    assert "was refused" in reported
    assert SECRET not in reported
    assert not any(token in reported for token in TOKENS.values() if len(token) > 12)
    assert "Traceback" not in caplog.text


async def test_reviews_of_malformed_tokens_succeed(api: Client) -> None:
    for name, token in TOKENS.items():
        found = await review(api, token.replace("\x00", ""))
        assert found["user"] == {}, name
        assert "invalid bearer token" in found["error"], name
        assert "authenticated" not in found


async def test_reviews_of_an_altered_token(api: Client) -> None:
    """In kube-apiserver's words."""
    await account(api, "robot")
    token = await token_of(api, "robot")
    header, claims, _ = parts_of(token)
    kid = {"kid": header["kid"]}
    wrong, signature = part(b"x" * 256), token.rpartition(".")[2]
    forged, unknown = "go-jose/go-jose: error in cryptographic primitive", "invalid signature, no keys found"
    for changed, reported in (
        (unsigned(header, claims, wrong), forged),
        (unsigned(header, claims), forged),
        (unsigned(header, {**claims, "exp": 1}, signature), forged),
        *((unsigned({**kid, "alg": alg}, claims, wrong), forged) for alg in ("none", "HS256", "ES256", "")),
        (unsigned({"alg": "RS256"}, claims, wrong), forged),
        (unsigned(RS256, claims, wrong), unknown),
        # No token of this server, as far as can be seen.
        (unsigned({"alg": "RS256", "kid": 1}, claims, wrong), ""),
        (unsigned({**kid, "alg": 1}, claims, wrong), ""),
        (unsigned(header, claims, "!"), ""),
        (unsigned(header, claims, "a"), ""),
        (f"{token}.x", ""),
    ):
        expected = f"[invalid bearer token, {reported}]" if reported else "invalid bearer token"
        assert await review(api, changed) == {"user": {}, "error": expected}, changed


async def test_an_altered_token_is_refused(api: Client) -> None:
    """Every part of a good token matters, and no other kind of signature is taken for it."""
    await account(api, "robot")
    token = await token_of(api, "robot")
    await who(api, token)
    header, claims, signature = parts_of(token)
    jwk = (await api.get("/openid/v1/jwks")).ok()["keys"][0]
    public = jwt.PyJWK(jwk).key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    rsa_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    ec_key = ec.generate_private_key(ec.SECP256R1())
    other = {"name": "admin", "uid": claims["kubernetes.io"]["serviceaccount"]["uid"]}
    changed = {
        "claims": f"{part(header)}.{part({**claims, 'exp': claims['exp'] + 1})}.{signature}",
        "another account": f"{part(header)}.{part({**claims, 'kubernetes.io': {'serviceaccount': other}})}.{signature}",
        "another tenant": f"{part(header)}.{part({**claims, 'iss': ISSUER + '/clusters/system'})}.{signature}",
        "no signature": token.rpartition(".")[0] + ".",
        "a cut signature": token[:-8],
        "none": unsigned({**header, "alg": "none"}, claims),
        "none, with the signature": unsigned({**header, "alg": "none"}, claims, signature),
        "the public key as a secret": _hs256({**header, "alg": "HS256"}, claims, public),
        "the public key as a secret, named RS256": _hs256(header, claims, public),
        "another RSA key": jwt.encode(claims, rsa_key, "RS256", headers={"kid": header["kid"]}),
        "another RSA key that it brings": jwt.encode(
            claims,
            rsa_key,
            "RS256",
            headers={"kid": header["kid"], "jwk": json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(rsa_key.public_key()))},
        ),
        "an EC key": jwt.encode(claims, ec_key, "ES256", headers={"kid": header["kid"]}),
    }
    for name, text in changed.items():
        assert await is_refused(api, text), name
    await who(api, token)


def _hs256(header: dict[str, Any], claims: dict[str, Any], secret: bytes) -> str:
    signed = f"{part(header)}.{part(claims)}"
    digest = hmac.digest(secret, signed.encode(), "sha256")
    return f"{signed}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


@pytest.mark.parametrize(
    "form, authenticated",
    [("{}\n", True), (" \t{}", False), ("{} x", True), ("x {}", False), (" ", False), ("{}\u00a0", True)],
)
async def test_a_reviewed_token_is_read_as_from_a_header(api: Client, form: str, authenticated: bool) -> None:
    await account(api, "bot")
    status = await review(api, form.format(await token_of(api, "bot")))
    if authenticated:
        assert status["user"]["username"] == "system:serviceaccount:default:bot"
    else:
        assert status == {"user": {}, "error": "invalid bearer token"}


async def test_line_breaks_in_a_reviewed_token_are_ignored(api: Client) -> None:
    """As in Go's base64; other white space is not."""
    await account(api, "bot")
    token = await token_of(api, "bot")
    middle = len(token) // 2
    for broken in (
        token[:middle] + "\n" + token[middle:],
        "\n" + token.replace(".", "\r\n."),
        token[:-9] + "\n" + token[-9:],
    ):
        assert (await review(api, broken))["user"]["username"] == "system:serviceaccount:default:bot"
    for blank in (" ", "\t"):
        status = await review(api, token[:middle] + blank + token[middle:])
        assert status == {"user": {}, "error": "invalid bearer token"}
