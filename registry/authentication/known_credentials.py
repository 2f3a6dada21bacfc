"""Which tenants the credentials belong to that were accepted before.

This says for whom a request counts before its credential is checked, so that a flood of strangers' requests does not
delay those of a tenant that they name. It grants nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from registry.authentication.user import ANONYMOUS, User
from registry.authentication.x509 import certified_user
from registry.caches import LruCache

_COUNT: Final = 20_000


class KnownCredentials:
    """The most recently used ones of a process. Of a header only its hash is kept, which differs between processes."""

    def __init__(self) -> None:
        self._homes: LruCache[int, str] = LruCache(_COUNT)

    def home(self, scope: Mapping[str, Any], authorization: str) -> str | None:
        """Returns the tenant of a request's user, "" for one of all tenants; None if the credential is not known."""
        certified = certified_user(scope)
        if certified is not None:
            return certified.tenant or ""
        return self._homes.get(hash(authorization)) if authorization else None

    def remember(self, authorization: str, user: User) -> None:
        """Notes that the credential in this header was accepted."""
        if authorization and user is not ANONYMOUS:
            key, home = hash(authorization), user.tenant or ""
            if self._homes.peek(key) != home:
                self._homes.put(key, home)
