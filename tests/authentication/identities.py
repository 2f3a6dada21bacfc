"""What tests of identities share: who a token is, service accounts and their tokens, JWTs of any kind."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any

from tests.api.client import Answer, Client

SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
SECRETS = "/api/v1/namespaces/default/secrets"


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Waits until it holds, as long as a busy machine may take."""
    async with asyncio.timeout(60):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.02)


async def who(api: Client, token: str = "") -> dict[str, Any]:
    """The user as SelfSubjectReview tells it."""
    client = api.with_token(token) if token else api
    found: dict[str, Any] = (await client.post(SELF, {})).ok(201)["status"]["userInfo"]
    return found


async def is_refused(api: Client, token: str) -> bool:
    """Whether the token is a 401 that says no more than that."""
    answer = await api.with_token(token).post(SELF, {})
    if answer.code != 401:
        return False
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }
    return True


async def account(api: Client, name: str) -> dict[str, Any]:
    made: dict[str, Any] = (await api.post(ACCOUNTS, {"metadata": {"name": name}})).ok(201)
    return made


async def request_token(api: Client, name: str, **spec: Any) -> Answer:
    return await api.post(f"{ACCOUNTS}/{name}/token", {"spec": spec})


async def token_of(api: Client, name: str, **spec: Any) -> str:
    return str((await request_token(api, name, **spec)).ok(201)["status"]["token"])


async def review(api: Client, token: str, *audiences: str) -> dict[str, Any]:
    spec = {"token": token, **({"audiences": list(audiences)} if audiences else {})}
    found: dict[str, Any] = (await api.post(REVIEWS, {"spec": spec})).ok(201)["status"]
    return found


def unsigned(header: Any, claims: Any, signature: str = "") -> str:
    """A JWT of these parts, with whatever stands for its signature."""
    return f"{part(header)}.{part(claims)}.{signature}"


def part(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def parts_of(token: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    header, claims, signature = token.split(".")
    return _decoded(header), _decoded(claims), signature


def _decoded(text: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return value
