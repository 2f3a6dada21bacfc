"""The internal form of a definition, which kube-apiserver validates: parts shared by all versions are at the top level.

If schema, subresources, columns or selectable fields are equal in all versions (always so with a single one),
kube-apiserver validates them once, as `spec.validation`, `spec.subresources` and so on, and the versions have none.
Each of the four is handled separately.

Follows Convert_v1_CustomResourceDefinitionSpec_To_apiextensions_CustomResourceDefinitionSpec of
apiextensions-apiserver pkg/apis/apiextensions/v1/conversion.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from registry.codec.go_text import go_json
from registry.codec.structs.base import GoType
from registry.codec.structs.structs import GoSlice
from registry.definitions import types
from registry.definitions.model import Json
from registry.schema.structural.go_schema import go_list, go_object, go_schema
from registry.schema.values import same


@dataclass(slots=True)
class InternalVersion:
    """A part is None if absent or shared by all versions."""

    name: str
    served: bool
    storage: bool
    deprecated: bool
    deprecation_warning: str | None
    schema: Json | None  # {"openAPIV3Schema": ...}
    subresources: Json | None
    columns: list[dict[str, Any]] | None
    selectable_fields: list[dict[str, Any]] | None


@dataclass(slots=True)
class InternalSpec:
    group: str
    version: str  # the name of the first version
    names: Json
    scope: str
    schema: Json | None
    subresources: Json | None
    versions: list[InternalVersion] | None
    columns: list[dict[str, Any]] | None
    selectable_fields: list[dict[str, Any]] | None
    conversion: Json | None
    preserve_unknown_fields: bool


_COLUMNS = GoSlice(types.Column)
_SELECTABLE_FIELDS = GoSlice(types.SelectableField)


def internal_spec(crd: Json) -> InternalSpec:
    spec = crd.get("spec") or {}
    external = spec.get("versions")
    versions = None if external is None else [internal_version(v) for v in external]
    internal = InternalSpec(
        group=spec.get("group") or "",
        version=versions[0].name if versions else "",
        names=spec.get("names") or {},
        scope=spec.get("scope") or "",
        schema=None,
        subresources=None,
        versions=versions,
        columns=None,
        selectable_fields=None,
        conversion=spec.get("conversion"),
        preserve_unknown_fields=bool(spec.get("preserveUnknownFields")),
    )
    for name, of in _LIFTED.items() if versions else ():
        parts = [getattr(version, name) for version in versions or ()]
        if all_equal([None if part == [] else part for part in parts], of):
            setattr(internal, name, parts[0])
            for version in versions or ():
                setattr(version, name, None)
    return internal


# What stands once in the internal form if all versions have the same.
_LIFTED: Final[dict[str, GoType]] = {
    "schema": types.Validation,
    "subresources": types.Subresources,
    "columns": _COLUMNS,
    "selectable_fields": _SELECTABLE_FIELDS,
}


def internal_version(version: Json) -> InternalVersion:
    return InternalVersion(
        name=version.get("name") or "",
        served=bool(version.get("served")),
        storage=bool(version.get("storage")),
        deprecated=bool(version.get("deprecated")),
        deprecation_warning=version.get("deprecationWarning"),
        schema=version.get("schema"),
        subresources=version.get("subresources"),
        columns=version.get("additionalPrinterColumns"),
        selectable_fields=version.get("selectableFields"),
    )


def all_equal(parts: list[Any], part_type: GoType) -> bool:
    """Whether the parts of all versions are equal; an empty list equals an absent one."""
    if len(parts) == 1:
        return True
    if any(p is None for p in parts):
        return all(p is None for p in parts)
    first = part_type.encode(parts[0])
    return all(same(first, part_type.encode(p)) for p in parts[1:])


def go_versions(versions: list[InternalVersion] | None) -> str:
    """spec.versions as kube-apiserver prints them in an error."""
    return go_list(versions, _go_version)


def _go_version(v: InternalVersion) -> str:
    return go_object(
        [
            ("Name", go_json(v.name)),
            ("Served", go_json(v.served)),
            ("Storage", go_json(v.storage)),
            ("Deprecated", go_json(v.deprecated)),
            ("DeprecationWarning", go_json(v.deprecation_warning)),
            (
                "Schema",
                "null"
                if v.schema is None
                else go_object([("OpenAPIV3Schema", go_schema(v.schema.get("openAPIV3Schema")))]),
            ),
            ("Subresources", _go_subresources(v.subresources)),
            ("AdditionalPrinterColumns", go_list(v.columns, _go_column)),
            ("SelectableFields", go_list(v.selectable_fields, _go_selectable_field)),
        ]
    )


def _go_subresources(subresources: Json | None) -> str:
    if subresources is None:
        return "null"
    status, scale = "null" if subresources.get("status") is None else "{}", "null"
    if (paths := subresources.get("scale")) is not None:
        scale = go_object(
            [
                ("SpecReplicasPath", go_json(paths.get("specReplicasPath") or "")),
                ("StatusReplicasPath", go_json(paths.get("statusReplicasPath") or "")),
                ("LabelSelectorPath", go_json(paths.get("labelSelectorPath"))),
            ]
        )
    return go_object([("Status", status), ("Scale", scale)])


def _go_column(column: Json) -> str:
    return go_object(
        [
            ("Name", go_json(column.get("name") or "")),
            ("Type", go_json(column.get("type") or "")),
            ("Format", go_json(column.get("format") or "")),
            ("Description", go_json(column.get("description") or "")),
            ("Priority", go_json(column.get("priority") or 0)),
            ("JSONPath", go_json(column.get("jsonPath") or "")),
        ]
    )


def _go_selectable_field(field: Json) -> str:
    return go_object([("JSONPath", go_json(field.get("jsonPath") or ""))])
