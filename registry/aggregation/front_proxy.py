"""The front proxy's certificates, by which the servers of a tenant recognize requests proxied by this server.

Each tenant has its own CA, derived from a secret of the platform and the tenant's id, so that the server of one tenant
never trusts requests proxied for another: any tenant may name any server in an APIService. A server reads the CA from
the config map `kube-system/extension-apiserver-authentication`.

Follows kubernetes pkg/controlplane/controller/clusterauthenticationtrust and apiserver
pkg/authentication/request/headerrequest.
"""

from __future__ import annotations

import datetime
import json
import ssl
import tempfile
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import ExtendedKeyUsageOID

from registry.certificates import certificate_pem, issue_authority, issue_certificate, key_pem
from registry.webhooks.tls import TlsContexts

# The common name of the client certificate for proxied requests, in every tenant.
CLIENT_NAME: Final = "front-proxy-client"
SECRET_BYTES: Final = 32
_AUTHORITY_LIFETIME: Final = datetime.timedelta(days=20 * 365)
_CLIENT_LIFETIME: Final = datetime.timedelta(days=2)
# The order of P-256 (FIPS 186-4, D.1.2.3): a private key is a number below it.
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


class _Identity(NamedTuple):
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


class FrontProxy:
    """`secret` has 32 bytes, the same in all processes; `made` is when the platform created it."""

    def __init__(self, secret: bytes, created: datetime.datetime) -> None:
        self._secret = secret
        self._created = created
        # Kept for a part of the client certificate's lifetime.
        self.contexts = TlsContexts(self._complete)

    def authority(self, tenant: int) -> str:
        """The CA of a tenant in PEM. Its key is always the same, its signature varies."""
        return certificate_pem(self._authority(tenant).certificate).decode()

    def trusts(self, authority: str, tenant: int) -> bool:
        """Whether `authority`, in PEM, is valid and issued the tenant's certificates."""
        try:
            known = x509.load_pem_x509_certificate(authority.encode())
            self._client(tenant).certificate.verify_directly_issued_by(known)
            return known.not_valid_after_utc > datetime.datetime.now(datetime.UTC)
        except (ValueError, TypeError, InvalidSignature):
            return False

    def configuration(self, tenant: int, client_ca: str) -> dict[str, str]:
        """The data of the config map that servers configure request header authentication by."""
        data = {
            "requestheader-allowed-names": [CLIENT_NAME],
            "requestheader-extra-headers-prefix": ["X-Remote-Extra-"],
            "requestheader-group-headers": ["X-Remote-Group"],
            "requestheader-uid-headers": ["X-Remote-Uid"],
            "requestheader-username-headers": ["X-Remote-User"],
        }
        texts = {name: json.dumps(value, separators=(",", ":")) for name, value in data.items()}
        texts["requestheader-client-ca-file"] = self.authority(tenant)
        return {**texts, "client-ca-file": client_ca} if client_ca else texts

    def _complete(self, context: ssl.SSLContext, tenant: int) -> None:
        """Adds the tenant's client certificate."""
        context.set_alpn_protocols(["http/1.1"])
        client = self._client(tenant)
        # OpenSSL only loads certificates from files.
        with tempfile.NamedTemporaryFile() as file:
            file.write(key_pem(client.key) + certificate_pem(client.certificate))
            file.flush()
            context.load_cert_chain(file.name)

    def _authority(self, tenant: int) -> _Identity:
        key = self._derive_key(f"front-proxy-ca {tenant}")
        end = self._created + _AUTHORITY_LIFETIME
        return _Identity(key, issue_authority(f"front-proxy-ca-{tenant}", key, self._created, end))

    def _client(self, tenant: int) -> _Identity:
        authority = self._authority(tenant)
        key = self._derive_key(f"front-proxy-client {tenant}")
        end = datetime.datetime.now(datetime.UTC) + _CLIENT_LIFETIME
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        issuer = authority.certificate
        return _Identity(key, issue_certificate(CLIENT_NAME, key.public_key(), end, issuer, authority.key, usage))

    def _derive_key(self, purpose: str) -> ec.EllipticCurvePrivateKey:
        # 16 more bytes than the order has make the remainder uniform (FIPS 186-4, B.4.1).
        derived = HKDF(hashes.SHA256(), 48, None, purpose.encode()).derive(self._secret)
        return ec.derive_private_key(int.from_bytes(derived) % (_ORDER - 1) + 1, ec.SECP256R1())
