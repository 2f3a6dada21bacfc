"""Impersonation headers (Impersonate-*).

This module parses the request; authorization/impersonation_authz.py decides who may impersonate whom. Follows apiserver
pkg/endpoints/filters/impersonation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote_to_bytes

from registry.authentication.user import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User
from registry.codec.go_text import go_quote
from registry.schema.names import name_is_dns_label, name_is_dns_subdomain

_PREFIX = b"impersonate-"
_EXTRA = "extra-"
_ACCOUNT = "system:serviceaccount:"
_MALFORMED = re.compile(r"%(?![0-9A-Fa-f]{2})")
ACCOUNTS = "system:serviceaccounts"


class NoUserNamed(Exception):
    """Groups, a uid or extras were requested without a user; `str()` is the message of a 400."""


def requested_user(headers: Iterable[tuple[bytes, bytes]]) -> User | None:
    """The user to impersonate; None if the request has no such header. Raises NoUserNamed.

    If a header that takes one value is repeated, the first counts, even if empty.
    """
    name: str | None = None
    uid: str | None = None
    groups: list[str] = []
    extra: dict[str, list[str]] = {}
    for header, value in headers:
        if not header.startswith(_PREFIX):
            continue
        what, text = header[len(_PREFIX) :].decode("latin-1"), value.decode("utf-8", "replace")
        match what:
            case "user":
                name = text if name is None else name
            case "uid":
                uid = text if uid is None else uid
            case "group":
                groups.append(text)
            case _ if what.startswith(_EXTRA):
                extra.setdefault(_extra_key(what[len(_EXTRA) :].lower()), []).append(text)
    uid = uid or ""
    if name:
        return User(name, _groups(name, groups), uid, {key: tuple(values) for key, values in extra.items()})
    if groups or uid or extra:
        raise NoUserNamed(f"requested {_go_user(uid, groups, extra)} without impersonating a user name")
    return None


def account_of(name: str) -> tuple[str, str] | None:
    """The namespace and name of a service account's user name: ("n", "x") of 'system:serviceaccount:n:x'."""
    namespace, _, account = name.removeprefix(_ACCOUNT).partition(":")
    if not name.startswith(_ACCOUNT) or name_is_dns_label(namespace) or name_is_dns_subdomain(account):
        return None
    return namespace, account


def _extra_key(escaped: str) -> str:
    """A key with an invalid escape anywhere is not unescaped at all."""
    return escaped if _MALFORMED.search(escaped) else unquote_to_bytes(escaped).decode("utf-8", "replace")


def _groups(name: str, requested: list[str]) -> tuple[str, ...]:
    """The groups of the impersonated user: a service account has its default groups unless others are requested."""
    groups = list(requested)
    account = None if groups else account_of(name)
    if account is not None:
        groups = [ACCOUNTS, f"{ACCOUNTS}:{account[0]}"]
    if name == ANONYMOUS.name:
        return (*groups, UNAUTHENTICATED) if UNAUTHENTICATED not in groups else tuple(groups)
    known = AUTHENTICATED in groups or UNAUTHENTICATED in groups
    return tuple(groups) if known else (*groups, AUTHENTICATED)


def requested_groups(headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, ...]:
    """The groups that the request names, without those that are added automatically."""
    return tuple(value.decode("utf-8", "replace") for header, value in headers if header == b"impersonate-group")


def _go_user(uid: str, groups: list[str], extra: Mapping[str, list[str]]) -> str:
    entries = ", ".join(f"{go_quote(key)}:{_go_texts(extra[key])}" for key in sorted(extra))
    extras = f"map[string][]string{{{entries}}}" if extra else "map[string][]string(nil)"
    return f'&user.DefaultInfo{{Name:"", UID:{go_quote(uid)}, Groups:{_go_texts(groups)}, Extra:{extras}}}'


def _go_texts(texts: list[str]) -> str:
    return f"[]string{{{', '.join(map(go_quote, texts))}}}" if texts else "[]string(nil)"
