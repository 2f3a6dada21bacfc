"""A certificate authority of clients, made by the tests."""

from __future__ import annotations

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

NOW = datetime.datetime.now(datetime.UTC)


DAY = datetime.timedelta(days=1)


class Authority:
    """A CA that signs certificates of clients."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.path = folder / f"{name}.crt"
        made = (
            _builder(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.path.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def certificate(
        self,
        *subject: tuple[ObjectIdentifier, str],
        until: datetime.datetime = NOW + DAY,
        usage: ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH,
    ) -> x509.Certificate:
        return self._signed(subject, ec.generate_private_key(ec.SECP256R1()), until, usage)

    def files(
        self,
        *subject: tuple[ObjectIdentifier, str],
        until: datetime.datetime = NOW + DAY,
        usage: ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH,
    ) -> Path:
        """A file with certificate and key."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._signed(subject, key, until, usage)
        path = self._folder / f"{made.serial_number}.pem"
        path.write_bytes(
            made.public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return path

    def _signed(
        self,
        subject: tuple[tuple[ObjectIdentifier, str], ...],
        key: ec.EllipticCurvePrivateKey,
        until: datetime.datetime,
        usage: ObjectIdentifier,
    ) -> x509.Certificate:
        name = x509.Name([x509.NameAttribute(kind, text) for kind, text in subject])
        return (
            _builder(name, self._name, key, until)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .sign(self._key, hashes.SHA256())
        )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, until: datetime.datetime = NOW + DAY
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(NOW, until) - DAY)
        .not_valid_after(until)
    )


CN, O, OU = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME  # noqa: E741
