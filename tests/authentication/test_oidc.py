"""Tokens of outside issuers, verified by the keys of a real HTTPS server."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import ec

from registry.authentication.authenticator import Anonymous, Rejected
from registry.authentication.oidc import provider as module
from registry.authentication.oidc.external_issuers import ExternalIssuerTokens
from registry.authentication.user import User
from registry.webhooks.egress import EgressPolicy
from tests.api.client import eventually
from tests.application import serving
from tests.authentication.identities import is_refused, review, unsigned, who
from tests.authentication.issuer import Issuer, public_jwk, rsa_key
from tests.https import serving_https

OWN = "https://registry.example"
LOCAL = EgressPolicy(["127.0.0.0/8"])


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[Issuer]:
    with serving_https(Issuer, tmp_path / "issuer") as issuer:
        yield issuer


def configuration(issuer: Issuer, **more: Any) -> dict[str, Any]:
    """Of one issuer; `more` are members beside or instead of its usual ones."""
    entry: dict[str, Any] = {
        "issuer": {"url": issuer.url, "certificateAuthority": issuer.ca, "audiences": ["registry"]},
        "claimMappings": {
            "username": {"claim": "sub", "prefix": "oidc:"},
            "groups": {"claim": "groups", "prefix": "oidc:"},
        },
    }
    return {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "jwt": [{**entry, **more}],
    }


def outside(folder: Path, document: dict[str, Any], policy: EgressPolicy = LOCAL) -> ExternalIssuerTokens:
    path = folder / "authentication.yaml"
    path.write_text(yaml.safe_dump(document))
    return ExternalIssuerTokens(path, OWN, policy)


async def user_of(tokens: ExternalIssuerTokens, token: str) -> User:
    found = await tokens.identify(token)
    assert found is not None
    return found.user


async def test_a_token_is_a_user(issuer: Issuer, tmp_path: Path) -> None:
    tokens = outside(tmp_path, configuration(issuer))
    user = await user_of(tokens, issuer.token(groups=["dev", "ops"], jti="7"))
    assert user == User(
        "oidc:ann",
        ("oidc:dev", "oidc:ops", "system:authenticated"),
        "",
        {"authentication.kubernetes.io/credential-id": ("JTI=7",)},
        "default",
    )
    assert (await user_of(tokens, issuer.token(groups="dev"))).groups == ("oidc:dev", "system:authenticated")
    assert issuer.calls == ["/.well-known/openid-configuration", "/keys"], "once for all tokens"


async def test_expressions(issuer: Issuer, tmp_path: Path) -> None:
    tokens = outside(
        tmp_path,
        configuration(
            issuer,
            claimMappings={
                "username": {"expression": "claims.email.split('@')[0] + ':' + string(claims.email_verified)"},
                "groups": {
                    "expression": "claims.roles.map(r, 'role:' + r) + (claims.?admin.orValue(false) ? "
                    "['system:masters'] : [])"
                },
                "uid": {"expression": "string(claims.number)"},
                "extra": [
                    {"key": "example.org/teams", "valueExpression": "claims.teams"},
                    {"key": "example.org/none", "valueExpression": "''"},
                    {"key": "tenancy.registry/tenant", "valueExpression": "claims.org"},
                ],
            },
            claimValidationRules=[
                {"expression": "claims.exp - claims.iat <= 3600", "message": "too long"},
                {"claim": "kind", "requiredValue": "person"},
            ],
            userValidationRules=[
                {"expression": "!user.username.startsWith('system:')", "message": "reserved"},
                {"expression": "user.groups.all(g, g != 'role:banned')", "message": "banned"},
                {"expression": "'example.org/teams' in user.extra", "message": "no teams"},
            ],
        ),
    )
    claims: dict[str, Any] = {
        "email": "ann@example.org",
        "email_verified": True,
        "roles": ["a", "b"],
        "number": 7,
        "teams": ["x", "", "y"],
        "org": "acme",
        "kind": "person",
    }
    assert await user_of(tokens, issuer.token(**claims)) == User(
        "ann:true", ("role:a", "role:b", "system:authenticated"), "7", {"example.org/teams": ("x", "y")}, "acme"
    )
    assert "system:masters" in (await user_of(tokens, issuer.token(**claims, admin=True))).groups
    refused: dict[str, dict[str, Any]] = {
        "too long": {"exp": int(time.time()) + 7200},
        "banned": {"roles": ["banned"]},
        "no teams": {"teams": []},
        "reserved": {"email": "system:x@y"},
        "required claim kind": {"kind": "robot"},
        "not present": {"kind": None},
        "no such key": {"email": None},
        "resulted in error": {"roles": 1},
        "list of strings": {"teams": [1]},
        "home tenant": {"org": "../x"},
        "the claims name no home": {"org": ["a", "b"]},
        "name no home tenant": {"org": ""},
        "nested too deeply": {"deep": nested(40)},
    }
    for fault, changed in refused.items():
        with pytest.raises(Rejected, match=fault):
            await tokens.identify(issuer.token(**{**claims, **changed}))


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


async def test_invalid_tokens(issuer: Issuer, tmp_path: Path) -> None:
    tokens = outside(tmp_path, configuration(issuer))
    now = int(time.time())
    wrong = {
        "past its end": issuer.token(exp=now - 1),
        "no end": issuer.token(exp=None),
        "not begun": issuer.token(nbf=now + 3600),
        "another audience": issuer.token(aud="other"),
        "no audience": issuer.token(aud=None),
        "audiences": issuer.token(aud=["a", 7]),
        "another key": issuer.token(rsa_key(1)),
        "unknown key": issuer.token(rsa_key(1), "k9"),
        "another kind of key": issuer.token(ec.generate_private_key(ec.SECP256R1()), algorithm="ES256"),
        "no user": issuer.token(sub=None),
        "user is empty": issuer.token(sub=""),
        "groups": issuer.token(groups={}),
        "crit": unsigned({"alg": "RS256", "kid": "k1", "crit": ["x"]}, {"iss": issuer.url}, "z"),
        "none": unsigned({"alg": "none", "kid": "k1"}, {"iss": issuer.url, "aud": "registry", "sub": "ann"}),
        "a secret": issuer.token("s" * 64, algorithm="HS256"),  # type: ignore[arg-type]
    }
    for name, token in wrong.items():
        with pytest.raises(Rejected):
            pytest.fail(f"{name}: {await tokens.identify(token)}")
    assert await tokens.identify(issuer.token(iss="https://evil.example")) is None
    assert await tokens.identify("no token") is None
    good = issuer.token()
    with pytest.raises(Rejected):
        await tokens.identify(good[:-8])
    header, _, signature = good.split(".")
    with pytest.raises(Rejected):
        await tokens.identify(f"{header}.{issuer.token(sub='admin').split('.')[1]}.{signature}")


async def test_an_unverified_email_address_is_refused(issuer: Issuer, tmp_path: Path) -> None:
    mapping = {"username": {"claim": "email", "prefix": ""}}
    tokens = outside(tmp_path, configuration(issuer, claimMappings=mapping))
    assert (await user_of(tokens, issuer.token(email="a@b"))).name == "a@b"
    assert (await user_of(tokens, issuer.token(email="a@b", email_verified=True))).name == "a@b"
    for claim in (False, "true", 1):
        with pytest.raises(Rejected, match="not verified"):
            await tokens.identify(issuer.token(email="a@b", email_verified=claim))


async def test_reserved_user_names_are_refused(issuer: Issuer, tmp_path: Path) -> None:
    tokens = outside(
        tmp_path,
        configuration(
            issuer,
            claimMappings={"username": {"claim": "sub", "prefix": ""}, "groups": {"claim": "groups", "prefix": ""}},
        ),
    )
    for claims in ({"sub": "system:tenant:acme:ann"}, {"groups": ["system:tenant:acme"]}):
        with pytest.raises(Rejected, match="reserved"):
            await tokens.identify(issuer.token(**claims))


@pytest.mark.parametrize(
    "claims",
    [{"sub": "a\0b"}, {"sub": "\ud800"}, {"groups": ["a", "b\0"]}, {"groups": ["\udc00"]}, {"jti": "\ud800"}],
    ids=["zero", "half a pair", "zero in a group", "half a pair in a group", "the token's id"],
)
async def test_names_that_cannot_be_stored_are_refused(issuer: Issuer, tmp_path: Path, claims: dict[str, Any]) -> None:
    """Each write of such a user was a 500, and one audit event of theirs ended the audit log."""
    with pytest.raises(Rejected, match="cannot be stored"):
        await outside(tmp_path, configuration(issuer)).identify(issuer.token(**claims))


async def test_a_token_may_end_at_any_time(issuer: Issuer, tmp_path: Path) -> None:
    assert (await user_of(outside(tmp_path, configuration(issuer)), issuer.token(exp=10**400))).name == "oidc:ann"


async def test_keys_are_reloaded(issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.0)
    tokens = outside(tmp_path, configuration(issuer))
    old = issuer.token()
    await user_of(tokens, old)
    issuer.publish(public_jwk(rsa_key(1), "k2"))
    assert (await user_of(tokens, issuer.token(rsa_key(1), "k2"))).name == "oidc:ann"
    with pytest.raises(Rejected):
        await tokens.identify(old)


async def test_kinds_of_keys(issuer: Issuer, tmp_path: Path) -> None:
    """What cannot verify is passed over; a key signs in its own way only."""
    elliptic = ec.generate_private_key(ec.SECP256R1())
    issuer.publish(
        {"kty": "oct", "k": "c2VjcmV0", "kid": "secret", "alg": "HS256"},
        {"kty": "RSA"},
        {"kid": 7},
        public_jwk(rsa_key(), "enc", use="enc"),
        public_jwk(rsa_key(), "ps", alg="PS256"),
        public_jwk(elliptic, "ec"),
        public_jwk(rsa_key(), "k1"),
    )
    tokens = outside(tmp_path, configuration(issuer))
    for key, id, algorithm in (
        (elliptic, "ec", "ES256"),
        (rsa_key(), "ps", "PS256"),
        (rsa_key(), "k1", "RS512"),
        (rsa_key(), None, "RS256"),
        (elliptic, None, "ES256"),
    ):
        assert (await user_of(tokens, issuer.token(key, id, algorithm))).name == "oidc:ann"
    for id, algorithm in (("enc", "RS256"), ("ps", "RS256")):
        with pytest.raises(Rejected):
            await tokens.identify(issuer.token(rsa_key(), id, algorithm))
    with pytest.raises(Rejected):
        await tokens.identify(issuer.token("secret" * 10, "secret", "HS256"))  # type: ignore[arg-type]


async def test_an_unknown_key_does_not_flood_the_issuer(issuer: Issuer, tmp_path: Path) -> None:
    tokens = outside(tmp_path, configuration(issuer))
    await user_of(tokens, issuer.token())
    for number in range(20):
        with pytest.raises(Rejected):
            await tokens.identify(issuer.token(rsa_key(1), f"x{number}"))
    assert len(issuer.calls) == 2


async def test_a_client_that_leaves_does_not_end_the_fetch(issuer: Issuer, tmp_path: Path) -> None:
    """Else one without a credential could keep the keys from ever being fetched, by ?timeout=1ms every ten seconds."""
    tokens = outside(tmp_path, configuration(issuer))
    issuer.answers.clear()
    leaving = asyncio.create_task(tokens.identify(issuer.token(rsa_key(1), "x")))
    await eventually(lambda: _is_called(issuer))
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    issuer.answers.set()
    assert (await user_of(tokens, issuer.token())).name == "oidc:ann"
    assert len(issuer.calls) == 2


async def test_tokens_that_wait_for_a_slow_issuer_share_a_fetch(
    issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RETRY_SECONDS", "_TIMEOUT_SECONDS"):
        monkeypatch.setattr(module, name, 0.3)
    tokens = outside(tmp_path, configuration(issuer))
    issuer.answers.clear()
    found = await asyncio.gather(
        *(tokens.identify(issuer.token(sub=f"s{i}")) for i in range(5)), return_exceptions=True
    )
    assert all(isinstance(one, Exception) for one in found)
    assert len(issuer.calls) <= 1
    issuer.answers.set()


async def test_a_known_key_does_not_wait_for_a_slow_issuer(
    issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = outside(tmp_path, configuration(issuer))
    await user_of(tokens, issuer.token())
    for name, value in (("RETRY_SECONDS", 0.0), ("FRESH_SECONDS", 0.0), ("_PATIENCE_SECONDS", 0.01)):
        monkeypatch.setattr(module, name, value)
    issuer.answers.clear()
    assert (await user_of(tokens, issuer.token(sub="bob"))).name == "oidc:bob"
    await eventually(lambda: _is_called(issuer, 3))
    issuer.answers.set()


async def _is_called(issuer: Issuer, times: int = 1) -> bool:
    return len(issuer.calls) >= times


UNUSABLE: dict[str, dict[str, Any]] = {
    "another issuer's document": {"/.well-known/openid-configuration": {"issuer": "https://evil.example"}},
    "no keys named": {"/.well-known/openid-configuration": None},
    "plain http": {"/.well-known/openid-configuration": "http"},
    "no set of keys": {"/keys": {}},
    "a list": {"/keys": []},
    "too long": {"/keys": {"keys": ["x" * (1 << 20)]}},
    "too many values": {"/keys": {"keys": [[]] * 20_000}},
    "keys inside": {"/.well-known/openid-configuration": "inside"},
}


@pytest.mark.parametrize("documents", UNUSABLE.values(), ids=UNUSABLE)
async def test_an_issuer_that_cannot_be_used(issuer: Issuer, tmp_path: Path, documents: dict[str, Any]) -> None:
    tokens = outside(tmp_path, configuration(issuer))
    for path, value in documents.items():
        if value == "http":
            value = {"issuer": issuer.url, "jwks_uri": issuer.url.replace("https", "http") + "/keys"}
        elif value == "inside":
            value = {"issuer": issuer.url, "jwks_uri": "https://10.0.0.1/keys"}
        issuer.document(path, value if value is not None else {"issuer": issuer.url})
    with pytest.raises(Rejected, match="not initialized"):
        await tokens.identify(issuer.token())


@pytest.mark.parametrize(
    "bits, exponent, taken",
    [
        (2048, 65537, True),
        (8192, 65537, True),
        (8224, 65537, False),
        (1_200_000, 65537, False),
        (2048, (1 << 31) - 1, True),
        (2048, (1 << 31) + 1, False),
        (2048, (1 << 2046) + 1, False),
    ],
)
def test_keys_are_bounded(bits: int, exponent: int, taken: bool) -> None:
    """OpenSSL multiplies numbers of any length when it makes a key, and those of a key for each token that it verifies: 16
    keys of 16,384 bits with exponents of 64 took a tenth of a second."""
    modulus, power = (
        base64.urlsafe_b64encode(data).decode().rstrip("=")
        for data in (b"\xff" * (bits // 8), exponent.to_bytes(256).lstrip(b"\0"))
    )
    found = module._keys({"keys": [{"kty": "RSA", "kid": "k1", "e": power, "n": modulus}]})
    assert [key.id for key in found] == (["k1"] if taken else [])


async def test_an_issuer_must_be_allowed_and_trusted(issuer: Issuer, tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="not initialized"):
        await outside(tmp_path, configuration(issuer), EgressPolicy()).identify(issuer.token())
    assert issuer.calls == [], "an address that is not allowed is not connected to"
    untrusted = configuration(issuer)
    del untrusted["jwt"][0]["issuer"]["certificateAuthority"]
    with pytest.raises(Rejected, match="not initialized"):
        await outside(tmp_path, untrusted).identify(issuer.token())
    assert issuer.calls == []


async def test_a_discovery_address_of_its_own(issuer: Issuer, tmp_path: Path) -> None:
    document = configuration(issuer)
    document["jwt"][0]["issuer"] |= {"url": "https://name.example", "discoveryURL": f"{issuer.url}/elsewhere"}
    issuer.document("/elsewhere", {"issuer": "https://name.example", "jwks_uri": f"{issuer.url}/keys"})
    tokens = outside(tmp_path, document)
    assert (await user_of(tokens, issuer.token(iss="https://name.example"))).name == "oidc:ann"
    assert await tokens.identify(issuer.token()) is None


async def test_a_changed_file_is_reloaded(issuer: Issuer, tmp_path: Path) -> None:
    path = tmp_path / "authentication.yaml"
    path.write_text(yaml.safe_dump(configuration(issuer)))
    tokens = ExternalIssuerTokens(path, OWN, LOCAL)
    assert (await user_of(tokens, issuer.token())).name == "oidc:ann"
    path.write_text("nothing: right")
    await tokens.reload()
    assert tokens.anonymous is None
    assert (await user_of(tokens, issuer.token())).name == "oidc:ann", "what cannot be used changes nothing"
    changed = configuration(issuer, claimMappings={"username": {"claim": "sub", "prefix": "new:"}})
    path.write_text(yaml.safe_dump({**changed, "anonymous": {"enabled": False}}))
    await tokens.reload()
    assert (await user_of(tokens, issuer.token())).name == "new:ann"
    assert tokens.anonymous == Anonymous(False)


async def test_through_the_server(issuer: Issuer, api_database: str, tmp_path: Path) -> None:
    """The worked example of docs/authentication.md."""
    document = {**configuration(issuer), "anonymous": {"enabled": True, "conditions": [{"path": "/livez"}]}}
    (tmp_path / "authentication.yaml").write_text(yaml.safe_dump(document))
    async with serving(
        api_database, tmp_path, allow_egress_to=("127.0.0.0/8",), authentication_config=tmp_path / "authentication.yaml"
    ) as api:
        token = issuer.token(groups=["dev"])
        assert (await who(api, token))["username"] == "oidc:ann"
        assert (await review(api, token))["user"]["groups"] == ["oidc:dev", "system:authenticated"]
        assert (await api.with_token(token).get("/api/v1/namespaces")).code == 403
        assert await is_refused(api, issuer.token(exp=1))
        assert "oidc: verify token" in (await review(api, issuer.token(exp=1)))["error"]
        strangers = api.with_token("")
        assert (await strangers.get("/livez")).code == 200
        assert (await strangers.get("/version")).code == 401
