"""Who asks: the user as authentication found it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

ADMINISTRATORS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
# The key of `extra` under which a user carries which credential it has shown.
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
# The home of identities from outside that name no tenant.
HOME_OF_STRANGERS = "default"
# How users and groups of one tenant are called in another (policies.py): no credential may say so of itself.
_FOREIGN = "system:tenant:"


def claims_foreign_name(name: str, groups: Iterable[str]) -> bool:
    """Whether a credential names a user or group that only this server may make."""
    return name.startswith(_FOREIGN) or any(group.startswith(_FOREIGN) for group in groups)


@dataclass(frozen=True, slots=True)
class User:
    """`groups` in the order in which they were given.

    `tenant` is the name of the identity's home: bare paths lead there, and its groups (system:masters too) are groups
    of that tenant. None is an identity of the platform: the administrator's own token, who it impersonates, and the
    anonymous user.
    """

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tenant: str | None = None

    @property
    def is_administrator(self) -> bool:
        return ADMINISTRATORS in self.groups


ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))
