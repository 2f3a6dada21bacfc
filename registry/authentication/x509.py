"""Client certificates: the common name is the user, organizations are its groups.

TLS has verified the chain, the dates and the purpose when connecting (registry/http/serving/tls.py); the date is
checked again on each request, since a connection may outlive the certificate. An organizational unit
`registry:tenant:<name>` names the home tenant; without one it is `default`.

Follows apiserver pkg/authentication/request/x509/x509.go (CommonNameUserConversion).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import Any, Final

from cryptography import x509
from cryptography.x509.oid import NameOID, ObjectIdentifier

from registry.authentication.user import (
    AUTHENTICATED,
    CREDENTIAL_ID,
    HOME_OF_STRANGERS,
    User,
    claims_foreign_name,
    is_storable,
)

TENANT_UNIT: Final = "registry:tenant:"
_UID: Final = ObjectIdentifier("1.3.6.1.4.1.57683.2")
_KEY: Final = "registry.user"


def user_of_connection(tls: dict[str, Any] | None) -> User | None:
    """The user of a connection's client certificate; None without one. Raises ValueError if it is invalid.

    `tls` is the connection's own, so the certificate is only parsed once for all its requests.
    """
    if tls is None or "client_certificate" not in tls:
        return None
    known: tuple[User | None, float] | None = tls.get(_KEY)
    if known is None:
        known = tls[_KEY] = _read(tls["client_certificate"])
    user, until = known
    if time.time() > until:
        raise ValueError("the certificate is past its end")
    return user


def certified_user(scope: Mapping[str, Any]) -> User | None:
    """The user of a request's valid client certificate; None without one, or if it is invalid."""
    try:
        return user_of_connection((scope.get("extensions") or {}).get("tls"))
    except ValueError:
        return None


def _read(der: bytes) -> tuple[User | None, float]:
    certificate = x509.load_der_x509_certificate(der)
    subject = certificate.subject
    until = certificate.not_valid_after_utc.timestamp()
    names = _texts(subject, NameOID.COMMON_NAME)
    if not names or not names[-1]:
        return None, until
    uids = _texts(subject, _UID)
    if len(uids) > 1:
        raise ValueError("the certificate has more than one uid")
    if uids == [""]:
        raise ValueError("the certificate's uid is empty")
    groups = _texts(subject, NameOID.ORGANIZATION_NAME)
    homes = [
        unit.removeprefix(TENANT_UNIT)
        for unit in _texts(subject, NameOID.ORGANIZATIONAL_UNIT_NAME)
        if unit.startswith(TENANT_UNIT)
    ]
    if claims_foreign_name(names[-1], groups):
        raise ValueError("the certificate's names are reserved")
    if len(homes) > 1:
        raise ValueError("the certificate names more than one tenant")
    if AUTHENTICATED not in groups:
        groups.append(AUTHENTICATED)
    extra = {CREDENTIAL_ID: (f"X509SHA256={hashlib.sha256(der).hexdigest()}",)}
    home = homes[0] if homes else HOME_OF_STRANGERS
    user = User(names[-1], tuple(groups), uids[0] if uids else "", extra, home)
    if not is_storable(user):
        raise ValueError("the certificate's names cannot be stored")
    return user, until


def _texts(name: x509.Name, kind: ObjectIdentifier) -> list[str]:
    texts = []
    for attribute in name.get_attributes_for_oid(kind):
        if not isinstance(attribute.value, str):
            raise ValueError("the certificate's subject is not text")
        texts.append(attribute.value)
    return texts
