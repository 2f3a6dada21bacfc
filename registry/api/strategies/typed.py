"""Built-in kinds that are Go structs: decoded by the table of their struct, stored in its canonical form.

Follows kubernetes pkg/registry/core/*/strategy.go and apiserver pkg/registry/rest/{create,update}.go for the order of
the checks: a kind's own rules, which validate the metadata first, come before the common ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from registry.api.strategies.base import Context, Object, ObjectDecodeError
from registry.api.strategies.builtin import BuiltinStrategy
from registry.api.strategies.custom import with_revision
from registry.codec.structs import structs as typed
from registry.codec.structs.base import StructDecodeError as TypedDecodeError
from registry.codec.structs.conversion import conversion_fault
from registry.emulation import emulated
from registry.schema.field import ErrorType, FieldError, required
from registry.schema.names import name_is_stored_segment
from registry.schema.objectmeta.rules import validate_common_fields, validate_object_meta


class TypedStrategy(BuiltinStrategy):
    """`struct` decodes; kinds override `default`, `errors` and `update_errors` as needed."""

    struct: ClassVar[typed.Struct]
    tells_repeated = True
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

    @property
    def zeros(self) -> Mapping[str, Any]:
        return typed.zero_members(self.struct)

    def decode(self, obj: Object, unknown: list[str], old: Object | None = None) -> Object:
        try:
            decoded = typed.decode(self.struct, obj)
        except TypedDecodeError as error:
            raise ObjectDecodeError(str(error)) from error
        unknown.extend(decoded.unknown)
        value = decoded.value
        value["metadata"] = dict(value.get("metadata") or {})
        self.default(value)
        return value

    def conversion_fault(self, obj: Object) -> str | None:
        return conversion_fault(self.struct, obj)

    def complete(self, obj: Object) -> Object:
        return self.decode(obj, [])

    def default(self, obj: Object) -> None:
        """Applies the version's defaults to a decoded object, in place."""

    def in_struct_order(self, obj: Object) -> Object | None:
        return typed.encode(self.struct, obj)

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
