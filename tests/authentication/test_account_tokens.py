"""Tokens of service accounts: asked for, used, bound, and over with their account."""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

import jwt
import pytest

from registry.authentication.authenticator import Rejected
from registry.authentication.tokens.keys import LIFETIME, SigningKeys, new_key
from registry.authentication.tokens.service_accounts import AccountReference, AccountTokens
from registry.store.store import Store
from registry.store.types import TenantName
from tests.api.client import Client
from tests.api.errors import failure
from tests.api.widgets import NAMESPACES
from tests.application import shares_application
from tests.authentication.identities import (
    ACCOUNTS,
    SECRETS,
    account,
    eventually,
    is_refused,
    parts_of,
    request_token,
    review,
    token_of,
    who,
)

ISSUER = "https://kubernetes.default.svc.cluster.local"


async def test_the_user_of_a_token(api: Client) -> None:
    made = await account(api, "robot")
    token = await token_of(api, "robot")
    header, claims, _ = parts_of(token)
    assert header.keys() == {"alg", "kid"}
    assert header["alg"] == "RS256"
    assert claims["iss"] == ISSUER
    assert claims["aud"] == [ISSUER]
    assert claims["exp"] - claims["iat"] == 3600
    assert claims["kubernetes.io"] == {
        "namespace": "default",
        "serviceaccount": {"name": "robot", "uid": made["metadata"]["uid"]},
    }
    assert await who(api, token) == {
        "username": "system:serviceaccount:default:robot",
        "uid": made["metadata"]["uid"],
        "groups": ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
        "extra": {"authentication.kubernetes.io/credential-id": [f"JTI={claims['jti']}"]},
    }


@shares_application
async def test_the_answer_is_the_request_with_the_token(api: Client) -> None:
    uid = (await account(api, "robot"))["metadata"]["uid"]
    answer = (await request_token(api, "robot", audiences=["a", "b"], expirationSeconds=600)).ok(201)
    assert answer["metadata"]["uid"] == uid
    assert answer["kind"] == "TokenRequest"
    assert answer["apiVersion"] == "authentication.k8s.io/v1"
    assert answer["spec"] == {"audiences": ["a", "b"], "expirationSeconds": 600, "boundObjectRef": None}
    assert answer["metadata"]["name"] == "robot"
    assert answer["metadata"]["namespace"] == "default"
    created = datetime.datetime.fromisoformat(answer["metadata"]["creationTimestamp"])
    ends = datetime.datetime.fromisoformat(answer["status"]["expirationTimestamp"])
    assert ends - created == datetime.timedelta(seconds=600)


REFUSED: dict[str, tuple[Any, int, str]] = {
    "too short": (
        {"spec": {"expirationSeconds": 599}},
        422,
        'TokenRequest.authentication.k8s.io "" is invalid: '
        "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
    ),
    "negative": (
        {"spec": {"expirationSeconds": -1}},
        422,
        'TokenRequest.authentication.k8s.io "" is invalid: '
        "spec.expirationSeconds: Invalid value: -1: may not specify a duration less than 10 minutes",
    ),
    "too long": (
        {"spec": {"expirationSeconds": (1 << 32) + 1}},
        422,
        'TokenRequest.authentication.k8s.io "" is '
        "invalid: spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than "
        "2^32 seconds",
    ),
    "another name": (
        {"metadata": {"name": "x"}},
        422,
        'TokenRequest.authentication.k8s.io "robot" is invalid: '
        'metadata.name: Invalid value: "x": must match the service account name if specified',
    ),
    "another namespace": (
        {"metadata": {"namespace": "x"}},
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
    "a pod": (
        {"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}}},
        404,
        'pods "p" not found',
    ),
    "a node": (
        {"spec": {"boundObjectRef": {"kind": "Node", "apiVersion": "v1", "name": "p"}}},
        404,
        'nodes "p" not found',
    ),
    "no secret": (
        {"spec": {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "p"}}},
        404,
        'secrets "p" not found',
    ),
    "another account of this name": (
        {"metadata": {"uid": "u"}},
        409,
        'Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "robot": '
        "the UID in the token request (u) does not match the UID of the service account (UID)",
    ),
    "bound to nothing": ({"spec": {"boundObjectRef": {}}}, 400, "cannot bind token to object of type /, Kind="),
    "a secret without a name": (
        {"spec": {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1"}}},
        400,
        "Name parameter required.",
    ),
    "a secret of no name": (
        {"spec": {"boundObjectRef": {"kind": "Secret", "name": "a/b"}}},
        400,
        "Name parameter invalid: \"a/b\": may not contain '/'",
    ),
    "a pod of no version": (
        {"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "a/b/c", "name": "p"}}},
        404,
        'pods "p" not found',
    ),
    "a config map": (
        {"spec": {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "p"}}},
        400,
        "cannot bind token to object of type /v1, Kind=ConfigMap",
    ),
    "a deployment": (
        {"spec": {"boundObjectRef": {"kind": "Deployment", "apiVersion": "apps/v1", "name": "p"}}},
        400,
        "cannot bind token to object of type apps/v1, Kind=Deployment",
    ),
    "another secret": (
        {"spec": {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "s", "uid": "u"}}},
        409,
        'Operation cannot be fulfilled on Secret "s": the UID in the bound object reference (u) '
        "does not match the UID in record. The object might have been deleted and then recreated",
    ),
}


@shares_application
async def test_what_is_refused(api: Client) -> None:
    uid = (await account(api, "robot"))["metadata"]["uid"]
    (await api.post(SECRETS, {"metadata": {"name": "s"}})).ok()
    reasons = {400: "BadRequest", 404: "NotFound", 409: "Conflict", 422: "Invalid"}
    for name, (body, code, message) in REFUSED.items():
        status = failure(await api.post(f"{ACCOUNTS}/robot/token", body), code, reasons[code])
        assert status["message"].replace(uid, "UID") == message, name


@shares_application
async def test_a_token_requires_its_account(api: Client) -> None:
    failure(await request_token(api, "nobody"), 404, "NotFound")
    for method in ("GET", "PUT", "DELETE"):
        failure(await api.request(method, f"{ACCOUNTS}/default/token"), 405, "MethodNotAllowed")


@shares_application
async def test_a_token_requires_an_active_namespace(api: Client) -> None:
    missing = failure(await api.post(f"{NAMESPACES}/nix/serviceaccounts/default/token", {}), 404, "NotFound")
    assert missing["message"] == 'namespaces "nix" not found'
    (await api.post(NAMESPACES, {"metadata": {"name": "ends", "finalizers": ["example.com/hold"]}})).ok()
    (await api.post(f"{NAMESPACES}/ends/serviceaccounts", {"metadata": {"name": "robot"}})).ok()
    (await api.delete(f"{NAMESPACES}/ends")).ok()
    refused = failure(await api.post(f"{NAMESPACES}/ends/serviceaccounts/robot/token", {}), 403, "Forbidden")
    assert refused["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    assert refused["message"].startswith('serviceaccounts "robot" is forbidden: unable to create new content')


@shares_application
async def test_another_audience(api: Client) -> None:
    await account(api, "robot")
    token = await token_of(api, "robot", audiences=["vault"])
    assert await is_refused(api, token)
    found = await review(api, token, "vault", "other")
    assert found["authenticated"] is True
    assert found["audiences"] == ["vault"]
    assert (await review(api, token, "b"))["error"] == (
        '[invalid bearer token, token audiences ["vault"] is invalid for the target audiences ["b"]]'
    )


@shares_application
async def test_tokens_of_a_deleted_account_are_refused_at_once(api: Client) -> None:
    await account(api, "robot")
    token = await token_of(api, "robot")
    await who(api, token)
    (await api.delete(f"{ACCOUNTS}/robot")).ok()
    assert await is_refused(api, token)
    assert (await review(api, token))["error"] == '[invalid bearer token, serviceaccounts "robot" not found]'
    again = await account(api, "robot")
    assert await is_refused(api, token), "another account of the same name"
    assert again["metadata"]["uid"] in (await review(api, token))["error"]


@shares_application
async def test_a_token_bound_to_a_secret_ends_with_it(api: Client) -> None:
    await account(api, "robot")
    secret = (await api.post(SECRETS, {"metadata": {"name": "s"}})).ok(201)
    bound = {"kind": "Secret", "apiVersion": "v1", "name": "s", "uid": secret["metadata"]["uid"]}
    token = await token_of(api, "robot", boundObjectRef=bound)
    assert parts_of(token)[1]["kubernetes.io"]["secret"] == {"name": "s", "uid": secret["metadata"]["uid"]}
    await who(api, token)
    (await api.delete(f"{SECRETS}/s")).ok()
    assert await is_refused(api, token)
    (await api.post(SECRETS, {"metadata": {"name": "s"}})).ok()
    assert await is_refused(api, token)


async def test_each_tenant_has_its_issuer(api: Client) -> None:
    """A token of one tenant is nobody in another, though accounts, names and uids could be the same."""
    app = api.of_tenant("system")
    metadata = (await app.get("/.well-known/openid-configuration")).ok(200)
    assert metadata["issuer"] == f"{ISSUER}/clusters/system"
    assert metadata["jwks_uri"] == "https://127.0.0.1:443/clusters/system/openid/v1/jwks"
    (await app.post("/api/v1/namespaces", {"metadata": {"name": "n"}})).ok(201)
    accounts = "/api/v1/namespaces/n/serviceaccounts"
    (await app.post(accounts, {"metadata": {"name": "robot"}})).ok(201)
    token = (await app.post(f"{accounts}/robot/token", {})).ok(201)["status"]["token"]
    assert parts_of(token)[1]["iss"] == f"{ISSUER}/clusters/system"
    assert (await who(api, token))["username"] == "system:serviceaccount:n:robot", "a bare path is its own tenant"
    assert (await api.with_token(token).of_tenant("default").get("/api/v1/namespaces/default")).code == 403
    assert (await review(api, token))["error"].startswith("[invalid bearer token")
    assert "authenticated" not in await review(api, token, f"{ISSUER}/clusters/system")


async def test_others_verify_by_the_published_keys(api: Client) -> None:
    await account(api, "robot")
    token = await token_of(api, "robot", audiences=["vault"])
    metadata = await api.get("/.well-known/openid-configuration")
    assert metadata.ok(200) == {
        "issuer": ISSUER,
        "jwks_uri": "https://127.0.0.1:443/openid/v1/jwks",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
    }
    answer = await api.get("/openid/v1/jwks")
    assert answer.header("content-type") == "application/jwk-set+json"
    assert answer.header("cache-control") == "public, max-age=3600"
    keys = jwt.PyJWKSet.from_dict(answer.ok(200))
    assert "d" not in answer.json["keys"][0]
    key = keys[parts_of(token)[0]["kid"]]
    assert jwt.decode(token, key.key, algorithms=["RS256"], audience="vault", issuer=ISSUER)["sub"] == (
        "system:serviceaccount:default:robot"
    )


async def test_a_new_key_keeps_old_tokens_valid(api: Client, api_database: str) -> None:
    await account(api, "robot")
    old = await token_of(api, "robot")
    store = await Store.open(api_database, housekeeping=False)
    try:
        id = await SigningKeys(store).rotate()
    finally:
        await store.close()
    await who(api, old)
    # This process still signs with the old key: it reads the keys again with the first token of the new one.
    other = await Store.open(api_database, housekeeping=False)
    try:
        tokens = AccountTokens(other, SigningKeys(other), ISSUER)
        tenant = await other.tenant(TenantName("default"))
        uid = (await api.get(f"{ACCOUNTS}/robot")).ok()["metadata"]["uid"]
        new = await tokens.issue(
            tenant,
            AccountReference("default", "robot", uid),
            audiences=[ISSUER],
            now=datetime.datetime.now(datetime.UTC),
            seconds=600,
        )
    finally:
        await other.close()
    assert parts_of(new)[0]["kid"] == id
    assert id != parts_of(old)[0]["kid"]

    async def is_taken() -> bool:
        return not await is_refused(api, new)

    await eventually(is_taken)
    assert {key["kid"] for key in (await api.get("/openid/v1/jwks")).ok()["keys"]} >= {id, parts_of(old)[0]["kid"]}


async def test_the_next_key_is_known_before_it_signs(api_database: str) -> None:
    store = await Store.open(api_database, housekeeping=False)
    try:
        keys = SigningKeys(store, datetime.timedelta(hours=1))
        now = datetime.datetime.now(datetime.UTC)
        signing = await keys.signer(now)
        published = await keys.all()
        assert len(published) == 2
        assert [k.stored.signs_from for k in published if k.id != signing.id] == [signing.stored.signs_until]
        assert [k.id for k in await SigningKeys(store, datetime.timedelta(hours=1)).all()] == [k.id for k in published]
    finally:
        await store.close()


async def test_a_key_is_kept_for_its_longest_token(api_database: str) -> None:
    store = await Store.open(api_database, housekeeping=False)
    try:
        keys = SigningKeys(store)
        until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=5000)
        key = await keys.signer(until)
        assert key.stored.verifies_until >= until
        assert [k.verifies_until >= until for k in await store.keys.list() if k.id == key.id] == [True]
    finally:
        await store.close()


async def test_two_processes_create_one_key(database_url: str) -> None:
    store = await Store.open(database_url, housekeeping=False)
    try:
        now = datetime.datetime.now(datetime.UTC)
        ids = {k.id for k in await asyncio.gather(*(SigningKeys(store).signer(now) for _ in range(3)))}
        assert len(ids) == 1
        assert len(await store.keys.list()) == 1
    finally:
        await store.close()


async def test_the_requests_of_a_process_create_one_key(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def count(*arguments: Any) -> Any:
        made.append(arguments)
        return new_key(*arguments)

    monkeypatch.setattr("registry.authentication.tokens.keys.new_key", count)
    store = await Store.open(database_url, housekeeping=False)
    try:
        now = datetime.datetime.now(datetime.UTC)
        keys = SigningKeys(store)
        assert len({key.id for key in await asyncio.gather(*(keys.signer(now) for _ in range(32)))}) == 1
        assert len(made) == 1
    finally:
        await store.close()


async def test_times_of_a_token(api: Client, api_database: str) -> None:
    """Signed by the right key, but past its end or not begun yet."""
    uid = (await account(api, "robot"))["metadata"]["uid"]
    store = await Store.open(api_database, housekeeping=False)
    try:
        tokens = AccountTokens(store, SigningKeys(store), ISSUER)
        tenant = await store.tenant(TenantName("default"))
        now = datetime.datetime.now(datetime.UTC)
        hour = datetime.timedelta(hours=1)
        for begins, seconds, fault in (
            (now - 2 * hour, 3600, "has expired"),
            (now + hour, 3600, "not valid yet"),
            (now - hour, 3600 + 600, ""),
        ):
            token = await tokens.issue(
                tenant, AccountReference("default", "robot", uid), audiences=[ISSUER], now=begins, seconds=seconds
            )
            if fault:
                with pytest.raises(Rejected, match=fault):
                    await tokens.identify(token)
                assert await is_refused(api, token)
            else:
                assert await tokens.identify(token) is not None
    finally:
        await store.close()


def test_a_new_key_has_an_id_and_its_lifetimes() -> None:
    key = new_key(datetime.datetime.now(datetime.UTC), LIFETIME)
    assert len(key.id) == 43
    assert key.signs_until - key.signs_from == LIFETIME
    assert key.verifies_until > key.signs_until
