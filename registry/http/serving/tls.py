"""TLS by default: a CA that is created once, and its server certificate, renewed before it expires.

kubectl sends credentials over TLS only, so a first start needs a certificate that kubectl can verify: its CA is written
into the kubeconfig. The CA's key stays in `<data-dir>/tls`, readable by the owner only.
"""

from __future__ import annotations

import datetime
import fcntl
import ipaddress
import logging
import socket
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from registry.certificates import certificate_pem, issue_authority, issue_certificate, key_pem
from registry.files import Stamp, stamp_of, write_private
from registry.flowcontrol.key_exchange import allow_cheap_key_exchanges
from registry.settings.declarations import WILDCARD_HOSTS

CA_LIFETIME = datetime.timedelta(days=3650)
# Clients (Apple's among them) refuse server certificates of more than 398 days.
SERVER_LIFETIME = datetime.timedelta(days=365)
RENEWED_BEFORE = datetime.timedelta(days=60)


class TlsError(Exception):
    """Certificates cannot be read or do not belong together; the text is for the user."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """The files to serve with. `authority` (the CA, for the kubeconfig) is None if the user brings certificates."""

    certificate: Path
    key: Path
    authority: Path | None


def ensure_certificates(data_dir: Path, host: str, further_names: Iterable[str] = ()) -> Certificates:
    """Returns the server's own certificates in `data_dir`, created if missing and renewed before they expire."""
    folder = data_dir / "tls"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = Certificates(folder / "server.crt", folder / "server.key", data_dir / "ca.crt")
    try:
        # Several processes of one server may run this at once: one creates the files, the others find them.
        with open(folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            authority, authority_key = _ensure_authority(data_dir / "ca.crt", folder / "ca.key")
            names = server_names(host, further_names)
            if not _still_good(files.certificate, files.key, authority, names):
                _make_server_certificate(files, authority, authority_key, names)
    except (OSError, ValueError) as problem:
        raise TlsError(f"certificates in {data_dir}: {problem}") from problem
    return files


def server_names(host: str, further_names: Iterable[str] = ()) -> list[str]:
    """Returns names and addresses of this server for clients; for a wildcard address, this machine's name."""
    names = ["localhost", "127.0.0.1", "::1", socket.gethostname() if host in WILDCARD_HOSTS else host, *further_names]
    return list(dict.fromkeys(names))


def server_context(certificate: Path, key: Path, client_ca: Path | None = None) -> ssl.SSLContext:
    """Returns a context for TLS 1.2 or newer. With `client_ca`, client certificates are optional, and verified."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Forward secrecy and authenticated encryption only; TLS 1.3 has no others.
    context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")
    allow_cheap_key_exchanges(context)
    # As Go's servers: OpenSSL's default of two takes a third of the time in which a handshake ends.
    context.num_tickets = 1
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as problem:
        raise TlsError(f"cannot serve {certificate} with {key}: {problem}") from problem
    if client_ca is not None:
        try:
            context.load_verify_locations(client_ca)
        except (OSError, ssl.SSLError) as problem:
            raise TlsError(f"cannot read {client_ca}: {problem}") from problem
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def _ensure_authority(certificate: Path, key: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    if certificate.exists() and key.exists():
        authority, authority_key = x509.load_pem_x509_certificate(certificate.read_bytes()), _load_key(key)
        if authority.public_key() != authority_key.public_key():
            raise ValueError(f"{key} is not the key of {certificate}: bring the right one back, or remove both")
        if authority.not_valid_after_utc <= datetime.datetime.now(datetime.UTC):
            raise ValueError(f"{certificate} is past its end: remove it and {key}, then hand out new kubeconfigs")
        return authority, authority_key
    if certificate.exists():
        # Without its key the CA cannot sign anything, and replacing it would silently break every kubeconfig in use.
        raise ValueError(f"{certificate} has lost its key {key}: bring it back, or remove {certificate} for a new CA")
    private = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    new = issue_authority("registry-ca", private, now, now + CA_LIFETIME)
    write_private(key, key_pem(private))
    write_private(certificate, certificate_pem(new))
    certificate.chmod(0o644)
    return new, private


def _make_server_certificate(
    into: Certificates, authority: x509.Certificate, authority_key: ec.EllipticCurvePrivateKey, names: list[str]
) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    end = min(datetime.datetime.now(datetime.UTC) + SERVER_LIFETIME, authority.not_valid_after_utc)
    alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    certificate = issue_certificate(
        "registry", private.public_key(), end, authority, authority_key, alternatives, usage
    )
    write_private(into.key, key_pem(private))
    write_private(into.certificate, certificate_pem(certificate))


def _still_good(certificate: Path, key: Path, authority: x509.Certificate, names: list[str]) -> bool:
    """Whether the stored certificate is of this CA, for these names, with this key, and not about to expire."""
    try:
        server = x509.load_pem_x509_certificate(certificate.read_bytes())
        server.verify_directly_issued_by(authority)
        covered = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return (
            _load_key(key).public_key() == server.public_key()
            # One that expires with its CA cannot be renewed for longer.
            and (
                server.not_valid_after_utc - datetime.datetime.now(datetime.UTC) > RENEWED_BEFORE
                or server.not_valid_after_utc == authority.not_valid_after_utc
            )
            and {_general_name(name) for name in names} <= set(covered)
        )
    except (OSError, ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{path} is not an EC key")
    return key


logger = logging.getLogger(__name__)


class Reloaded(NamedTuple):
    """`client_ca` tells whether the CA of clients may have changed."""

    context: ssl.SSLContext
    client_ca: bool


class TlsFiles:
    """The TLS files, reloaded when they change.

    Each change creates a new context, as a context cannot forget: a removed client CA would still be trusted, and so
    would resumed sessions. `served` returns the certificate, and renews it if it is our own. It may raise TlsError.
    """

    def __init__(self, served: Callable[[], Certificates], client_ca: Path | None) -> None:
        self._served = served
        self._client_ca = client_ca
        self._stamps: dict[Path, Stamp] = {}

    def context(self) -> ssl.SSLContext:
        """Returns a context of the present files. Raises TlsError."""
        files = self._served()
        # Before they are read, so that changes in between are noticed the next time.
        self._stamps = self._stamps_of(files)
        return server_context(files.certificate, files.key, self._client_ca)

    def reload(self) -> Reloaded | None:
        """Returns None if nothing has changed, or if it is unusable, which is logged once; the old context stays."""
        before = self._stamps
        try:
            if self._stamps_of(self._served()) == before:
                return None
            context = self.context()
        except (TlsError, OSError) as problem:
            logger.error("the changed certificates cannot be used, the old ones stay: %s", problem)
            return None
        changed = sorted(str(path) for path, stamp in self._stamps.items() if before.get(path) != stamp)
        logger.info("new connections are served with the changed files: %s", ", ".join(changed))
        ca = self._client_ca
        return Reloaded(context, ca is not None and before.get(ca) != self._stamps[ca])

    def _stamps_of(self, certificates: Certificates) -> dict[Path, Stamp]:
        files = (certificates.certificate, certificates.key, *(() if self._client_ca is None else (self._client_ca,)))
        return {path: stamp_of(path) for path in files}
