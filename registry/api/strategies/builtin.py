"""The base of built-in kinds, and of those that are Go structs: decoded by the table of their struct, stored in its
canonical form. Unlike custom resources they have no generation, unconditional updates, and optional kinds in bodies.

Follows kubernetes pkg/registry/core/*/strategy.go and apiserver pkg/registry/rest/{create,update}.go for the order of
the checks: a kind's own rules, which validate the metadata first, come before the common ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from registry.api.errors import Qualified, bad_request, forbidden
from registry.api.strategies.base import Context, Object, ObjectDecodeError
from registry.api.strategies.custom import CustomStrategy, with_revision
from registry.builtin.structs import unknown_fields
from registry.codec.go_text import cannot_be_handled_as, not_registered
from registry.codec.structs import structs as typed
from registry.codec.structs.base import StructDecodeError
from registry.codec.structs.conversion import conversion_fault
from registry.codec.structs.meta import UNVERSIONED
from registry.definitions.known_kinds import META_KINDS, is_kind_of_scheme, is_known_kind, is_known_version
from registry.emulation import emulated
from registry.schema.field import ErrorType, FieldError, required
from registry.schema.names import NameFunction, name_is_dns_subdomain, name_is_stored_segment
from registry.schema.objectmeta.rules import (
    finalizer_name_errors,
    validate_common_fields,
    validate_object_meta,
    validate_object_meta_update,
)

# Groups whose internal types are in a package of another name.
_PACKAGES = {"": "core", "events.k8s.io": "core", "rbac.authorization.k8s.io": "rbac"}


class BuiltinStrategy(CustomStrategy):
    """A built-in kind, by default without a status."""

    allow_unconditional_update = True
    completes_type = True
    # Where upstream registers the kind, which its errors name. A server with a single kind has a scheme of its own.
    scheme = "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"
    has_own_scheme: ClassVar[bool] = False
    # Versions that upstream knows, and that are not served here.
    known_versions: Sequence[str] = ()
    convertible: Sequence[str] = ()
    # Whether the names of finalizers must be standard or qualified, as in the core and RBAC groups.
    checks_finalizers: ClassVar[bool] = False

    def check_memory(self, what: str, limit: int, size: int, before: int, obj: Object, context: Context) -> None:
        """Raises a 403 if `obj`, of `size` instead of `before` bytes in memory, exceeds `limit`, that of those of the
        tenant."""
        room = context.memory_room
        if room is None or size <= before or size - before <= room:
            return
        why = f"exceeded quota: tenant {context.tenant.name}, its {what} may take {limit} bytes of memory"
        why += f", used: {limit - room}, requested: {size - before}"
        definition = self.definition
        raise forbidden(Qualified(definition.names.plural, definition.group), obj["metadata"].get("name") or "", why)

    def check_type(self, obj: Object, note: Callable[[list[str]], None]) -> None:
        """Upstream decodes the object by the struct of its own kind, then converts it, then compares the versions."""
        kind, api_version = obj["kind"], obj["apiVersion"]
        if kind == self._kind and api_version == self._api_version:
            return
        is_converted = kind == self._kind and self._has_version(api_version)
        unknown: list[str] = []
        if is_converted or self._is_known(kind, api_version):
            try:
                unknown = unknown_fields(kind, api_version, obj)
            except StructDecodeError as error:
                raise bad_request(cannot_be_handled_as(self._kind, kind, api_version, str(error))) from error
        if is_converted:
            note(unknown)
            raise bad_request(
                f"the API version in the data ({api_version}) does not match the expected API version "
                f"({self._api_version})"
            )
        raise bad_request(cannot_be_handled_as(self._kind, kind, api_version, self.type_fault(obj) or ""))

    def type_fault(self, obj: Object) -> str | None:
        kind, api_version = obj["kind"], obj["apiVersion"]
        if kind == self._kind and (api_version == self._api_version or self._has_version(api_version)):
            return None
        if self._is_known(kind, api_version) or kind in UNVERSIONED:
            version = "v1" if kind in UNVERSIONED | META_KINDS else api_version.rpartition("/")[2]
            return f"converting ({version}.{kind}) to ({self._go_package}.{self._kind}): unknown conversion"
        return not_registered(kind, api_version, self.scheme)

    @property
    def _go_package(self) -> str:
        """The package of the internal type, for errors."""
        group = self.definition.group
        return _PACKAGES.get(group) or group.partition(".")[0] or "core"

    def _is_known(self, kind: str, api_version: str) -> bool:
        if self.has_own_scheme:
            return is_kind_of_scheme(kind, api_version, self._kind, (self._api_version, *self.known_versions))
        return is_known_kind(kind, api_version)

    def _has_version(self, api_version: str) -> bool:
        """Whether the kind is converted from this version, which is not the one of the path."""
        if api_version in (*self.known_versions, *self.convertible):
            return True
        return is_known_version(self._kind, self.definition.group, api_version)

    def decode(self, obj: Object, unknown: list[str], old: Object | None = None) -> Object:
        """Keeps an empty managedFields, which clears the owners; custom resources are decoded without it."""
        metadata = obj.get("metadata")
        clears = isinstance(metadata, dict) and metadata.get("managedFields") == []
        decoded = super().decode(obj, unknown, old)
        if clears:
            decoded = {**decoded, "metadata": {**decoded["metadata"], "managedFields": []}}
        return decoded

    def decode_mutated(self, obj: Object, unknown: list[str]) -> Object:
        return self.decode(obj, unknown)  # into a struct, which has no unknown fields

    def finish_mutated(self, obj: Object) -> Object:
        return obj

    def name_function(self) -> NameFunction:
        return name_is_dns_subdomain

    def prepare_for_create(self, obj: Object, context: Context) -> None:
        return

    def meta_errors(self, obj: Object) -> list[FieldError]:
        """Returns the errors that the kind's own rules find in the metadata of a whole object."""
        metadata = obj["metadata"]
        errors = validate_object_meta(
            metadata, namespaced=self.definition.namespaced, name_function=self.name_function()
        )
        return errors + (finalizer_name_errors(metadata) if self.checks_finalizers else [])

    def meta_change_errors(self, new: Object, old: Object) -> list[FieldError]:
        """Returns the errors that the kind's own rules find in a change of the metadata."""
        metadata = with_revision(new, old)
        errors = validate_object_meta_update(metadata, old["metadata"])
        return errors + (finalizer_name_errors(metadata) if self.checks_finalizers else [])

    def validate(self, obj: Object) -> Sequence[FieldError]:
        errors = self.meta_errors(obj)
        return errors + self.schema.validate_values(obj) + self.schema.validate_list_types(obj)

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        return

    def validate_update(self, new: Object, old: Object, warnings: list[str]) -> Sequence[FieldError]:
        errors = validate_common_fields(
            with_revision(new, old), old["metadata"], namespaced=self.definition.namespaced
        ) + self.meta_change_errors(new, old)
        return errors + self.schema.validate_values(new) + self.schema.validate_list_types(new)

    def warnings(self, new: Object, old: Object | None) -> Sequence[str]:
        return ()


class StructStrategy(BuiltinStrategy):
    """A kind with a Go struct, which decodes it."""

    struct: ClassVar[typed.Struct]
    tells_repeated = True

    @property
    def zeros(self) -> Mapping[str, Any]:
        return typed.zero_members(self.struct)

    def decode_struct(self, obj: Object, unknown: list[str]) -> Object:
        """Decodes an object by its struct alone; adds unknown fields to `unknown`. Raises ObjectDecodeError."""
        try:
            decoded = typed.decode(self.struct, obj)
        except StructDecodeError as error:
            raise ObjectDecodeError(str(error)) from error
        unknown.extend(decoded.unknown)
        return decoded.value

    def conversion_fault(self, obj: Object) -> str | None:
        return conversion_fault(self.struct, obj)

    def complete(self, obj: Object) -> Object:
        return self.decode(obj, [])

    def in_struct_order(self, obj: Object) -> Object | None:
        return typed.encode(self.struct, obj)


class TypedStrategy(StructStrategy):
    """A kind that is stored as its struct; kinds override `default`, `errors` and `update_errors` as needed."""

    has_status: ClassVar[bool] = False
    # Whether the kind's own rules validate the metadata; they are the stricter ones.
    checks_metadata: ClassVar[bool] = True
    # Fields that can be selected by in addition to name and namespace; without any the refusal has another text.
    labels: ClassVar[tuple[str, ...]] = ()
    # Patterns of the fields that 1.37 requires by a tag of the Go struct (`+k8s:beta(since: "1.37")=+k8s:required`), in
    # the order of the struct.
    declared_required: ClassVar[tuple[str, ...]] = ()

    @property
    def only_name_and_namespace(self) -> bool:
        return not self.labels

    def field_labels(self) -> Sequence[str]:
        return self.labels

    def selectable(self, obj: Object) -> Iterable[tuple[str, str]]:
        for label in self.labels:
            yield label, _text_at(obj, label)

    def decode(self, obj: Object, unknown: list[str], old: Object | None = None) -> Object:
        value = self.decode_struct(obj, unknown)
        value["metadata"] = dict(value.get("metadata") or {})
        self.default(value)
        return value

    def default(self, obj: Object) -> None:
        """Applies the version's defaults to a decoded object, in place."""

    def as_written(self, obj: Object) -> Object:
        return typed.encode(self.struct, obj)

    def finish(self, obj: Object) -> Object:
        """Kinds override it where the form that is stored differs: Go's protobuf has no empty lists."""
        return typed.encode(self.struct, obj)

    def prepare_for_create(self, obj: Object, context: Context) -> None:
        super().prepare_for_create(obj, context)
        if self.has_status:
            obj.pop("status", None)

    def validate(self, obj: Object) -> Sequence[FieldError]:
        errors = self.errors(obj) or ([] if self.checks_metadata else self._common_errors(obj))
        return self._with_declared_last(errors)

    def _common_errors(self, obj: Object) -> list[FieldError]:
        """Returns the errors that are checked for every new object after its kind's own rules."""
        return validate_object_meta(
            obj["metadata"], namespaced=self.definition.namespaced, name_function=name_is_stored_segment
        )

    def errors(self, obj: Object) -> list[FieldError]:
        """Returns the errors of a whole object."""
        return self.meta_errors(obj)

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        super().prepare_for_update(new, old, context)
        if self.has_status:
            keep(new, old, "status")

    def validate_update(self, new: Object, old: Object, warnings: list[str]) -> Sequence[FieldError]:
        errors = validate_common_fields(with_revision(new, old), old["metadata"], namespaced=self.definition.namespaced)
        if self.checks_metadata:
            errors += self.meta_change_errors(new, old)
        return self._with_declared_last(errors + self.update_errors(new, old))

    def _with_declared_last(self, errors: list[FieldError]) -> list[FieldError]:
        """Returns the errors as 1.37 reports them: those of required fields that a tag declares, without words, last.

        Follows apiserver pkg/registry/rest/validate.go (ValidateDeclarativelyWithMigrationChecks) at v1.37.
        """
        if not self.declared_required or not emulated().is_1_37:
            return errors
        absent = [error for error in errors if error.type is ErrorType.REQUIRED]
        declared = [e for pattern in self.declared_required for e in absent if re.fullmatch(pattern, e.field)]
        return [e for e in errors if e not in declared] + [required(e.field) for e in declared]

    def update_errors(self, new: Object, old: Object) -> list[FieldError]:
        """Returns the errors of a change, after those of its metadata."""
        return self.errors(new)


def keep(new: Object, old: Object, name: str) -> None:
    """Restores a member to its old value."""
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def _text_at(obj: Object, path: str) -> str:
    value: object = obj
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""
