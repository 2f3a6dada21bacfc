"""Servers of a tenant whose certificates have keys of 16,384 bits, as long as OpenSSL verifies."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import ipaddress
import math
import ssl
import tempfile
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from benchmarks.attacks.attacker import ADMISSION, ANYTHING, Attacker, an_object

# As long as OpenSSL allows for such keys: verifying a signature takes 8 ms.
_EXPONENT = (1 << 64) - 59
_PRIMES = 16


async def long_keys(attacker: Attacker) -> None:
    """Writes for which a webhook is called whose server ends each connection."""

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            writer.close()

    async with _server(hang_up) as (port, authority):
        path = await attacker.define("keyed", ANYTHING)
        hook = {
            "name": "keyed.example.com",
            "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["keyed"]}],
            "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": base64.b64encode(authority).decode()},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Ignore",
        }
        head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
        made = {**head, "metadata": {"name": "keyed"}, "webhooks": [hook]}
        await attacker.ask("POST", f"{ADMISSION}/validatingwebhookconfigurations", made)
        numbers = count()

        async def work(one: Attacker) -> None:
            await one.ask("POST", f"{path}?dryRun=All", an_object(path, f"o{next(numbers)}", {}))

        await attacker.parallel(64, work)


@contextlib.asynccontextmanager
async def _server(handler: object) -> AsyncIterator[tuple[int, bytes]]:
    """The port of a server on 127.0.0.1, and the certificate that its chain of three others leads to."""
    long, own = _long_key(), ec.generate_private_key(ec.SECP256R1())
    chain = [_certificate("server", "3", own.public_key(), long, is_authority=False)]
    chain += [_certificate(str(n), str(n - 1), long.public_key(), long, is_authority=True) for n in (3, 2, 1)]
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.TemporaryDirectory() as folder:
        both = Path(folder) / "both.pem"
        both.write_bytes(b"".join(chain) + own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        context.load_cert_chain(both)
    server = await asyncio.start_server(handler, "127.0.0.1", 0, ssl=context)  # type: ignore[arg-type]
    async with server:
        root = _certificate("0", "0", long.public_key(), long, is_authority=True)
        yield server.sockets[0].getsockname()[1], root


def _long_key() -> rsa.RSAPrivateKey:
    """A key of many primes, which is made in a second: with two it takes minutes."""
    primes: list[int] = []
    while len(primes) < _PRIMES:
        pair = rsa.generate_private_key(65537, 2048).private_numbers()
        primes += [prime for prime in (pair.p, pair.q) if math.gcd(_EXPONENT, prime - 1) == 1]
    p, q = math.prod(primes[: _PRIMES // 2]), math.prod(primes[_PRIMES // 2 : _PRIMES])
    of_p, of_q = (math.lcm(*(n - 1 for n in part)) for part in (primes[: _PRIMES // 2], primes[_PRIMES // 2 : _PRIMES]))
    d = pow(_EXPONENT, -1, math.lcm(of_p, of_q))
    public = rsa.RSAPublicNumbers(_EXPONENT, p * q)
    numbers = rsa.RSAPrivateNumbers(p, q, d, d % of_p, d % of_q, pow(q, -1, p), public)
    return numbers.private_key(unsafe_skip_rsa_key_validation=True)


def _certificate(
    name: str,
    issuer: str,
    key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey,
    signer: rsa.RSAPrivateKey,
    *,
    is_authority: bool,
) -> bytes:
    now = datetime.datetime.now(datetime.UTC)
    subject, by = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one)]) for one in (name, issuer))
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    return (
        x509.CertificateBuilder(by, subject, key, x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .sign(signer, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )
