"""X.509 certificates that the server issues, with the extensions of a CA or of an end entity. Keys are on P-256."""

from __future__ import annotations

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

# The clocks of those who verify a certificate may be a little slow.
BACKDATED = datetime.timedelta(hours=1)


def issue_authority(
    common_name: str, key: ec.EllipticCurvePrivateKey, begin: datetime.datetime, end: datetime.datetime
) -> x509.Certificate:
    """Returns the self-signed certificate of a CA that issues end entities only, valid from `begin` less BACKDATED."""
    name, public = _name(common_name), key.public_key()
    identifier = x509.SubjectKeyIdentifier.from_public_key(public)
    return _builder(name, name, public, begin, end, is_authority=True, identifier=identifier).sign(key, hashes.SHA256())


def issue_certificate(
    common_name: str,
    key: ec.EllipticCurvePublicKey,
    end: datetime.datetime,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    *extensions: x509.ExtensionType,
) -> x509.Certificate:
    """Returns a certificate valid from now less BACKDATED, with further extensions, none of them critical."""
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    begin = datetime.datetime.now(datetime.UTC)
    builder = _builder(
        _name(common_name), authority.subject, key, begin, end, is_authority=False, identifier=identifier
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(authority_key, hashes.SHA256())


def certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    begin: datetime.datetime,
    end: datetime.datetime,
    *,
    is_authority: bool,
    identifier: x509.ExtensionType,
) -> x509.CertificateBuilder:
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    path_length = 0 if is_authority else None
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - BACKDATED)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=path_length), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(identifier, critical=False)
    )
