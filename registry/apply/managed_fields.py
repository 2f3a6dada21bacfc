"""Field ownership on each write of an object: the managedFields of an update, and server-side apply.

A FieldManager knows one kind: the schemas of its versions and how to convert. It is created once per definition and
holds no state of objects. Objects are decoded JSON at the version of the request; inputs are not changed, and results
share values with them. The caller loads the object, and afterwards defaults, validates and stores it; this computes the
new object and the owners of its fields.

Two things are better than in kube-apiserver 1.36, which loses the managedFields of an object (fixed upstream later):
an update of an object that does not fit its schema keeps the existing entries, and only the entries of a removed
version are dropped.

Follows apimachinery pkg/util/managedfields/internal and structured-merge-diff merge/update.go.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

from registry.apply.applying import Apply, apply_to
from registry.apply.compare import changes
from registry.apply.errors import ApplyError, Conflicts
from registry.apply.fieldsets import FieldSet, difference, has, union
from registry.apply.kind import NOBODYS, OwnershipKind
from registry.apply.managed import (
    Managed,
    Manager,
    Owner,
    applier,
    cap,
    encode,
    is_reset,
    read_requested,
    read_stored,
    updater,
)
from registry.apply.objects import Object, check_applied, entries_of, with_managed, without_managed
from registry.apply.owned import Untypable, field_set, reconcile_fields
from registry.apply.types import MergeType
from registry.apply.validate import validate
from registry.codec.go_text import go_json
from registry.schema.model import Json, Structural

BEFORE_FIRST_APPLY = "before-first-apply"
KUBECTL = "kubectl"


class FieldManager:
    """The rules of ownership for one kind.

    `schemas` returns the schema of each served and stored version by its apiVersion (`g/v1`), created on first use.
    `convert(object, api_version)` returns an object at another version, or raises ConversionFailed; by default, only
    the apiVersion changes. `status_versions` are the versions with a status subresource. `builtin` kinds have rules of
    their own (kind.py), and with them a client's `[]` removes all entries, as `[{}]` does everywhere. `zeros`
    are the members that their Go structs always have. `checked_items` are, by apiVersion and by the name of a list in
    the spec, the types of items that the schema does not describe in full (`struct_type`).
    """

    def __init__(
        self,
        kind: str,
        schemas: Mapping[str, Callable[[], Structural]],
        *,
        convert: Callable[[Object, str], Object] | None = None,
        status_versions: Collection[str] = (),
        builtin: bool = False,
        zeros: Mapping[str, Any] = MappingProxyType({}),
        checked_items: Mapping[str, Mapping[str, MergeType]] = MappingProxyType({}),
    ) -> None:
        self._kind = OwnershipKind(kind, schemas, convert, status_versions, builtin, zeros, checked_items)

    @property
    def kind(self) -> str:
        return self._kind.name

    def type_of(self, api_version: str) -> MergeType:
        """The type of a version's objects; KeyError if there is no such version."""
        return self._kind.type_of(api_version)

    def update(
        self, live: Object | None, new: Object, manager: str, api_version: str, now: str, subresource: str = ""
    ) -> Object:
        """`new` with its managedFields after a create (`live` is None), update or patch by `manager` at `now`.

        `now` is `2026-01-31T12:00:00Z`. Never fails: if the object cannot be typed, the entries stay as they are.
        """
        metadata = new.get("metadata")
        if type(metadata) is not dict:
            return new
        managed = self._entries_to_start_from(live or {}, metadata, subresource)
        if live is not None and not managed:
            return with_managed(new, {})
        me = updater(manager, api_version, subresource)
        before = live or {"apiVersion": api_version, "kind": self.kind}
        try:
            return with_managed(new, self._update_owners(before, new, managed, me, now))
        except (Untypable, ApplyError):
            return with_managed(new, managed)

    def apply(
        self,
        live: Object | None,
        applied: Object,
        manager: str,
        api_version: str,
        now: str,
        *,
        force: bool = False,
        subresource: str = "",
    ) -> Object:
        """The object after `manager` applies `applied` to `live`; `live` itself if nothing changes.

        On a create `live` is None. Raises InvalidApply, TypedError or Conflicts.
        """
        check_applied(applied, api_version, self.kind)
        base = {"apiVersion": api_version, "kind": self.kind} if live is None else without_managed(live)
        managed = {} if live is None else read_stored(entries_of(live))
        if live is not None and not managed:
            managed = self._before_first_apply(base, api_version, now, subresource)
        by = Apply(applier(manager, subresource), api_version, subresource, force)
        try:
            new, owners = apply_to(self._kind, base, applied, managed, by)
        except Conflicts as error:
            if manager != KUBECTL or live is None:
                raise
            self._check_migration(error, base, api_version)
            new, owners = apply_to(self._kind, base, applied, managed, by._replace(force=True))
        if new is not base and by.manager in owners:
            # A change of ownership alone updates no time: a new entry has none then.
            owners[by.manager] = owners[by.manager]._replace(time=now, entry=None)
        if manager == KUBECTL:
            new = with_last_applied(new, applied)
        if new is base and live is not None and owners.keys() == managed.keys() and encode(owners) == entries_of(live):
            return live
        return with_managed(new, owners)

    def _entries_to_start_from(self, live: Object, metadata: Object, subresource: str) -> Managed:
        """The client's entries, if it sent valid ones, else the stored ones."""
        entries, ours = metadata.get("managedFields"), entries_of(live)
        if subresource or entries is None or entries is ours or entries == ours:
            return read_stored(ours)
        if is_reset(entries) or (self._kind.builtin and entries == []):
            return {}
        return read_requested(entries) or read_stored(ours)

    def _update_owners(self, live: Object, new: Object, managed: Managed, me: Manager, now: str) -> Managed:
        """The owners after an update: changed fields are taken from all others, removed fields from everyone."""
        kind, api_version = self._kind, me.api_version
        live, new = kind.with_zeros(live), kind.with_zeros(new)
        diff = kind.changes(live, new, api_version, me.subresource)
        by_version = {api_version: diff}
        result: Managed = {}
        for manager, owner in managed.items():
            version = owner.api_version
            there = by_version.get(version)
            if there is None:
                if not kind.has_version(version):
                    continue  # fields of a removed version have no meaning any more
                there = by_version[version] = kind.changes_at(version, live, new, me.subresource)
            fields = reconcile_fields(owner.fields, kind.type_of(version))
            if manager != me:
                fields = difference(fields, there.changed)
            fields = difference(fields, there.removed)
            if fields:
                result[manager] = owner.owning(fields)
        mine = difference(diff.changed, NOBODYS)
        if mine:
            before = result.get(me)
            result[me] = Owner(api_version, mine if before is None else union(mine, before.fields), now)
        cap(result)
        return result

    def _before_first_apply(self, base: Object, api_version: str, now: str, subresource: str) -> Managed:
        """For an object without owners: its fields belong to one common manager, "before-first-apply"."""
        empty = {"apiVersion": api_version, "kind": self.kind}
        try:
            return self._update_owners(empty, base, {}, updater(BEFORE_FIRST_APPLY, api_version, subresource), now)
        except Untypable as error:
            raise self._kind.live_error(base, api_version, str(error)) from error

    def _check_migration(self, error: Conflicts, live: Object, api_version: str) -> None:
        """kubectl may take over what its own client-side apply had set; anything else remains a conflict."""
        allowed = fields_last_applied(live, api_version, self.type_of(api_version))
        if allowed is None:
            raise error
        left = [conflict for conflict in error.conflicts if not has(allowed, conflict.path)]
        if left:
            raise Conflicts(left) from error


# -- the last-applied-configuration annotation of kubectl's client-side apply, which server-side apply takes over
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

# The limit on all annotations of an object; the annotation is dropped rather than failing an apply.
MAX_ANNOTATIONS_BYTES = 256 * 1024


def fields_last_applied(live: dict[str, Json], api_version: str, node: MergeType) -> FieldSet | None:
    """The fields that client-side apply set and that are unchanged since; None without a usable annotation."""
    text = _annotation(live)
    if not text:
        return None
    try:
        configuration = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(configuration, dict) or configuration.get("apiVersion") != api_version:
        return None
    if not configuration.get("kind") or validate(configuration, node) or validate(live, node):
        return None
    try:
        diff = changes(configuration, live, node)
    except Untypable:
        return None
    return difference(difference(field_set(configuration, node), diff.changed), diff.removed)


def with_last_applied(value: dict[str, Json], applied: dict[str, Json]) -> dict[str, Json]:
    """`value` with its annotation, if it has one, updated to the configuration applied now."""
    if not _annotation(value):
        return value
    text = _configuration(applied)
    annotations = {**value["metadata"]["annotations"], LAST_APPLIED: text}
    if _bytes(annotations) > MAX_ANNOTATIONS_BYTES:
        del annotations[LAST_APPLIED]
    elif value["metadata"]["annotations"].get(LAST_APPLIED) == text:
        return value
    metadata = {**value["metadata"], "annotations": annotations}
    return {**value, "metadata": metadata}


def _configuration(applied: dict[str, Json]) -> str:
    metadata = applied.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if isinstance(metadata, dict) and "annotations" in metadata:
        metadata = dict(metadata)
        if annotations is None:
            del metadata["annotations"]
        else:
            metadata["annotations"] = {name: text for name, text in annotations.items() if name != LAST_APPLIED}
        applied = {**applied, "metadata": metadata}
    return go_json(applied) + "\n"


def _annotation(value: dict[str, Json]) -> str:
    metadata = value.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    text = annotations.get(LAST_APPLIED) if isinstance(annotations, dict) else None
    return text if isinstance(text, str) else ""


def _bytes(annotations: dict[str, Json]) -> int:
    return sum(
        len(name.encode("utf-8", "surrogatepass")) + len(str(text).encode("utf-8", "surrogatepass"))
        for name, text in annotations.items()
    )
