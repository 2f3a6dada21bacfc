"""Who may act as whom: the rights that impersonation needs, in the order in which kube-apiserver looks for them.

Constrained modes come first: the right to do just this while acting as somebody (`impersonate-on:<mode>:<verb>` on what
the request is for) and to act as him (`impersonate:<mode>`). Then the classic right `impersonate` on users, groups,
uids and extras. The mode that has last served a requester is tried first; what is told is the first refusal.

Follows apiserver pkg/endpoints/filters/impersonation/{mode,constrained_impersonation}.go at v1.36. The mode
associated-node, which is for service accounts of pods, is left out: there are no pods here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from registry.access.authorization import Attributes, Decision
from registry.access.identity import ADMINISTRATORS, User
from registry.schema.field import go_quote
from registry.store.types import TenantId

_AUTHENTICATION: Final = "authentication.k8s.io"
_ACCOUNT: Final = "system:serviceaccount:"
_NODE: Final = "system:node:"
_NODES: Final = "system:nodes"
_LEGACY: Final = ""
# How many requesters are remembered with the mode that has served them.
_REMEMBERED: Final = 5_000

Decide = Callable[[Attributes], Decision]


class ImpersonationRefused(Exception):
    """What the requester may not; `reason` is told after it."""

    def __init__(self, attributes: Attributes, reason: str) -> None:
        super().__init__(attributes.verb)
        self.attributes = attributes
        self.reason = reason


class Impersonation:
    """Remembers which mode has served whom; nothing else, so that a right that is taken away counts at once."""

    def __init__(self) -> None:
        self._modes: OrderedDict[tuple[TenantId, str], str] = OrderedDict()

    def check(self, tenant: TenantId, requester: User, wanted: User, groups: tuple[str, ...], asked: Attributes,
              decide: Decide) -> User:
        """`wanted` as he is to be judged. `groups` are those that the request names. Raises ImpersonationRefused."""
        modes = [*_constrained(wanted, groups), _LEGACY]
        who = (tenant, requester.name)
        last = self._modes.get(who)
        if last in modes:
            modes.sort(key=lambda mode: mode != last)
        refused: ImpersonationRefused | None = None
        for mode in modes:
            try:
                found = _in_mode(mode, wanted, groups, asked, decide)
            except ImpersonationRefused as error:
                refused = refused or error
                continue
            self._remember(who, mode)
            return found
        assert refused is not None
        raise refused

    def _remember(self, who: tuple[TenantId, str], mode: str) -> None:
        self._modes[who] = mode
        self._modes.move_to_end(who)
        if len(self._modes) > _REMEMBERED:
            self._modes.popitem(last=False)


def _constrained(wanted: User, groups: tuple[str, ...]) -> Iterator[str]:
    """The one constrained mode for this user, if there is one: nodes and accounts are nothing but their names."""
    only_name = not (groups or wanted.uid or wanted.extra)
    if _is_node(wanted.name):
        if only_name:
            yield "arbitrary-node"
    elif account_of(wanted.name) is not None:
        if only_name:
            yield "serviceaccount"
    else:
        yield "user-info"


def _is_node(name: str) -> bool:
    return name.startswith(_NODE) and len(name) > len(_NODE)


def account_of(name: str) -> tuple[str, str] | None:
    """Namespace and name of a service account's user name."""
    namespace, colon, account = name.removeprefix(_ACCOUNT).partition(":")
    if not name.startswith(_ACCOUNT) or not colon or not namespace or not account or ":" in account:
        return None
    return namespace, account


def _in_mode(mode: str, wanted: User, groups: tuple[str, ...], asked: Attributes, decide: Decide) -> User:
    if mode != _LEGACY:
        _require(decide, replace(asked, verb=f"impersonate-on:{mode}:{asked.verb}"))
        for needed, why in _forbidden(mode, wanted, groups):
            raise ImpersonationRefused(needed, why)
    for needed in _needed(mode, wanted, groups):
        _require(decide, needed)
    if mode == "arbitrary-node":
        return replace(wanted, groups=(_NODES, *wanted.groups))
    return wanted


def _require(decide: Decide, needed: Attributes) -> None:
    decision = decide(needed)
    if not decision.allowed:
        raise ImpersonationRefused(needed, decision.reason)


def _attributes(mode: str, resource: str, name: str, *, group: str = _AUTHENTICATION, namespace: str = "",
                subresource: str = "") -> Attributes:
    verb = f"impersonate:{mode}" if mode else "impersonate"
    return Attributes(verb, "", resource, subresource, group, namespace, name)


def _forbidden(mode: str, wanted: User, groups: tuple[str, ...]) -> Iterable[tuple[Attributes, str]]:
    """What no constrained mode allows, whoever asks."""
    if "" in groups:
        yield _attributes(mode, "groups", ""), "impersonating the empty string group is not allowed"
    if ADMINISTRATORS in groups:
        yield _attributes(mode, "groups", ADMINISTRATORS), "impersonating the system:masters group is not allowed"
    for key, values in wanted.extra.items():
        extras = _attributes(mode, "userextras", "")
        if not key:
            yield extras, "impersonating the empty string key in extra is not allowed"
        elif "/" not in key:
            yield extras, ("impersonating an invalid key in extra is not allowed: extra[key]: Invalid value: "
                           f"{go_quote(key)}: must be a domain-prefixed path (such as \"acme.io/foo\")")
        elif "" in values:
            yield extras, "impersonating the empty string value in extra is not allowed"


def _needed(mode: str, wanted: User, groups: tuple[str, ...]) -> Iterator[Attributes]:
    """The rights on each part of the identity: name, uid, groups, extras."""
    core = _AUTHENTICATION if mode else ""
    account = account_of(wanted.name)
    if mode == "arbitrary-node":
        yield _attributes(mode, "nodes", wanted.name.removeprefix(_NODE), group=core)
    elif account is not None:
        yield _attributes(mode, "serviceaccounts", account[1], group=core, namespace=account[0])
    else:
        yield _attributes(mode, "users", wanted.name, group=core)
    if wanted.uid:
        yield _attributes(mode, "uids", wanted.uid)
    for group in groups:
        yield _attributes(mode, "groups", group, group=core)
    for key, values in wanted.extra.items():
        for value in values:
            yield _attributes(mode, "userextras", value, subresource=key)
