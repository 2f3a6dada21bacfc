"""TLS to external servers: whom a CA bundle trusts, and why a handshake failed."""

from __future__ import annotations

import ssl
from functools import lru_cache

from registry.webhooks.connection import Unreachable


def tls_context(ca: str, *, shared: bool = True) -> ssl.SSLContext:
    """Returns a context for `ca` in PEM, or the system's roots if it is empty, as Go's client has. Raises ssl.SSLError.

    One that is not `shared` belongs to the caller, who may change it.

    Each certificate of the bundle is trusted, including intermediate ones and the server's own. Names must be subject
    alternative names; the subject is ignored.
    """
    return _context(ca) if ca or not shared else _system_context()


@lru_cache(1)
def _system_context() -> ssl.SSLContext:
    return _context("")


def _context(ca: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=ca or None)
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    # Newer Pythons set it; CAs that Go creates without key identifiers fail it.
    context.verify_flags &= ~ssl.VerifyFlags.VERIFY_X509_STRICT
    context.hostname_checks_common_name = False
    return context


def tls_failure(error: BaseException) -> Unreachable:
    """Returns the failure of a handshake in the words of Go's client."""
    cause: BaseException | None = error
    while cause is not None:
        match cause:
            case ssl.SSLCertVerificationError():
                return Unreachable(f"tls: failed to verify certificate: x509: {_certificate_problem(cause)}")
            case ssl.SSLError():
                return Unreachable(f"tls: {cause.reason or 'handshake failure'}")
        cause = cause.__cause__ or cause.__context__
    return Unreachable("tls: the connection ended during the handshake")


def _certificate_problem(error: ssl.SSLCertVerificationError) -> str:
    # OpenSSL's codes: 10 expired, 62 and 64 wrong name or address; the others are untrusted chains.
    match error.verify_code:
        case 10:
            return "certificate has expired or is not yet valid"
        case 62 | 64:
            return f"certificate is not valid for this name: {error.verify_message}"
        case _:
            return "certificate signed by unknown authority"
