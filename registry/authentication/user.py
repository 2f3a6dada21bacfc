"""The authenticated user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

ADMINISTRATORS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
# The key of `extra` that identifies the credential.
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
# The home tenant of external identities that name none.
HOME_OF_STRANGERS = "default"
# The prefix of other tenants' users and groups (authorization/authorizer.py), which no credential may claim.
_FOREIGN = "system:tenant:"


def claims_foreign_name(name: str, groups: Iterable[str]) -> bool:
    """Whether a credential claims a user or group name that only this server may assign."""
    return name.startswith(_FOREIGN) or any(group.startswith(_FOREIGN) for group in groups)


@dataclass(frozen=True, slots=True)
class User:
    """`groups` are in the given order.

    `tenant` is the name of the identity's home: bare paths refer to it, and its groups (system:masters too) are groups
    of that tenant. None means an identity of the platform: the administrator's own token, users that it impersonates,
    and the anonymous user.
    """

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tenant: str | None = None

    @property
    def is_administrator(self) -> bool:
        return ADMINISTRATORS in self.groups

    def info(self) -> dict[str, Any]:
        """Returns the user as UserInfo (authentication.k8s.io/v1), without empty fields."""
        extra = {key: list(values) for key, values in self.extra.items()}
        info = {"username": self.name, "uid": self.uid, "groups": list(self.groups), "extra": extra}
        return {name: value for name, value in info.items() if value}


def is_storable(user: User) -> bool:
    """Whether the texts that a credential claims can be stored: without U+0000 and halves of surrogate pairs."""
    values = (value for many in user.extra.values() for value in many)
    texts = "".join((user.name, user.uid, *user.groups, *user.extra, *values))
    if texts.isascii():
        return "\0" not in texts
    try:
        return "\0" not in texts and bool(texts.encode())
    except UnicodeEncodeError:
        return False


ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))
# The user and the field manager of the server's own writes.
SERVER = User("system:apiserver", (ADMINISTRATORS, AUTHENTICATED))
SERVER_MANAGER = "kube-apiserver"
