"""The properties of a kind that ownership depends on: types of its versions, conversion, fields of subresources.

In Go a built-in object is a struct: `spec: {}` or `status.acceptedNames` exist before any client sets them, so no
manager ever adds them, and no entry has a `.` for them. What a subresource resets follows the GetResetFields of the
kinds' strategies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any

from registry.apply.compare import NOTHING, FieldChanges, changes
from registry.apply.errors import ApplyError, TypedError
from registry.apply.fieldsets import FieldSet, without
from registry.apply.objects import Object, display_name, without_managed
from registry.apply.owned import Untypable, declared_members
from registry.apply.types import MergeType, compile_type
from registry.apply.validate import errors_text, validate
from registry.schema.model import Structural

# Fields without owners, regardless of the writer (stripmeta.go).
NOBODYS: FieldSet = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {
        f: {}
        for f in """
        . f:name f:namespace f:creationTimestamp f:selfLink f:uid f:clusterName f:generation f:managedFields
        f:resourceVersion
        """.split()
    },
}

_NOT_OF_MAIN: FieldSet = {"f:status": {}}
_NOT_OF_STATUS: FieldSet = {"f:apiVersion": {}, "f:kind": {}, "f:metadata": {}, "f:spec": {}}

# Tenants share schemas, and so their types.
_type_of = lru_cache(maxsize=4096)(compile_type)

_STATUS: FieldSet = {"f:status": {}}
_NOT_STATUS: FieldSet = {"f:metadata": {}, "f:spec": {}}
_SPEC_ONLY: FieldSet = {"f:spec": {}}
# Their status can be written together with labels and annotations.
_STATUS_WITH_METADATA = frozenset({"CustomResourceDefinition", "Namespace", "ResourceQuota", "Service"})
_WITH_STATUS = _STATUS_WITH_METADATA | {"APIService", "StorageVersionMigration", "ValidatingAdmissionPolicy"}


class OwnershipKind:
    """See FieldManager for the arguments."""

    def __init__(
        self,
        name: str,
        schemas: Mapping[str, Callable[[], Structural]],
        convert: Callable[[Object, str], Object] | None,
        status_versions: Collection[str],
        builtin: bool,
        zeros: Mapping[str, Any],
        checked_items: Mapping[str, Mapping[str, MergeType]],
    ) -> None:
        self.name = name
        self.builtin = builtin
        self._schemas = schemas
        self._types: dict[str, MergeType] = {}
        self._convert = convert or _with_version
        self._status_versions = frozenset(status_versions)
        self._zeros = zeros
        self._checked_items = checked_items

    def has_version(self, api_version: str) -> bool:
        return api_version in self._schemas

    def type_of(self, api_version: str) -> MergeType:
        """The type of a version's objects; KeyError if there is no such version."""
        type_ = self._types.get(api_version)
        if type_ is None:
            type_ = self._types[api_version] = _type_of(self._schemas[api_version]())
            for name, checked in self._checked_items.get(api_version, {}).items():
                type_.fields["spec"][1].fields[name][1].checked = checked
        return type_

    def type_or_error(self, api_version: str) -> MergeType:
        if api_version not in self._schemas:
            raise TypedError(f"request to convert CR to an invalid group/version: {api_version}")
        return self.type_of(api_version)

    def resets(self, api_version: str, subresource: str) -> FieldSet:
        """The fields that a write through a subresource leaves unchanged, and that it therefore cannot own."""
        if self.builtin:
            return builtin_resets(self.name, subresource)
        if subresource == "status":
            return _NOT_OF_STATUS
        return _NOT_OF_MAIN if api_version in self._status_versions else {}

    def _resets_elsewhere(self, api_version: str, subresource: str) -> FieldSet:
        """The same for fields that are owned at another version than that of the write.

        Of a custom resource, each version's main resource resets its own fields only, but a status those of all
        versions that have one (apiextensions-apiserver pkg/apiserver/customresource_handler.go, getStatusResetFields).
        """
        if self.builtin or (subresource == "status" and api_version in self._status_versions):
            return self.resets(api_version, subresource)
        return {}

    def changes(self, live: Object, new: Object, api_version: str, subresource: str) -> FieldChanges:
        """The changes of a write through a subresource, except managedFields; both objects are at that version."""
        return _except(object_changes(live, new, self.type_of(api_version)), self.resets(api_version, subresource))

    def converted_changes(self, live: Object, new: Object, api_version: str, subresource: str) -> FieldChanges:
        """The same at another version, which `live` has been converted to. Raises a TypedError if `new` cannot be."""
        new = self.convert(new, api_version, "failed to convert new object")
        diff = object_changes(live, new, self.type_of(api_version))
        return _except(diff, self._resets_elsewhere(api_version, subresource))

    def changes_at(self, api_version: str, live: Object, new: Object, subresource: str) -> FieldChanges:
        """The changes at another version: fields that it does not know cannot be owned there."""
        node = self.type_of(api_version)
        live, new = self._convert(live, api_version), self._convert(new, api_version)
        try:
            diff = object_changes(live, new, node)
        except Untypable:
            diff = object_changes(declared_members(live, node), declared_members(new, node), node)
        return _except(diff, self._resets_elsewhere(api_version, subresource))

    def convert(self, value: Object, api_version: str, what: str = "") -> Object:
        """`value` at another version, if it fits that; else raises a TypedError that begins with `what`."""
        if value.get("apiVersion") == api_version:
            return value
        what = what and f"{what}: "
        try:
            converted = self._convert(value, api_version)
        except ApplyError as error:
            raise TypedError(f"{what}{error}") from error
        mismatches = validate(converted, self.type_or_error(api_version), duplicates=True)
        if mismatches:
            raise TypedError(f"{what}{errors_text(mismatches)}")
        return converted

    def with_zeros(self, value: Object) -> Object:
        """`value` with the members that a built-in kind always has."""
        return with_zeros(value, self._zeros)

    def live_error(self, live: Object, api_version: str, otherwise: str) -> TypedError:
        """Why the live object does not fit its type: validation accepted it, or an older schema did."""
        mismatches = validate(live, self.type_of(api_version), duplicates=True)
        text = errors_text(mismatches) if mismatches else otherwise
        return TypedError(f"failed to create typed live object ({display_name(live)}): {text}")


def _except(diff: FieldChanges, reset: FieldSet) -> FieldChanges:
    return FieldChanges(without(diff.changed, reset), without(diff.removed, reset)) if reset else diff


def object_changes(live: Object, new: Object, node: MergeType) -> FieldChanges:
    """The changes, except those of managedFields."""
    if live is new:
        return NOTHING
    before, after = live.get("metadata"), new.get("metadata")
    if before is not after:
        if isinstance(before, dict) and "managedFields" in before:
            live = without_managed(live)
        if isinstance(after, dict) and "managedFields" in after:
            new = without_managed(new)
    return changes(live, new, node)


def _with_version(value: Object, api_version: str) -> Object:
    """Conversion by the strategy None."""
    return {**value, "apiVersion": api_version}


def builtin_resets(kind: str, subresource: str) -> FieldSet:
    """The fields of a kind that a write through a subresource leaves unchanged."""
    if kind not in _WITH_STATUS:
        return {}
    if subresource == "status":
        return _SPEC_ONLY if kind in _STATUS_WITH_METADATA else _NOT_STATUS
    return _STATUS


def with_zeros(value: dict[str, Any], zeros: Mapping[str, Any]) -> dict[str, Any]:
    """`value` with the members that its Go struct always has; `value` itself if it has them all."""
    result = value
    for name, zero in zeros.items():
        part = value.get(name)
        if part is None:
            filled = zero
        elif type(zero) is dict and type(part) is dict:
            filled = with_zeros(part, zero)
        else:
            continue
        if filled is not part or name not in value:
            if result is value:
                result = dict(value)
            result[name] = filled
    return result
