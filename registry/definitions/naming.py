"""Names and establishment of definitions.

Each definition claims the names in its status.acceptedNames; other definitions of its group cannot use them. After its
creation a definition goes through two writes, by functions that return the new status, if any:

    accept_names   NamesAccepted=True, Established=False (Installing)
    establish      Established=True; from here on the resource is served

When a definition changes its accepted names, or is deleted, the others of its group are reconciled again. Definitions
that do not compete for a name are written together (`next_statuses`).

Follows apiextensions-apiserver pkg/controller/status/naming_controller.go, pkg/controller/establish and
pkg/controller/apiapproval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from registry.codec.go_text import go_quote
from registry.codec.structs import structs as typed
from registry.definitions import approval, nonstructural, types
from registry.definitions.conditions import find, has_condition, is_true, with_condition
from registry.definitions.conversion import has_invalid_ca_bundle
from registry.definitions.model import Json

Status = dict[str, Any]


class HeldNames(NamedTuple):
    """The accepted names of one definition. Plural, singular and short names share one set, kinds another. Sets, since
    a definition may have a hundred thousand short names."""

    definition: str
    group: str
    resources: frozenset[str]
    kinds: frozenset[str]


def held_names(crd: Json) -> HeldNames:
    names = _names((crd.get("status") or {}).get("acceptedNames"))
    return HeldNames(
        (crd.get("metadata") or {}).get("name") or "",
        (crd.get("spec") or {}).get("group") or "",
        frozenset((names["plural"], names["singular"], *names["shortNames"])),
        frozenset((names["kind"], names["listKind"])),
    )


def releases(before: HeldNames, after: HeldNames) -> bool:
    """Whether other definitions may get a name that was held; "" is none."""
    return bool(before.resources - after.resources - {""} or before.kinds - after.kinds - {""})


class NamesInUse:
    """The accepted names of a tenant's definitions, by group; indexed when a group is first looked up."""

    def __init__(self, held: Iterable[HeldNames] = ()) -> None:
        self._held: dict[str, dict[str, HeldNames]] = {}
        # The definitions that hold each name, for the groups looked up so far.
        self._holders: dict[str, tuple[dict[str, set[str]], dict[str, set[str]]]] = {}
        for one in held:
            self._held.setdefault(one.group, {})[one.definition] = one

    def replace(self, held: HeldNames) -> None:
        group = self._held.setdefault(held.group, {})
        before = group.get(held.definition)
        group[held.definition] = held
        holders = self._holders.get(held.group)
        if holders is None:
            return
        if before is not None:
            for name in before.resources:
                holders[0][name].discard(before.definition)
            for name in before.kinds:
                holders[1][name].discard(before.definition)
        _add(holders, held)

    def for_definition(self, own: HeldNames) -> tuple[Callable[[str], bool], Callable[[str], bool]]:
        """Two functions: whether a resource name, or a kind, is held by `own` or another definition of its group."""
        resources, kinds = self._of(own.group)
        return (
            lambda name: name in own.resources or bool(resources.get(name, _NOBODY) - {own.definition}),
            lambda name: name in own.kinds or bool(kinds.get(name, _NOBODY) - {own.definition}),
        )

    def _of(self, group: str) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
        holders = self._holders.get(group)
        if holders is None:
            holders = self._holders[group] = ({}, {})
            for held in self._held.get(group, {}).values():
                _add(holders, held)
        return holders


_NOBODY: frozenset[str] = frozenset()


def _add(holders: tuple[dict[str, set[str]], dict[str, set[str]]], held: HeldNames) -> None:
    for name in held.resources:
        holders[0].setdefault(name, set()).add(held.definition)
    for name in held.kinds:
        holders[1].setdefault(name, set()).add(held.definition)


def accept_names(crd: Json, in_use: NamesInUse, now: str) -> Status | None:
    """The status with accepted names and the conditions NamesAccepted and Established; None if unchanged.

    `in_use` are the names of the tenant's definitions, of which those of other groups and of `crd` itself are ignored;
    `now` is in RFC 3339. If the requested names equal the accepted ones, nothing changes: as in kube-apiserver, a
    conflict that was resolved by requesting the old names again stays in the conditions.
    """
    requested = _names((crd.get("spec") or {}).get("names"))
    accepted = _names((crd.get("status") or {}).get("acceptedNames"))
    if requested == accepted:
        return None
    new, reason, message = _free_names(requested, accepted, *in_use.for_definition(held_names(crd)))
    names_accepted = ("False", reason, message) if reason else ("True", "NoConflicts", "no conflicts found")
    if new == accepted and has_condition(crd, "NamesAccepted", *names_accepted):
        return None
    status = {**(crd.get("status") or {}), "acceptedNames": typed.encode(types.Names, new)}
    status = with_condition(status, "NamesAccepted", *names_accepted, now)
    if not is_true(crd, "Established") and not reason:
        return with_condition(status, "Established", "False", "Installing", "the initial names have been accepted", now)
    if find(crd, "Established") is None:
        return with_condition(status, "Established", "False", "NotAccepted", "not all names are accepted", now)
    return status


def establish(crd: Json, now: str) -> Status | None:
    """The status with Established=True once the names are accepted; None if unchanged.

    A conversion webhook with a CA bundle without a certificate prevents a definition from being established.
    """
    if not is_true(crd, "NamesAccepted") or is_true(crd, "Established"):
        return None
    condition = ("True", "InitialNamesAccepted", "the initial names have been accepted")
    if has_invalid_ca_bundle((crd.get("spec") or {}).get("conversion")):
        condition = ("False", "InvalidCABundle", "The conversion webhook CABundle is invalid")
    if has_condition(crd, "Established", *condition):
        return None
    return with_condition(crd.get("status") or {}, "Established", *condition, now)


def approve(crd: Json, now: str) -> Status | None:
    """The status with KubernetesAPIApprovalPolicyConformant, in protected groups; None if unchanged."""
    wanted = approval.approval_condition(crd)
    if wanted is None or has_condition(crd, approval.CONDITION, *wanted):
        return None
    return with_condition(crd.get("status") or {}, approval.CONDITION, *wanted, now)


def next_status(crd: Json, in_use: NamesInUse, now: str) -> Status | None:
    """The next status to write, by one of the functions above; None if there is nothing to do.

    The caller writes it and calls again with the result; after at most five writes there is nothing to do.
    """
    # kube-apiserver's controllers run at the same time; of these, the one for approval usually writes first.
    return (
        approve(crd, now)
        or accept_names(crd, in_use, now)
        or establish(crd, now)
        or nonstructural.next_status(crd, now)
    )


def next_statuses(crds: Iterable[Json], in_use: NamesInUse, now: str) -> dict[str, Status | None]:
    """The next status of each definition by name, only for definitions that may be written in one transaction.

    A definition that requests a name which another one is about to get is omitted: whether it gets the name is decided
    after the other one has been written.
    """
    statuses: dict[str, Status | None] = {}
    claimed: set[tuple[str, str, str]] = set()
    for crd in crds:
        status = next_status(crd, in_use, now)
        if status is not None:
            before, after = held_names(crd), held_names({**crd, "status": status})
            claims = {(after.group, "resource", n) for n in after.resources - before.resources}
            claims |= {(after.group, "kind", n) for n in after.kinds - before.kinds}
            if not claims.isdisjoint(claimed):
                continue
            claimed |= claims
        statuses[crd["metadata"]["name"]] = status
    return statuses


def needs_reconsidering(crd: Json) -> bool:
    """Whether another definition's release of a name may resolve a conflict: some requested name is not accepted."""
    return _names((crd.get("spec") or {}).get("names")) != _names((crd.get("status") or {}).get("acceptedNames"))


def _names(names: Json | None) -> dict[str, Any]:
    empty = {"plural": "", "singular": "", "shortNames": [], "kind": "", "listKind": "", "categories": []}
    return {name: (names or {}).get(name) or nothing for name, nothing in empty.items()}


def _free_names(
    requested: dict[str, Any],
    accepted: dict[str, Any],
    is_resource_in_use: Callable[[str], bool],
    is_kind_in_use: Callable[[str], bool],
) -> tuple[dict[str, Any], str, str]:
    """The names to accept, and the reason and message of the last conflict, "" if there is none."""
    new = dict(accepted)
    reason = message = ""

    def claim(name: str, is_in_use: Callable[[str], bool], conflict: str) -> None:
        nonlocal reason, message
        if requested[name] != accepted[name] and is_in_use(requested[name]):
            reason, message = conflict, _in_use(requested[name])
        else:
            new[name] = requested[name]

    claim("plural", is_resource_in_use, "PluralConflict")
    claim("singular", is_resource_in_use, "SingularConflict")
    own = set(accepted["shortNames"])
    conflicts = [_in_use(n) for n in requested["shortNames"] if n not in own and is_resource_in_use(n)]
    if conflicts:
        conflicts = list(dict.fromkeys(conflicts))
        reason = "ShortNamesConflict"
        message = conflicts[0] if len(conflicts) == 1 else f"[{', '.join(conflicts)}]"
    else:
        new["shortNames"] = requested["shortNames"]
    claim("kind", is_kind_in_use, "KindConflict")
    claim("listKind", is_kind_in_use, "ListKindConflict")
    new["categories"] = requested["categories"]
    return new, reason, message


def _in_use(name: str) -> str:
    return f"{go_quote(name)} is already in use"
