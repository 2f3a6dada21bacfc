"""Names and establishment of definitions.

A definition holds the names in its status.acceptedNames; the others of its group cannot use them. After its creation a
definition goes through two writes, by functions that return the new status, if any:

    accept_names   NamesAccepted=True, Established=False (Installing)
    establish      Established=True; from here on the resource is served

When a definition changes its accepted names, or is deleted, the others of its group are reconciled again.

Follows apiextensions-apiserver pkg/controller/status/naming_controller.go, pkg/controller/establish and
pkg/controller/apiapproval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from registry.definitions import nonstructural, types
from registry.definitions.approval import approval_condition
from registry.definitions.conditions import equivalent, find, is_true, with_condition
from registry.definitions.conversion import has_invalid_ca_bundle
from registry.definitions.structs import structs as typed
from registry.schema.field import go_quote

Json = Mapping[str, Any]
Status = dict[str, Any]


def accept_names(crd: Json, others: Iterable[Json], now: str) -> Status | None:
    """The status with accepted names and the conditions NamesAccepted and Established; None if it stays as it is.

    `others` are the definitions of the tenant, of which those of other groups and `crd` itself do not matter; `now` is
    in RFC 3339. Names that equal the accepted ones are not looked at, so that a conflict which ended by asking for the
    old names again stays on display, as in the reference.
    """
    requested = _names((crd.get("spec") or {}).get("names"))
    accepted = _names((crd.get("status") or {}).get("acceptedNames"))
    if requested == accepted:
        return None
    new, reason, message = _free_names(requested, accepted, *_names_in_use(crd, others))
    names_accepted = {
        "type": "NamesAccepted",
        "status": "False" if reason else "True",
        "reason": reason or "NoConflicts",
        "message": message or "no conflicts found",
    }
    if new == accepted and equivalent(names_accepted, find(crd, "NamesAccepted")):
        return None
    status = {**(crd.get("status") or {}), "acceptedNames": typed.encode(types.Names, new)}
    status = with_condition(
        status, "NamesAccepted", names_accepted["status"], names_accepted["reason"], names_accepted["message"], now
    )
    if not is_true(crd, "Established") and not reason:
        return with_condition(status, "Established", "False", "Installing", "the initial names have been accepted", now)
    old = find(crd, "Established")
    if old is None:
        return with_condition(status, "Established", "False", "NotAccepted", "not all names are accepted", now)
    return status


def establish(crd: Json, now: str) -> Status | None:
    """The status with Established=True once the names are accepted; None if it stays as it is.

    A conversion webhook with a CA bundle that holds no certificate keeps a definition from being established.
    """
    if not is_true(crd, "NamesAccepted") or is_true(crd, "Established"):
        return None
    condition = ("True", "InitialNamesAccepted", "the initial names have been accepted")
    if has_invalid_ca_bundle((crd.get("spec") or {}).get("conversion")):
        condition = ("False", "InvalidCABundle", "The conversion webhook CABundle is invalid")
    wanted = {"type": "Established", "status": condition[0], "reason": condition[1], "message": condition[2]}
    if equivalent(wanted, find(crd, "Established")):
        return None
    return with_condition(crd.get("status") or {}, "Established", *condition, now)


def approve(crd: Json, now: str) -> Status | None:
    """The status with KubernetesAPIApprovalPolicyConformant, in protected groups; None if it stays as it is."""
    wanted = approval_condition(crd)
    if wanted is None or equivalent(wanted, find(crd, wanted["type"])):
        return None
    return with_condition(
        crd.get("status") or {}, wanted["type"], wanted["status"], wanted["reason"], wanted["message"], now
    )


def next_status(crd: Json, others: Iterable[Json], now: str) -> Status | None:
    """The next due write to the status, one of the above; None when nothing is due.

    The caller writes it, and calls again with the result; after at most five writes nothing is due.
    """
    return (
        accept_names(crd, others, now)
        or establish(crd, now)
        or approve(crd, now)
        or nonstructural.next_status(crd, now)
    )


def needs_reconsidering(crd: Json) -> bool:
    """Whether another definition that releases a name could help this one: some name of its is not accepted."""
    return _names((crd.get("spec") or {}).get("names")) != _names((crd.get("status") or {}).get("acceptedNames"))


def _names(names: Json | None) -> dict[str, Any]:
    given = names or {}
    return {
        name: given.get(name) or empty
        for name, empty in (
            ("plural", ""),
            ("singular", ""),
            ("shortNames", []),
            ("kind", ""),
            ("listKind", ""),
            ("categories", []),
        )
    }


def _names_in_use(crd: Json, others: Iterable[Json]) -> tuple[set[str], set[str]]:
    """The accepted names of the group: plurals, singulars and short names share one set, the kinds another."""
    group = (crd.get("spec") or {}).get("group") or ""
    own_name = (crd.get("metadata") or {}).get("name")
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in [*others, crd]:
        same_object = other is not crd and (other.get("metadata") or {}).get("name") == own_name
        if ((other.get("spec") or {}).get("group") or "") != group or same_object:
            continue
        names = _names((other.get("status") or {}).get("acceptedNames"))
        resources.update((names["plural"], names["singular"], *names["shortNames"]))
        kinds.update((names["kind"], names["listKind"]))
    return resources, kinds


def _free_names(
    requested: dict[str, Any], accepted: dict[str, Any], resources: set[str], kinds: set[str]
) -> tuple[dict[str, Any], str, str]:
    """The names to accept, and the reason and message of the last conflict, "" where there is none."""
    new = dict(accepted)
    reason = message = ""

    def claim(name: str, taken: set[str], conflict: str) -> None:
        nonlocal reason, message
        if requested[name] != accepted[name] and requested[name] in taken:
            reason, message = conflict, _in_use(requested[name])
        else:
            new[name] = requested[name]

    claim("plural", resources, "PluralConflict")
    claim("singular", resources, "SingularConflict")
    own = set(accepted["shortNames"])
    conflicts = [_in_use(n) for n in requested["shortNames"] if n not in own and n in resources]
    if conflicts:
        conflicts = list(dict.fromkeys(conflicts))
        reason = "ShortNamesConflict"
        message = conflicts[0] if len(conflicts) == 1 else f"[{', '.join(conflicts)}]"
    else:
        new["shortNames"] = requested["shortNames"]
    claim("kind", kinds, "KindConflict")
    claim("listKind", kinds, "ListKindConflict")
    new["categories"] = requested["categories"]
    return new, reason, message


def _in_use(name: str) -> str:
    return f"{go_quote(name)} is already in use"
