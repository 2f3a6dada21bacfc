"""An outside issuer: a real HTTPS server with a discovery document and keys, which signs tokens."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import uvicorn
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from starlette.types import Receive, Scope, Send

from registry.http.serving.tls import ensure_certificates

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
    """`documents` are what it serves, by path; they may be changed while it runs."""

    def __init__(self, port: int, ca: str) -> None:
        self.url = f"https://127.0.0.1:{port}"
        self.ca = ca
        self.calls: list[str] = []
        self.documents: dict[str, bytes] = {}
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
        found = self.documents.get(scope["path"])
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 404 if found is None else 200, "headers": headers})
        await send({"type": "http.response.body", "body": found or b""})


@contextlib.contextmanager
def served_issuer(folder: Path) -> Iterator[Issuer]:
    """An issuer on a port of its own, with a certificate of its own CA."""
    folder.mkdir()
    certificates = ensure_certificates(folder, "127.0.0.1")
    assert certificates.authority is not None
    with socket.create_server(("127.0.0.1", 0)) as listener:
        issuer = Issuer(listener.getsockname()[1], certificates.authority.read_text())
        server = uvicorn.Server(
            uvicorn.Config(
                issuer,
                lifespan="off",
                log_config=None,
                timeout_keep_alive=600,
                ssl_certfile=str(certificates.certificate),
                ssl_keyfile=str(certificates.key),
            )
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        deadline = time.monotonic() + 60
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        try:
            yield issuer
        finally:
            server.should_exit = True
            thread.join(60)
