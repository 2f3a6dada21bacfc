"""An outside issuer: a real HTTPS server with a discovery document and keys, which signs tokens."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from starlette.types import Receive, Scope, Send

from tests.https import Endpoint

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
_MADE: list[rsa.RSAPrivateKey] = []


def rsa_key(number: int = 0) -> rsa.RSAPrivateKey:
    """The same key for the same number: making one takes a tenth of a second."""
    while len(_MADE) <= number:
        _MADE.append(rsa.generate_private_key(public_exponent=65537, key_size=2048))
    return _MADE[number]


def public_jwk(key: PrivateKey, id: str, **more: Any) -> dict[str, Any]:
    algorithm = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    return {**json.loads(algorithm.to_jwk(key.public_key())), "kid": id, "use": "sig", **more}  # type: ignore[arg-type]


class Issuer:
    """`documents` are what it serves, by path; they may be changed while it runs. It answers while `answers` is set."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.url = endpoint.url
        self.ca = endpoint.authority
        self.calls: list[str] = []
        self.documents: dict[str, bytes] = {}
        self.answers = threading.Event()
        self.answers.set()
        self.publish(public_jwk(rsa_key(), "k1"))
        self.document("/.well-known/openid-configuration", {"issuer": self.url, "jwks_uri": f"{self.url}/keys"})

    def document(self, path: str, value: Any) -> None:
        self.documents[path] = json.dumps(value).encode()

    def publish(self, *keys: dict[str, Any]) -> None:
        self.document("/keys", {"keys": list(keys)})

    def token(
        self, key: PrivateKey | None = None, id: str | None = "k1", algorithm: str = "RS256", **claims: Any
    ) -> str:
        """A token that is good unless the arguments say otherwise; a claim of None is left out."""
        now = int(time.time())
        all_claims = {"iss": self.url, "aud": "registry", "sub": "ann", "exp": now + 600, "iat": now, **claims}
        headers = {"kid": id} if id is not None else {}
        return jwt.encode(
            {k: v for k, v in all_claims.items() if v is not None}, key or rsa_key(), algorithm, headers=headers
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.calls.append(scope["path"])
        await asyncio.to_thread(self.answers.wait, 60)
        found = self.documents.get(scope["path"])
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 404 if found is None else 200, "headers": headers})
        await send({"type": "http.response.body", "body": found or b""})
