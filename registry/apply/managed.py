"""The entries of metadata.managedFields: decoding, capping, ordering and encoding.

Internally a dict from Manager to Owner. An applier's entry has the same identity at any version; an updater has one
entry per version. Follows apimachinery pkg/util/managedfields/internal/{managedfields,capmanagers}.go.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from registry.apply.fieldsets import FieldSet, union
from registry.apply.fieldtexts import UnreadableFields, read
from registry.codec.go_text import go_quote
from registry.schema.model import Json

APPLY = "Apply"
UPDATE = "Update"

# An object with many writers would otherwise gain an entry for each (capmanagers.go).
MAX_UPDATERS = 10
ANCIENT = "ancient-changes"


class Manager(NamedTuple):
    """The identity of an entry. `api_version` is empty for an applier."""

    name: str
    operation: str
    api_version: str = ""
    subresource: str = ""

    def text(self) -> str:
        """As named in conflicts: `"m" with subresource "status" using g/v1`."""
        text = go_quote(self.name)
        if self.subresource:
            text += f" with subresource {go_quote(self.subresource)}"
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


class Owner(NamedTuple):
    """The fields of a manager at a version. `entry` is the decoded entry, reused if nothing changed."""

    api_version: str
    fields: FieldSet
    time: str | None
    entry: dict[str, Json] | None = None

    def owning(self, fields: FieldSet) -> Owner:
        return self if fields is self.fields else Owner(self.api_version, fields, self.time)


Managed = dict[Manager, Owner]


def applier(name: str, subresource: str) -> Manager:
    return Manager(name or "unknown", APPLY, "", subresource)


def updater(name: str, api_version: str, subresource: str) -> Manager:
    return Manager(name or "unknown", UPDATE, api_version, subresource)


def read_stored(entries: Sequence[dict[str, Json]] | None) -> Managed:
    """Decodes the entries of a stored object, which were validated when written."""
    result: Managed = {}
    for entry in entries or ():
        operation, api_version = entry["operation"], entry["apiVersion"]
        manager = Manager(
            entry.get("manager", ""),
            operation,
            api_version if operation == UPDATE else "",
            entry.get("subresource", ""),
        )
        result[manager] = Owner(api_version, entry.get("fieldsV1") or {}, entry.get("time"), entry)
    return result


def is_reset(entries: Json) -> bool:
    """Whether a client requests the removal of all entries, by `[{}]`: one entry in which nothing is set."""
    return (
        isinstance(entries, list)
        and len(entries) == 1
        and isinstance(entries[0], dict)
        and not any(value for name, value in entries[0].items() if name in _MEMBERS and name != "fieldsV1")
        and entries[0].get("fieldsV1") is None
    )


_MEMBERS = frozenset({"manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"})


def read_requested(entries: Json) -> Managed | None:
    """Decodes the entries that a client sent with an update; None if one is invalid: all are ignored then."""
    if not isinstance(entries, list):
        return {} if entries is None else None
    result: Managed = {}
    for entry in entries:
        parsed = _read_entry(entry)
        if parsed is None:
            return None
        result[parsed[0]] = parsed[1]
    return result


def invalid_reason(entries: Sequence[dict[str, Json]] | None) -> str | None:
    """Returns why these entries of a decoded object are invalid, in the words of DecodeManagedFields; else None."""
    for position, entry in enumerate(entries or ()):
        fields_type = entry.get("fieldsType") or ""
        if entry.get("operation") not in (APPLY, UPDATE):
            return "operation must be `Apply` or `Update`"
        if not entry.get("apiVersion"):
            return "apiVersion must not be empty"
        if not fields_type:
            return f"missing fieldsType in managed fields entry {position}"
        if fields_type != "FieldsV1":
            return f"invalid fieldsType {go_quote(fields_type)} in managed fields entry {position}"
        if _read_entry(entry) is None:
            return f"error decoding versioned set of managed fields entry {position}"
    return None


def _read_entry(entry: Json) -> tuple[Manager, Owner] | None:
    if not isinstance(entry, dict):
        return None
    texts = {}
    for name in ("manager", "operation", "apiVersion", "fieldsType", "subresource"):
        texts[name] = entry.get(name) or ""
        if not isinstance(texts[name], str):
            return None
    if texts["operation"] not in (APPLY, UPDATE) or not texts["apiVersion"] or texts["fieldsType"] != "FieldsV1":
        return None
    try:
        time = _time(entry.get("time"))
        fields = read(entry.get("fieldsV1"))
    except (UnreadableFields, ValueError):
        return None
    api_version = texts["apiVersion"]
    manager = Manager(
        texts["manager"], texts["operation"], api_version if texts["operation"] == UPDATE else "", texts["subresource"]
    )
    return manager, Owner(api_version, fields, time)


_SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


def _time(value: Json) -> str | None:
    """RFC 3339 in UTC and whole seconds, as metav1.Time is encoded."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError
    # Both validate: the pattern the form, datetime the numbers.
    moment = datetime.fromisoformat(value)
    if _SECONDS.fullmatch(value):
        return value
    if moment.tzinfo is None or "T" not in value:
        raise ValueError
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def encode(managed: Managed) -> list[Json]:
    """The entries in kube-apiserver's order: appliers first, then by time, name, version and subresource."""
    if len(managed) == 1:
        return [_entry(manager, owner) for manager, owner in managed.items()]
    order = sorted(managed.items(), key=_rank)
    return [_entry(manager, owner) for manager, owner in order]


def _rank(item: tuple[Manager, Owner]) -> tuple[str, str, str, str, str]:
    manager, owner = item
    return manager.operation, owner.time or "", manager.name, owner.api_version, manager.subresource


def _entry(manager: Manager, owner: Owner) -> dict[str, Json]:
    if owner.entry is not None:
        return owner.entry
    entry: dict[str, Json] = {
        "apiVersion": owner.api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": owner.fields,
        **({"manager": manager.name} if manager.name else {}),
        "operation": manager.operation,
    }
    if manager.subresource:
        entry["subresource"] = manager.subresource
    if owner.time is not None:
        entry["time"] = owner.time
    return entry


def cap(managed: Managed) -> None:
    """Merges the oldest updaters, version by version, until no more than MAX_UPDATERS are left. Changes `managed`."""
    if len(managed) <= MAX_UPDATERS:
        return
    updaters = [manager for manager in managed if manager.operation == UPDATE]
    surplus = len(updaters) - MAX_UPDATERS
    if surplus <= 0:
        return
    updaters.sort(key=lambda manager: (managed[manager].time or "", manager))
    oldest: dict[str, Manager] = {}
    for manager in updaters:
        if surplus <= 0:
            return
        first = oldest.setdefault(manager.api_version, manager)
        if first is manager:
            continue
        bucket = Manager(ANCIENT, UPDATE, manager.api_version)
        # The later time is that of the fields merged last.
        owner, other = managed.pop(manager), managed.pop(first)
        managed[bucket] = Owner(owner.api_version, union(owner.fields, other.fields), owner.time)
        oldest[manager.api_version] = bucket
        surplus -= 1
