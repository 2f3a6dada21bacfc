"""Validation of CustomResourceDefinitions.

Errors are in kube-apiserver's order: metadata, then spec, where versions come before the parts shared by all versions,
then status. Works on the decoded form (decode.py), after defaulting and strategy.

Follows apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go at v0.36.2, and at v0.21 for v1beta1.
The requirements depend on the version that a definition is written at, and on those that the old definition already
violates (Demands).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from registry.codec.go_text import GoText
from registry.codec.structs.base import GoType
from registry.codec.structs.meta import META
from registry.codec.structs.structs import GoSlice
from registry.definitions import types
from registry.definitions.approval import validate_approval
from registry.definitions.conditions import is_true
from registry.definitions.conversion import has_invalid_ca_bundle, validate_conversion
from registry.definitions.internal import InternalSpec, InternalVersion, all_equal, go_versions, internal_spec
from registry.definitions.model import Json
from registry.definitions.names import (
    definition_name,
    validate_group,
    validate_names,
    validate_number_of_names,
    validate_required_names,
)
from registry.definitions.nonstructural import is_structural
from registry.definitions.schemas import STRICT, Leniency, has_defaults, has_extensions, validate_schema
from registry.definitions.versions import (
    has_status,
    validate_columns,
    validate_deprecation,
    validate_selectable_fields,
    validate_stored_versions,
    validate_subresources,
    validate_uniqueness,
    validate_version_name,
)
from registry.schema.field import FieldError, forbidden, invalid, not_supported, required
from registry.schema.objectmeta.rules import validate_object_meta, validate_update_thrice
from registry.schema.structural.bounds import nodes, validate_bounds
from registry.schema.structural.keywords import TYPES
from registry.schema.structural.structural import find_unsupported

MAX_VERSIONS = 200  # kube-apiserver has no limit; validating the storage version of more takes too long


@dataclass(frozen=True, slots=True)
class Demands:
    """Requirements on a definition that do not apply to all."""

    # Every version has a schema, which is structural and has known types only.
    schemas: bool = True
    structural: bool = True
    types: bool = True
    # The reason why defaults are not allowed; empty if they are.
    no_defaults: str = ""
    # A protected group requires an approval. Unknown fields must be pruned.
    approval: bool = True
    pruning: bool = True


OF_V1 = Demands()
OF_V1BETA1 = Demands(
    schemas=False,
    structural=False,
    types=False,
    approval=False,
    pruning=False,
    no_defaults="(cannot set default values in apiextensions.k8s.io/v1beta1 CRDs, must use apiextensions.k8s.io/v1)",
)


def _of_update(demands: Demands, old: InternalSpec) -> Demands:
    """Drops the requirements that the old definition does not meet (ratcheting)."""
    schemas = _schemas(old)
    without = _schema(old.schema) is None and any(_schema(v.schema) is None for v in old.versions or ())
    # Only definitions that preserve unknown fields may have schemas that are not structural or have unknown types.
    suspect = schemas if old.preserve_unknown_fields else []
    return replace(
        demands,
        schemas=demands.schemas and not without,
        structural=demands.structural and all(is_structural(schema) for schema in suspect),
        types=demands.types and not any(_has_unknown_types(schema) for schema in suspect),
        no_defaults="" if demands.no_defaults and any(map(has_defaults, schemas)) else demands.no_defaults,
        pruning=demands.pruning and not old.preserve_unknown_fields,
    )


def _has_unknown_types(schema: Json) -> bool:
    return any((node.get("type") or "object") not in TYPES for node in nodes(schema))


def validate_create(crd: Json, *, demands: Demands = OF_V1, spec: InternalSpec | None = None) -> list[FieldError]:
    """The errors of a new definition: decoded, defaulted, prepared for creation, with its name generated.

    `spec` is its internal form, required unless it is a v1 definition.
    """
    spec = spec or internal_spec(crd)

    def name_function(name: str, prefix: bool = False) -> list[str]:
        return definition_name(name, crd.get("spec") or {}, prefix)

    errors = validate_object_meta(_metadata(crd), namespaced=False, name_function=name_function)
    errors += _validate_spec(spec, None, demands, allow_invalid_ca_bundle=True)
    return errors + _validate_rest(crd, spec, None, demands)


def validate_update(
    crd: Json,
    old: Json,
    *,
    demands: Demands = OF_V1,
    spec: InternalSpec | None = None,
    old_spec: InternalSpec | None = None,
) -> list[FieldError]:
    """The errors of `crd`, prepared for update, which replaces `old`."""
    spec, old_spec = spec or internal_spec(crd), old_spec or internal_spec(old)
    demands = _of_update(demands, old_spec)
    established = is_true(old, "Established")
    errors = validate_update_thrice(_metadata(crd), _metadata(old), namespaced=False)
    errors += _validate_spec(
        spec, old_spec, demands, allow_invalid_ca_bundle=not established or has_invalid_ca_bundle(old_spec.conversion)
    )
    if established:
        errors += _immutable(spec.scope, old_spec.scope, "spec.scope")
        errors += _immutable(spec.names.get("kind") or "", old_spec.names.get("kind") or "", "spec.names.kind")
    errors += _immutable(spec.group, old_spec.group, "spec.group")
    errors += _immutable(spec.names.get("plural") or "", old_spec.names.get("plural") or "", "spec.names.plural")
    return errors + _validate_rest(crd, spec, old, demands)


def validate_status_update(crd: Json, old: Json) -> list[FieldError]:
    """The errors of an update of /status; `crd` must have been prepared for it."""
    errors = validate_update_thrice(_metadata(crd), _metadata(old), namespaced=False)
    return errors + validate_accepted_names(crd)


def _metadata(crd: Json) -> Json:
    """The metadata in the form that its rules require: without empty fields, and with complete owner references."""
    metadata: Json = META["ObjectMeta"].encode(crd.get("metadata") or {})
    return metadata


def _validate_rest(crd: Json, spec: InternalSpec, old: Json | None, demands: Demands) -> list[FieldError]:
    errors = validate_accepted_names(crd)
    stored = (crd.get("status") or {}).get("storedVersions")
    errors += validate_stored_versions(stored, spec.versions, "status.storedVersions")
    if demands.approval:
        errors += validate_approval(crd, old)
    if spec.preserve_unknown_fields and demands.pruning:
        why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        errors.append(invalid("spec.preserveUnknownFields", True, why))
    return errors


def validate_accepted_names(crd: Json) -> list[FieldError]:
    return validate_names((crd.get("status") or {}).get("acceptedNames") or {}, "status.acceptedNames")


def _validate_spec(
    spec: InternalSpec, old: InternalSpec | None, demands: Demands, *, allow_invalid_ca_bundle: bool
) -> list[FieldError]:
    versions = spec.versions or []
    errors = validate_group(spec.group, "spec.group")
    if not spec.scope:
        errors.append(required("spec.scope"))
    elif spec.scope not in ("Cluster", "Namespaced"):
        errors.append(not_supported("spec.scope", spec.scope, ["Cluster", "Namespaced"]))
    if len(versions) > MAX_VERSIONS:
        return [*errors, invalid("spec.versions", len(versions), f"must not be more than {MAX_VERSIONS}")]
    errors += _validate_schemas_present(spec, demands)
    # Without these conditions, as usual, defaults are allowed and change nothing here.
    asks = spec.preserve_unknown_fields or not demands.structural
    defaults = asks and not demands.no_defaults and any(has_defaults(schema) for schema in _schemas(spec))
    if spec.preserve_unknown_fields and defaults:
        errors.append(
            invalid("spec.preserveUnknownFields", True, "must be false in order to use defaults in the schema")
        )
    leniency = _leniency(spec, demands, defaults=defaults)
    for i, version in enumerate(versions):
        errors += _validate_version(version, f"spec.versions[{i}]", spec, old, leniency)
    errors += _validate_once(spec)
    errors += validate_uniqueness(spec.versions, "spec.versions")
    if spec.version:
        errors += validate_version_name(spec.version, "spec.version")
        if versions and versions[0].name != spec.version:
            errors.append(invalid("spec.version", spec.version, "must match the first version in spec.versions"))
    errors += validate_required_names(spec.names, "spec.names")
    errors += validate_names(spec.names, "spec.names")
    errors += validate_number_of_names(spec.names, "spec.names")
    errors += _validate_shared(spec, old, leniency)
    if spec.preserve_unknown_fields and spec.conversion is not None and spec.conversion.get("strategy") != "None":
        why = "must be None if spec.preserveUnknownFields is true"
        errors.append(invalid("spec.conversion.strategy", spec.conversion.get("strategy") or "", why))
    return errors + validate_conversion(
        spec.conversion,
        "spec.conversion",
        allow_invalid_ca_bundle=allow_invalid_ca_bundle,
        old=old.conversion if old is not None else None,
    )


def _leniency(spec: InternalSpec, demands: Demands, *, defaults: bool) -> Leniency:
    """Which rules the schemas may break. With `defaults` or extensions they must be structural in either version."""
    structural = (
        demands.structural
        or defaults
        or not spec.preserve_unknown_fields
        or any(has_extensions(schema) for schema in _schemas(spec))
    )
    return STRICT if demands == OF_V1 else Leniency(structural, demands.types, demands.no_defaults)


def _validate_schemas_present(spec: InternalSpec, demands: Demands) -> list[FieldError]:
    """Without a top-level schema each version needs one; if only pruning requires it, each served version does."""
    if _schema(spec.schema) is not None or (spec.preserve_unknown_fields and not demands.schemas):
        return []
    why = "" if demands.schemas else "because otherwise all fields are pruned"
    return [
        required(f"spec.versions[{i}].schema.openAPIV3Schema", why)
        for i, v in enumerate(spec.versions or ())
        if _schema(v.schema) is None and (demands.schemas or v.served)
    ]


def _validate_once(spec: InternalSpec) -> list[FieldError]:
    """Parts equal in all versions must be at the top level, and not in each version, which always holds in v1."""
    versions = spec.versions or []
    parts: tuple[tuple[str, str, bool, Sequence[Any], GoType], ...] = (
        ("validation", "schemas", spec.schema is not None, [v.schema for v in versions], types.Validation),
        (
            "subresources",
            "subresources",
            spec.subresources is not None,
            [v.subresources for v in versions],
            types.Subresources,
        ),
        (
            "additionalPrinterColumns",
            "additionalPrinterColumns",
            bool(spec.columns),
            [v.columns or None for v in versions],
            GoSlice(types.Column),
        ),
    )
    errors = [
        forbidden(f"spec.{name}", f"top-level and per-version {words} are mutually exclusive")
        for name, words, top, each, _ in parts
        if top and any(part is not None for part in each)
    ]
    for name, words, _, each, kind in parts:
        if each and all(part is not None for part in each) and all_equal(list(each), kind):
            why = (
                f"per-version {words} may not all be set to identical values (top-level {name} should be used instead)"
            )
            errors.append(invalid("spec.versions", GoText(go_versions(spec.versions)), why))
    return errors


def _validate_version(
    version: InternalVersion, path: str, spec: InternalSpec, old: InternalSpec | None, leniency: Leniency
) -> list[FieldError]:
    errors = validate_version_name(version.name, f"{path}.name")
    errors += validate_deprecation(version, path)
    # A duplicate name is validated with the subresources of the first version of that name.
    namesake = next(v for v in spec.versions or () if v.name == version.name)
    status = has_status(spec.subresources if spec.subresources is not None else namesake.subresources)
    errors += validate_schema(
        version.schema, f"{path}.schema", status=status, old=_old_schema(old, version.name), leniency=leniency
    )
    errors += validate_subresources(version.subresources, f"{path}.subresources")
    errors += validate_columns(version.columns, f"{path}.additionalPrinterColumns")
    if version.selectable_fields:
        schema = _schema(version.schema)
        if schema is None:
            why = "may only be set when `version.schema.openAPIV3Schema` is not included"
            errors.append(invalid(f"{path}.selectableFields", "", why))
        else:
            errors += _validate_selectable(version.selectable_fields, schema, path)
    return errors


def _validate_shared(spec: InternalSpec, old: InternalSpec | None, leniency: Leniency) -> list[FieldError]:
    status = has_status(spec.subresources) or any(has_status(v.subresources) for v in spec.versions or ())
    errors = validate_schema(
        spec.schema, "spec.validation", status=status, old=_old_schema(old, spec.version), leniency=leniency
    )
    errors += validate_subresources(spec.subresources, "spec.subresources")
    errors += validate_columns(spec.columns, "spec.additionalPrinterColumns")
    if spec.selectable_fields:
        schema = _schema(spec.schema)
        if schema is None:
            errors.append(invalid("spec.selectableFields", "", "may only be set when validations.schema is included"))
        else:
            errors += _validate_selectable(spec.selectable_fields, schema, "spec")
    return errors


def _validate_selectable(fields: list[dict[str, Any]], schema: Json, path: str) -> list[FieldError]:
    if validate_bounds(schema, path):
        return []  # reported with the schema
    why = find_unsupported(schema)
    if why is not None:
        return [invalid(f"{path}.schema.openAPIV3Schema", "", why)]
    return validate_selectable_fields(fields, schema, f"{path}.selectableFields")


def _schema(validation: Json | None) -> Json | None:
    return None if validation is None else validation.get("openAPIV3Schema")


def _schemas(spec: InternalSpec) -> list[Json]:
    schemas = [_schema(spec.schema), *(_schema(v.schema) for v in spec.versions or ())]
    return [s for s in schemas if s is not None]


def _old_schema(old: InternalSpec | None, version: str) -> Json | None:
    if old is None:
        return None
    for v in old.versions or ():
        if v.name == version:
            return _schema(old.schema if old.schema is not None else v.schema)
    return None


def _immutable(value: str, old: str, path: str) -> list[FieldError]:
    return [] if value == old else [invalid(path, value, "field is immutable")]
