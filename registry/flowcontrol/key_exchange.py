"""What a peer may make TLS compute: key exchanges on elliptic curves, as with Go, and short chains of certificates.

OpenSSL also has the finite fields of RFC 7919, of up to 8,192 bits. They take up to 0.15 s in one call of C code on
the event loop, for a client that need not compute anything. In TLS 1.2 a server may send a field of its own, of up to
10,000 bits: such cipher suites are left out.
"""

from __future__ import annotations

import _ssl
import ctypes
import ssl
from functools import cache
from typing import Final

# Python's default without the suites that exchange keys in a finite field, which Go's client does not have either.
CLIENT_CIPHERS: Final = "@SECLEVEL=2:ECDHE+AESGCM:ECDHE+CHACHA20:ECDHE+AES:!aNULL:!eNULL:!aDSS:!SHA1:!AESCCM"
# Those of Go's crypto/tls: the first list from OpenSSL 3.5 on.
_CURVES: Final = "X25519:P-256:P-384:P-521"
_LISTS: Final = (f"X25519MLKEM768:{_CURVES}", _CURVES)
# What every client has, if only one can be set.
_COMMON_CURVE: Final = "prime256v1"
# SSL_CTX_set1_groups_list(3) is a macro of SSL_CTX_ctrl(3).
_SET_GROUPS_LIST: Final = 92
# Certificates between a server's and a trusted one. OpenSSL allows 100, each of whose keys may take 10 ms.
_INTERMEDIATES: Final = 3


def allow_cheap_key_exchanges(context: ssl.SSLContext) -> None:
    """Limits the key exchanges of the context, on either side."""
    if not any(set_groups(context, groups) for groups in _LISTS):
        context.set_ecdh_curve(_COMMON_CURVE)


def allow_short_chains(context: ssl.SSLContext) -> None:
    """Limits how many certificates of a server are verified, in the same call of C code. Without OpenSSL's function
    they are as many as OpenSSL allows."""
    openssl = _openssl()
    if openssl is not None:
        openssl.SSL_CTX_set_verify_depth(ctypes.c_void_p(_openssl_context(context)), _INTERMEDIATES)


def set_groups(context: ssl.SSLContext, groups: str) -> bool:
    """Sets the groups that are allowed, separated by colons. Returns whether OpenSSL has all of them.

    Python has a method for it from 3.15 on; before, only OpenSSL has.
    """
    if hasattr(context, "set_groups"):
        try:
            context.set_groups(groups)
        except ssl.SSLError:
            return False
        return True
    openssl = _openssl()
    if openssl is None:
        return False
    address, names = ctypes.c_void_p(_openssl_context(context)), ctypes.c_char_p(groups.encode())
    if openssl.SSL_CTX_ctrl(address, _SET_GROUPS_LIST, ctypes.c_long(0), names):
        return True
    # OpenSSL keeps an error for its thread until it is taken. The next read of any TLS connection of this thread would
    # take it for one of its own, and end that connection.
    openssl.ERR_clear_error()
    return False


def _openssl_context(context: ssl.SSLContext) -> int:
    """Returns the address of OpenSSL's context: the first field of Python's (PySSLContext in Modules/_ssl.c)."""
    address = ctypes.c_void_p.from_address(id(context) + object.__basicsize__).value
    assert address is not None, "a context has one for as long as it lives"
    return address


@cache
def _openssl() -> ctypes.CDLL | None:
    """Returns the library that Python's module is linked with; None if its functions are not to be seen."""
    try:
        openssl = ctypes.CDLL(_ssl.__file__)
        openssl.SSL_CTX_ctrl.restype = ctypes.c_long
        openssl.SSL_CTX_set_verify_depth.restype = openssl.ERR_clear_error.restype = None
    except (AttributeError, OSError):  # it is part of the interpreter
        return None
    return openssl
