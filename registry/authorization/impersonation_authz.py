"""Authorizes impersonation, checking the required rights in kube-apiserver's order.

Constrained modes come first: they require the right to the request itself while impersonating
(`impersonate-on:<mode>:<verb>` on the resource of the request) and the right to impersonate the user
(`impersonate:<mode>`). Then comes the classic right `impersonate` on users, groups, uids and extras. The mode that last
succeeded for a requester is tried first; the first denial is the one reported.

Follows apiserver pkg/endpoints/filters/impersonation/{mode,constrained_impersonation}.go at v1.36. The mode
associated-node, which is for service accounts of pods, is not supported: there are no pods here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from registry.authentication.impersonation_headers import account_of
from registry.authentication.user import ADMINISTRATORS, User
from registry.authorization.attributes import Attributes, Decision
from registry.caches import LruCache
from registry.codec.go_text import go_quote
from registry.schema.field import FieldError, invalid
from registry.schema.names import dns1123_subdomain, name_is_dns_subdomain, regex_error
from registry.store.types import TenantId

_AUTHENTICATION: Final = "authentication.k8s.io"
_NODE: Final = "system:node:"
_NODES: Final = "system:nodes"
_LEGACY: Final = ""
# For how many requesters the last successful mode is cached.
_REMEMBERED: Final = 5_000
# From this many groups or values of extras on, the right to all of them is checked first.
_MANY: Final = 4
_HTTP_PATH_TEXT: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_HTTP_PATH: Final = re.compile(_HTTP_PATH_TEXT + r"\Z")

Decide = Callable[[Attributes], Decision]


class ImpersonationRefused(Exception):
    """The requester lacks this right; `reason` is appended to the message."""

    def __init__(self, attributes: Attributes, reason: str) -> None:
        super().__init__(attributes.verb)
        self.attributes = attributes
        self.reason = reason


class Impersonation:
    """Caches the mode that last succeeded, but no rights, so that a revoked right is effective at once."""

    def __init__(self) -> None:
        self._modes: LruCache[tuple[TenantId, str], str] = LruCache(_REMEMBERED)

    def check(
        self,
        tenant: TenantId,
        requester: User,
        wanted: User,
        groups: tuple[str, ...],
        attributes: Attributes,
        decide: Decide,
    ) -> tuple[User, str]:
        """The user to authorize as, and the constraint that allowed it: "impersonate:user-info", "" for the classic
        right. `groups` are those that the request names. Raises ImpersonationRefused.
        """
        modes = [*_constrained_mode(wanted, groups), _LEGACY]
        who = (tenant, requester.name)
        last = self._modes.get(who)
        if last in modes:
            modes.sort(key=lambda mode: mode != last)
        refused: ImpersonationRefused | None = None
        for mode in modes:
            try:
                allowed_by = _in_mode(mode, wanted, groups, attributes, decide)
            except ImpersonationRefused as error:
                refused = refused or error
                continue
            self._modes.put(who, mode)
            return allowed_by, f"impersonate:{mode}" if mode else ""
        assert refused is not None
        try:
            raise refused
        finally:
            del refused  # it refers to this frame


def _constrained_mode(wanted: User, groups: tuple[str, ...]) -> Iterator[str]:
    """The constrained mode for this user, if any: nodes and service accounts must be impersonated by name only."""
    only_name = not (groups or wanted.uid or wanted.extra)
    if _node_of(wanted.name) is not None:
        if only_name:
            yield "arbitrary-node"
    elif account_of(wanted.name) is not None:
        if only_name:
            yield "serviceaccount"
    else:
        yield "user-info"


def _node_of(name: str) -> str | None:
    """The node of a node's user name."""
    node = name.removeprefix(_NODE)
    return node if name.startswith(_NODE) and not name_is_dns_subdomain(node) else None


def _in_mode(mode: str, wanted: User, groups: tuple[str, ...], attributes: Attributes, decide: Decide) -> User:
    """The user impersonated in this mode. Checks name, uid, groups and extras, in this order."""
    if mode != _LEGACY:
        _require(decide, attributes._replace(verb=f"impersonate-on:{mode}:{attributes.verb}"))
    _require(decide, _name(mode, wanted.name))
    if wanted.uid:
        _require(decide, _attributes(mode, "uids", wanted.uid))
    for many, each in (_groups(mode, groups), _extras(mode, wanted.extra)):
        # With the right to all of them, each need not be checked.
        if mode == _LEGACY or len(each) < _MANY or not decide(many).allowed:
            for needed in each:
                _require(decide, needed)
    if mode == "arbitrary-node":
        return replace(wanted, groups=(_NODES, *wanted.groups))
    return wanted


def _require(decide: Decide, needed: Attributes) -> None:
    decision = decide(needed)
    if not decision.allowed:
        raise ImpersonationRefused(needed, decision.reason)


def _attributes(
    mode: str, resource: str, name: str, *, group: str = _AUTHENTICATION, namespace: str = "", subresource: str = ""
) -> Attributes:
    verb = f"impersonate:{mode}" if mode else "impersonate"
    return Attributes(verb, "", resource, subresource, group, namespace, name)


def _name(mode: str, name: str) -> Attributes:
    group = _AUTHENTICATION if mode else ""
    node, account = _node_of(name) if mode else None, account_of(name)
    if node is not None:
        return _attributes(mode, "nodes", node, group=group)
    if account is not None:
        return _attributes(mode, "serviceaccounts", account[1], group=group, namespace=account[0])
    return _attributes(mode, "users", name, group=group)


def _groups(mode: str, groups: tuple[str, ...]) -> tuple[Attributes, list[Attributes]]:
    """The right to all groups, and that to each. Raises ImpersonationRefused for groups that no constrained mode
    allows for any requester."""
    group = _AUTHENTICATION if mode else ""
    if mode and "" in groups:
        raise ImpersonationRefused(
            _attributes(mode, "groups", "", group=group), "impersonating the empty string group is not allowed"
        )
    if mode and ADMINISTRATORS in groups:
        raise ImpersonationRefused(
            _attributes(mode, "groups", ADMINISTRATORS, group=group),
            "impersonating the system:masters group is not allowed",
        )
    return (
        _attributes(mode, "groups", "*", group=group),
        [_attributes(mode, "groups", name, group=group) for name in groups],
    )


def _extras(mode: str, extra: Mapping[str, tuple[str, ...]]) -> tuple[Attributes, list[Attributes]]:
    """The same for extras, with one right for each value."""
    for key, values in extra.items() if mode else ():
        problem = _extra_problem(key, values)
        if problem:
            raise ImpersonationRefused(_attributes(mode, "userextras", ""), problem)
    return (
        _attributes(mode, "userextras", "*", subresource="*"),
        [_attributes(mode, "userextras", value, subresource=key) for key, values in extra.items() for value in values],
    )


def _extra_problem(key: str, values: tuple[str, ...]) -> str:
    """Why no constrained mode allows this extra; "" if one may."""
    if not key:
        return "impersonating the empty string key in extra is not allowed"
    if errors := _domain_prefixed_path_errors("extra.key", key):
        texts = list(dict.fromkeys(error.message() for error in errors))
        keys = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        return f"impersonating an invalid key in extra is not allowed: {keys}"
    if key != key.lower():
        return f"impersonating a non-lowercase key in extra is not allowed: {go_quote(key)}"
    return "impersonating the empty string value in extra is not allowed" if "" in values else ""


def _domain_prefixed_path_errors(path: str, value: str) -> list[FieldError]:
    """apimachinery pkg/util/validation/validation.go, IsDomainPrefixedPath."""
    host, _, rest = value.partition("/")
    if not host or not rest:
        return [invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [invalid(path, host, problem) for problem in dns1123_subdomain(host)]
    if not _HTTP_PATH.match(rest):
        errors.append(invalid(path, rest, regex_error("Invalid path", _HTTP_PATH_TEXT)))
    return errors
