"""Custom resources: driven by the schema of the version.

Follows apiextensions-apiserver pkg/registry/customresource/{strategy,validator,status_strategy}.go and
pkg/apiserver/customresource_handler.go (the decoder).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, Final

from registry.api.served import field_value
from registry.api.strategies.base import Context, Object, ObjectDecodeError, Strategy
from registry.apply.validate import go_plain
from registry.apply.values import equal
from registry.cel.rules.rules import compile_rules
from registry.codec.go_text import go_type
from registry.codec.structs.base import StructDecodeError
from registry.definitions.model import Definition, Scale, Version
from registry.schema.compiled import CompiledSchema, blocks_rules, compile_schema, unchecked_rules_error
from registry.schema.field import FieldError, invalid
from registry.schema.objectmeta.decoding import decode_object_meta, drop_malformed
from registry.schema.objectmeta.rules import (
    finalizer_warnings,
    validate_common_fields,
    validate_custom_meta,
    validate_custom_meta_update,
)
from registry.schema.pruning import META_FIELDS
from registry.schema.values import deep_copy


class CustomStrategy(Strategy):
    """The main resource of a custom resource at one version."""

    def __init__(self, definition: Definition, version: Version) -> None:
        self.definition = definition
        self.version = version
        self._api_version = f"{definition.group}/{version.name}" if definition.group else version.name
        self._kind = definition.names.kind
        self._status_default: Any = _UNKNOWN

    @property
    def schema(self) -> CompiledSchema:
        return self.version.schema()

    def part(self, subresource: str) -> CustomStrategy:
        return StatusStrategy(self.definition, self.version) if subresource == "status" else self

    def field_labels(self) -> Sequence[str]:
        return [path.lstrip(".") for path in self.version.selectable_fields]

    def selectable(self, obj: Object) -> Iterable[tuple[str, str]]:
        return [(path, field_value(obj, path)) for path in self.definition.selectable_fields]

    def decode(self, obj: Object, unknown: list[str], old: Object | None = None) -> Object:
        return self._decode(obj, unknown, old=old)

    def decode_mutated(self, obj: Object, unknown: list[str]) -> Object:
        """Applies defaults: other admission sees the fields that the schema does not name, as in kube-apiserver."""
        if not self.version.storage:
            obj = deep_copy(obj)  # what another version changes must not appear in the old object
        schema = self._schema_for(obj)
        if schema is not None:
            schema.default(obj)
        return obj

    def finish_mutated(self, obj: Object) -> Object:
        return self._decode(deep_copy(obj), [], keeps_refused_nulls=True)

    def _decode(
        self, obj: Object, unknown: list[str], *, keeps_refused_nulls: bool = False, old: Object | None = None
    ) -> Object:
        try:
            schema = self._schema_for(obj)
            # A patched object shares unchanged parts with the old object, which the storage version has processed.
            # What another version changes must not appear in the old object.
            processed = old if self.version.storage and schema is self.schema else None
            if processed is None and (old is not None or not self.version.storage):
                obj = deep_copy(obj)
            if schema is not None:
                schema.process(obj, unknown, keeps_refused_nulls=keeps_refused_nulls, old=processed)
            elif "apiVersion" in obj and obj["apiVersion"] is None:
                raise ObjectDecodeError(_NO_TEXT)
            else:
                obj["metadata"] = decode_object_meta(obj.get("metadata"), unknown=unknown)
        except StructDecodeError as error:
            raise ObjectDecodeError(str(error)) from error
        # A copy, because the server writes into it: a patched object shares its metadata with the old object.
        obj["metadata"] = dict(obj.get("metadata") or {})
        return obj

    def complete(self, obj: Object) -> Object:
        """Completes an object after an apply, which has no unknown fields."""
        if not self.version.storage:
            obj = deep_copy(obj)
        metadata = obj.get("metadata") or {}
        try:
            decoded = decode_object_meta(metadata, unknown=None)
        except StructDecodeError:
            # The types of an apply distinguish neither times from other scalars nor integers from floats.
            decoded = decode_object_meta(drop_malformed(metadata), unknown=None)
        obj["metadata"] = dict(decoded)
        return self.schema.complete(obj)

    def _schema_for(self, obj: Object) -> CompiledSchema | None:
        """Returns the schema of the version that the body names; one without fields if the version does not exist.

        None for another kind: only its metadata is decoded, and the validation refuses it.
        """
        api_version = obj.get("apiVersion")
        if api_version == self._api_version and obj.get("kind") == self._kind:
            return self.schema
        group, _, name = (api_version or "").rpartition("/")
        if group != self.definition.group or obj.get("kind") != self._kind:
            return None
        other = self.definition.versions.get(name)
        return other.schema() if other is not None else _NOTHING

    def prepare_for_create(self, obj: Object, context: Context) -> None:
        if self.version.status:
            obj.pop("status", None)
            default = self._default_status()
            if default is not None:
                obj["status"] = default
        obj["metadata"]["generation"] = 1

    def _default_status(self) -> Any:
        """Returns the status from the schema's defaults, for an object without one."""
        if self._status_default is _UNKNOWN:
            empty: Object = {"metadata": {}}
            self.schema.prune_and_default(empty)
            self._status_default = empty.get("status")
        return copy.deepcopy(self._status_default)

    def validate(self, obj: Object) -> Sequence[FieldError]:
        if errors := self._type_errors(obj):
            return errors + self._errors_of_another_kind(obj)
        errors = validate_custom_meta(obj["metadata"], namespaced=self.definition.namespaced)
        errors += self.schema.validate(obj, scale_errors=scale_errors(self.version.scale, obj))
        return errors + self._rule_errors(obj, None, errors)

    def _type_errors(self, obj: Object) -> list[FieldError]:
        errors = []
        if obj.get("kind") != self._kind:
            errors.append(invalid("kind", obj.get("kind") or "", f"must be {self._kind}"))
        if obj.get("apiVersion") != self._api_version:
            errors.append(invalid("apiVersion", obj.get("apiVersion") or "", f"must be {self._api_version}"))
        return errors

    def _errors_of_another_kind(
        self, obj: Object, old: Object | None = None, warnings: list[str] | None = None
    ) -> list[FieldError]:
        """The errors that kube-apiserver's strategy reports beside those of the type, for which it leaves out metadata
        and values.

        Rules check the types of the values that they read.
        """
        errors = [*self.schema.validate_embedded(obj), *self.schema.validate_list_types(obj, old)]
        return errors + self._rule_errors(obj, old, errors, warnings)

    def _rule_errors(
        self, obj: Object, old: Object | None, errors: Sequence[FieldError], warnings: list[str] | None = None
    ) -> list[FieldError]:
        rules = compile_rules(self.schema.structural)
        if not rules.has_rules:
            return []
        return [unchecked_rules_error()] if blocks_rules(errors) else rules.validate(obj, old, warnings=warnings)

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        if self.version.status:
            if "status" in old:
                new["status"] = old["status"]
            else:
                new.pop("status", None)
        ignored = {*META_FIELDS, "status"} if self.version.status else set(META_FIELDS)
        raise_generation(new, old, ignored)

    def validate_update(self, new: Object, old: Object, warnings: list[str]) -> Sequence[FieldError]:
        metadata, before = with_revision(new, old), old["metadata"]
        if errors := self._type_errors(new):
            common = validate_common_fields(metadata, before, namespaced=self.definition.namespaced)
            return [*common, *errors, *self._errors_of_another_kind(new, old, warnings)]
        errors = validate_custom_meta_update(metadata, before, namespaced=self.definition.namespaced)
        errors += self.schema.validate_update(new, old, scale_errors=scale_errors(self.version.scale, new))
        return errors + self._rule_errors(new, old, errors, warnings)

    def warnings(self, new: Object, old: Object | None) -> Sequence[str]:
        return finalizer_warnings(new["metadata"], old["metadata"] if old else None)


class StatusStrategy(CustomStrategy):
    """The status subresource: only the status is taken from a write."""

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        status, managed = new.get("status"), new["metadata"].get("managedFields")
        had_status = "status" in new
        revision = new["metadata"].get("resourceVersion")
        new.clear()
        new.update(old)
        new["metadata"] = dict(old["metadata"])
        if managed is not None:
            new["metadata"]["managedFields"] = managed
        if revision is not None:
            new["metadata"]["resourceVersion"] = revision
        part = {"status": status} if had_status else {}
        if status is None:
            self.schema.prune(part)  # an applied null is not refused, and not stored unless it may be null
        new.pop("status", None)
        new.update(part)

    def validate_update(self, new: Object, old: Object, warnings: list[str]) -> Sequence[FieldError]:
        metadata, before = with_revision(new, old), old["metadata"]
        errors = validate_custom_meta_update(metadata, before, namespaced=self.definition.namespaced)
        errors += self.schema.validate_status_update(
            new, old, scale_errors=scale_errors(self.version.scale, new, spec=False)
        )
        return errors + self._rule_errors(new, old, errors, warnings)

    def warnings(self, new: Object, old: Object | None) -> Sequence[str]:
        return ()


_UNKNOWN: Any = object()
_NO_TEXT = ".apiVersion accessor error: <nil> is of the type <nil>, expected string"
_NOTHING = compile_schema({"type": "object"})


def raise_generation(new: Object, old: Object, ignored: set[str]) -> None:
    """Increments the generation for any change outside `ignored`."""
    metadata = new["metadata"]
    if "generation" in old["metadata"]:
        metadata["generation"] = old["metadata"]["generation"]
    mine = {k: v for k, v in new.items() if k not in ignored}
    theirs = {k: v for k, v in old.items() if k not in ignored}
    if not equal(mine, theirs):
        metadata["generation"] = old["metadata"].get("generation", 0) + 1


def with_revision(new: Object, old: Object) -> Object:
    """Returns the new metadata with a resource version: optimistic concurrency has been checked before."""
    return {**new["metadata"], "resourceVersion": old["metadata"].get("resourceVersion") or "1"}


# -- the fields of an object that its Scale consists of, by the paths in the definition
_INT32_MAX: Final = (1 << 31) - 1


def scale_errors(scale: Scale | None, obj: Object, *, spec: bool = True) -> list[FieldError]:
    """The errors of these fields; without `spec` those of the status only, which are all that a status can cause."""
    if scale is None:
        return []
    errors = []
    for path in (scale.spec_replicas_path, scale.status_replicas_path) if spec else (scale.status_replicas_path,):
        value, fault = nested(obj, path, int, "int64")
        if fault:
            errors.append(invalid(path, 0, fault))
        elif value is None:
            continue
        elif value < 0:
            errors.append(invalid(path, value, "should be a non-negative integer"))
        elif value > _INT32_MAX:
            errors.append(invalid(path, value, f"should be less than or equal to {_INT32_MAX}"))
    if scale.label_selector_path:
        _, fault = nested(obj, scale.label_selector_path, str, "string")
        if fault:
            errors.append(invalid(scale.label_selector_path, "", fault))
    return errors


def nested(obj: Object, path: str, wanted: type, go: str) -> tuple[Any, str]:
    """Returns the value at `.spec.replicas` and "", None if it is absent, or the error of the first other type.

    Follows NestedInt64 and NestedString of apimachinery pkg/apis/meta/v1/unstructured/helpers.go.
    """
    value: Any = obj
    passed = ""
    for part in path.strip(".").split("."):
        passed += f".{part}"
        if value is None:
            return None, ""
        if not isinstance(value, dict):
            return None, _accessor_error(passed, value, "map[string]interface{}")
        if part not in value:
            return None, ""
        value = value[part]
    return (value, "") if type(value) is wanted else (None, _accessor_error(path, value, go))


def _accessor_error(path: str, value: Any, go: str) -> str:
    return f"{path} accessor error: {go_plain(value)} is of the type {go_type(value)}, expected {go}"
