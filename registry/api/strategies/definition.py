"""CustomResourceDefinitions as objects: the rules of registry/definitions as strategies, of v1 and of v1beta1.

Follows apiextensions-apiserver pkg/registry/customresourcedefinition/strategy.go, for v1beta1 at v0.21.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from registry.api.bound_definitions import BINDINGS
from registry.api.served import MAX_BODY_CHARACTERS
from registry.api.strategies.base import Context, Object, ObjectDecodeError, Translation, WriteEffects
from registry.api.strategies.builtin import StructStrategy
from registry.apply.types import MergeType, struct_type
from registry.authentication.user import SERVER, SERVER_MANAGER
from registry.codec.json_encode import encode_json_text
from registry.conversion.declarative.check import validate_rules
from registry.definitions import decode as v1
from registry.definitions import defaulting, strategy, validation
from registry.definitions import warnings as definition_warnings
from registry.definitions.conditions import is_true
from registry.definitions.decode import StructDecodeError as DefinitionDecodeError
from registry.definitions.decode import canonical, decode_definition, without_empty_fields
from registry.definitions.model import Definition, Version
from registry.definitions.naming import needs_reconsidering
from registry.definitions.packed import definition_size
from registry.definitions.types import CustomResourceDefinition
from registry.definitions.types import Version as VersionStruct
from registry.definitions.v1beta1 import conversion as beta
from registry.schema.field import FieldError
from registry.store.types import NO_FLAGS, WriteFlag

# What the definitions of a tenant may take of a process's memory. It is checked against those that the process knows: a
# burst of definitions may exceed it.
TENANT_BYTES: Final = 128 * 1024 * 1024
_LARGEST_BYTES: Final = definition_size(MAX_BODY_CHARACTERS)


# A structural schema cannot say what a schema is.
_VERSIONS: Final = {"apiextensions.k8s.io/v1": {"versions": struct_type(VersionStruct, {"v1.ValidationRules": "rule"})}}


def _size(obj: Object) -> int:
    return definition_size(len(encode_json_text(obj)))


class DefinitionStrategy(StructStrategy):
    struct = CustomResourceDefinition
    without_table: Sequence[str] = ("status",)
    allow_unconditional_update = False
    controlled = True
    propagates = False
    scheme = "k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:55"
    has_own_scheme = True
    known_versions: Sequence[str] = ("apiextensions.k8s.io/v1beta1",)
    convert_for_owners: Callable[[Object, str], Object] | None = staticmethod(beta.convert)
    _decode_struct = staticmethod(decode_definition)
    _default_struct = staticmethod(defaulting.default_definition)

    @property
    def only_name_and_namespace(self) -> bool:
        return True

    def in_struct_order(self, obj: Object) -> Object | None:
        return canonical(obj)

    @property
    def checked_items(self) -> Mapping[str, Mapping[str, MergeType]]:
        return _VERSIONS

    def part(self, subresource: str) -> DefinitionStrategy:
        return StatusOfDefinitions(self.definition, self.version)

    def decode(self, obj: Object, unknown: list[str], old: Object | None = None) -> Object:
        try:
            decoded = self._decode_struct(obj)
        except DefinitionDecodeError as error:
            raise ObjectDecodeError(str(error)) from error
        unknown.extend(decoded.unknown)
        definition = decoded.value
        definition["metadata"] = dict(definition.get("metadata") or {})
        self._default_struct(definition)
        return definition

    def prepare_for_create(self, obj: Object, context: Context) -> None:
        self._check_size(obj, None, context)
        replace_in_place(obj, strategy.prepare_for_create(obj))

    def validate(self, obj: Object) -> Sequence[FieldError]:
        return validation.validate_create(obj) or validate_rules(obj)

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        self._check_size(new, old, context)
        replace_in_place(new, strategy.prepare_for_update(new, old))

    def _check_size(self, new: Object, old: Object | None, context: Context) -> None:
        """Raises a 403 if the tenant's definitions would take more memory than a process gives them."""
        if context.memory_room is None or context.memory_room >= _LARGEST_BYTES:
            return
        size, before = _size(new), 0 if old is None else _size(old)
        self.check_memory("definitions", TENANT_BYTES, size, before, new, context)

    def validate_update(self, new: Object, old: Object, warnings: list[str]) -> Sequence[FieldError]:
        return validation.validate_update(*with_revision(new, old)) or validate_rules(new)

    def as_created(self, obj: Object) -> Object:
        """Leaves out the schemas of versions, the largest part by far: the list of versions is a single field."""
        versions = obj["spec"].get("versions") or ()
        named = [{name: part for name, part in version.items() if name != "schema"} for version in versions]
        return self.as_written(with_spec(obj, {**obj["spec"], "versions": named}) if named else obj)

    def finish(self, obj: Object) -> Object:
        return without_empty_fields(obj)

    def prepare_for_delete(self, obj: Object, context: Context) -> None:
        replace_in_place(obj, strategy.mark_for_deletion(obj, context.timestamp))
        obj["metadata"] = dict(obj["metadata"])

    def write_effects(self, new: Object, old: Object | None) -> WriteEffects:
        """Marks a definition pending until its names are accepted, and while its objects are to be removed.

        A new definition has no accepted names, so it cannot conflict with anything: creating it does not change the
        tenant's definitions, and many can be created in one commit while the names of others are being accepted.
        """
        is_pending = (
            needs_reconsidering(new)
            or not is_true(new, "Established")
            or bool(new["metadata"].get("deletionTimestamp"))
        )
        flags = WriteFlag.COUNTS_AS_DEFINITION | (WriteFlag.PENDING if is_pending else NO_FLAGS)
        if old is None:
            return {"flags": flags}
        return {"flags": flags | WriteFlag.CHANGES_DEFINITIONS, "sharing": _sharing(new, old)}

    def warnings(self, new: Object, old: Object | None) -> Sequence[str]:
        return definition_warnings.warnings(new, old)


class StatusOfDefinitions(DefinitionStrategy):
    """/status: the spec stays, labels and finalizers may change (facts: crd-api.md)."""

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        replace_in_place(new, strategy.prepare_for_status_update(new, old))

    def validate_update(self, new: Object, old: Object, warnings: list[str]) -> Sequence[FieldError]:
        return validation.validate_status_update(*with_revision(new, old))

    def as_written(self, obj: Object) -> Object:
        return canonical(obj)  # with the client's spec

    def finish(self, obj: Object) -> Object:
        return with_spec(canonical(with_spec(obj, {})), obj["spec"])

    def warnings(self, new: Object, old: Object | None) -> Sequence[str]:
        return ()


class UnsharedStatus(StatusOfDefinitions):
    """/status of definitions that no tenant has bound, as the controller writes it: many in one transaction."""

    def __init__(self, definition: Definition, version: Version, group: int) -> None:
        super().__init__(definition, version)
        self._group = group

    def as_written(self, obj: Object) -> Object:
        return self.finish(obj)  # the controller leaves the stored spec

    def validate_update(self, new: Object, old: Object, warnings: list[str]) -> Sequence[FieldError]:
        return validation.validate_accepted_names(new)  # it leaves the metadata, too

    def write_effects(self, new: Object, old: Object | None) -> WriteEffects:
        effects = super().write_effects(new, None)
        return {"flags": effects["flags"] | WriteFlag.CHANGES_DEFINITIONS, "group": self._group}


def _sharing(new: Object, old: Object) -> str:
    """Returns the effect on tenants that have bound the definition: their guards move, or the write is refused."""
    names = {v.get("name") for v in new["spec"].get("versions") or ()}
    removed = [v["name"] for v in old["spec"].get("versions") or () if v.get("name") not in names]
    return encode_json_text(
        {
            "kind": "definition",
            "name": new["metadata"]["name"],
            "removed": removed,
            "ending": new is old or bool(new["metadata"].get("deletionTimestamp")),
            "bindings": BINDINGS,
            "actor": SERVER.name,
            "manager": SERVER_MANAGER,
        }
    )


def replace_in_place(obj: Object, other: Object) -> None:
    if obj is not other:
        obj.clear()
        obj.update(other)


def with_spec(obj: Object, spec: Object) -> Object:
    """Returns the definition with this spec itself: a stored one is canonical, and the largest part by far."""
    return {**obj, "spec": spec}


def with_revision(new: Object, old: Object) -> tuple[Object, Object]:
    """Gives the new definition the old one's resource version: optimistic concurrency has been checked before."""
    revision = old["metadata"].get("resourceVersion")
    return {**new, "metadata": {**new["metadata"], "resourceVersion": revision}}, old


class BetaDefinitionStrategy(DefinitionStrategy):
    known_versions: Sequence[str] = (v1.API_VERSION,)
    _decode_struct = staticmethod(beta.decode_definition)
    _default_struct = staticmethod(beta.default_definition)

    @property
    def translation(self) -> Translation:
        return Translation(self.definition.name, beta.stored_form, beta.served_form, v1.API_VERSION)

    def part(self, subresource: str) -> BetaDefinitionStrategy:
        return _BetaStatusStrategy(self.definition, self.version)

    def validate(self, obj: Object) -> Sequence[FieldError]:
        errors = validation.validate_create(obj, demands=validation.OF_V1BETA1, spec=beta.internal_beta(obj))
        return errors or validate_rules(beta.to_v1(obj))

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        prepared = strategy.prepare_for_update(beta.to_v1(new), beta.to_v1(old))
        new.update(metadata=prepared["metadata"], status=prepared["status"])

    def validate_update(self, new: Object, old: Object, warnings: list[str]) -> Sequence[FieldError]:
        new, old = with_revision(new, old)
        errors = validation.validate_update(
            new, old, demands=validation.OF_V1BETA1, spec=beta.internal_beta(new), old_spec=beta.internal_beta(old)
        )
        return errors or validate_rules(beta.to_v1(new))

    def finish(self, obj: Object) -> Object:
        return beta.canonical(obj)

    def warnings(self, new: Object, old: Object | None) -> Sequence[str]:
        return definition_warnings.warnings(beta.to_v1(new), None if old is None else beta.to_v1(old))


class _BetaStatusStrategy(StatusOfDefinitions, BetaDefinitionStrategy):
    """/status of the v1beta1 form."""
