"""The core of server-side apply: merge, release fields that are no longer applied, take over changed fields.

Follows structured-merge-diff merge/update.go (Updater.Apply) and apimachinery's structuredmerge.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from registry.apply.compare import FieldChanges
from registry.apply.errors import Conflict, Conflicts, TypedError
from registry.apply.fieldsets import FieldSet, difference, intersection, union, without
from registry.apply.fieldtexts import paths
from registry.apply.kind import NOBODYS, OwnershipKind
from registry.apply.managed import Managed, Manager, Owner
from registry.apply.merge import merge, remove
from registry.apply.objects import Object, display_name, without_managed
from registry.apply.owned import Untypable, field_set, reconcile_fields, with_named
from registry.apply.types import MergeType
from registry.apply.validate import errors_text, validate
from registry.apply.values import equal


class Apply(NamedTuple):
    """The applying manager, its version and subresource, and whether it forces conflicts."""

    manager: Manager
    api_version: str
    subresource: str
    force: bool


def apply_to(kind: OwnershipKind, live: Object, applied: Object, managed: Managed, by: Apply) -> tuple[Object, Managed]:
    """The new object, `live` itself if it is unchanged, and its owners; sets no times."""
    node = kind.type_of(by.api_version)
    mismatches = validate(applied, node)
    if mismatches:
        raise TypedError(f"failed to create typed patch object ({display_name(applied)}): {errors_text(mismatches)}")
    mine = without(field_set(applied, node), kind.resets(by.api_version, by.subresource))
    try:
        owners = {
            manager: owner.owning(reconcile_fields(owner.fields, kind.type_or_error(owner.api_version)))
            for manager, owner in managed.items()
            # Of a built-in kind, fields of another API (events.k8s.io) have no meaning here, and are given up.
            if not kind.builtin or kind.has_version(owner.api_version)
        }
        # Upstream converts the live object to each version first, so that these errors come before all others.
        lives = {
            v: kind.convert(live, v) for v in sorted({o.api_version for m, o in owners.items() if m != by.manager})
        }
        last = owners.get(by.manager)
        owners[by.manager] = Owner(by.api_version, mine, last.time if last else None)
        new = without_managed(merge(live, applied, node))
        if last and last.fields:
            new = _prune(kind, new, owners, last, by)
        _take(kind, live, new, owners, by, lives)
    except Untypable as error:
        raise kind.live_error(live, by.api_version, str(error)) from error
    except TypedError as error:
        # Upstream looks at the whole live object before it does anything else.
        if validate(live, node, duplicates=True):
            raise kind.live_error(live, by.api_version, str(error)) from error
        raise
    _update_owner(owners, by, last, difference(mine, NOBODYS))
    return (live if equal(live, new) else new), owners


def _update_owner(owners: Managed, by: Apply, last: Owner | None, mine: FieldSet) -> None:
    """The applier's own entry: removed if it owns nothing, the same object if it owns the same fields."""
    if not mine:
        del owners[by.manager]
    elif last is not None and last.api_version == by.api_version and mine == last.fields:
        owners[by.manager] = last
    else:
        owners[by.manager] = Owner(by.api_version, mine, last.time if last else None)


def _take(
    kind: OwnershipKind, live: Object, new: Object, owners: Managed, by: Apply, lives: Mapping[str, Object]
) -> None:
    """Detects conflicts, then takes the changed fields from other owners. Changes `owners`; `lives` has the live object
    at each of their versions."""
    by_version: dict[str, FieldChanges] = {by.api_version: kind.changes(live, new, by.api_version, by.subresource)}
    conflicts: list[Conflict] = []
    for manager in sorted(owners):
        if manager == by.manager:
            continue
        owner = owners[manager]
        version = owner.api_version
        there = by_version.get(version)
        if there is None:
            there = by_version[version] = kind.converted_changes(lives[version], new, version, by.subresource)
        if not by.force:
            conflicts.extend(
                Conflict(manager.text(), path) for path in paths(intersection(owner.fields, there.changed))
            )
        fields = difference(difference(owner.fields, there.changed), there.removed)
        if fields:
            owners[manager] = owner.owning(fields)
        else:
            del owners[manager]
    if conflicts:
        raise Conflicts(conflicts)


def _prune(kind: OwnershipKind, merged: Object, owners: Managed, last: Owner, by: Apply) -> Object:
    """`merged` without fields that the manager applied last time and that have no owner any more."""
    version = last.api_version
    if version == by.api_version and owners[by.manager].fields == last.fields:
        return merged
    owned: dict[str, FieldSet] = {}
    for owner in owners.values():
        owned[owner.api_version] = union(owned.get(owner.api_version, {}), owner.fields)
    if not difference(last.fields, owned.get(version, {})):
        return merged
    node = kind.type_of(version)
    dropped = with_named(last.fields, node)
    what = "failed to prune fields: failed to convert merged object"
    there = kind.convert(merged, version, f"{what} to last applied version")
    pruned = remove(there, dropped, node)
    what = "failed to prune fields: failed add back owned items: failed to convert merged object at version"
    for at in sorted(owned, key=lambda name: name != version):
        pruned = _keep_owned(
            kind.convert(merged, at, f"{what} {at}"),
            kind.convert(pruned, at, f"{what} {at}"),
            owned[at],
            kind.type_of(at),
        )
    # Only what the manager had applied is removed; unowned fields below it are restored with their parent.
    what = "failed to prune fields: failed to convert pruned object to last applied version"
    removed = _removed_fields(there, kind.convert(pruned, version, what), node)
    pruned = remove(there, intersection(removed, dropped), node)
    return kind.convert(pruned, by.api_version, what)


def _keep_owned(merged: Object, pruned: Object, owned: FieldSet, node: MergeType) -> Object:
    """`merged` without what `pruned` lacks, except for owned fields."""
    result: Object = remove(merged, difference(_removed_fields(merged, pruned, node), with_named(owned, node)), node)
    return result


def _removed_fields(merged: Object, pruned: Object, node: MergeType) -> FieldSet:
    return difference(with_named(field_set(merged, node), node), with_named(field_set(pruned, node), node))
