"""Compiles a stored CustomResourceDefinition to the resource that is served.

Cheap: schemas are packed (packed.py), and compiled when an object of their version is first processed; equal schemas of
all tenants are stored and compiled once in a process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields

from registry.definitions.conditions import is_true
from registry.definitions.conversion import RULES
from registry.definitions.model import Column, Definition, Json, Names, Scale, Version
from registry.definitions.packed import PackedSchema, pack
from registry.definitions.priority import priority_key
from registry.emulation import emulated
from registry.schema.compiled import CompiledSchema
from registry.schema.model import KEEPS_ALL

# The schema of a version without one; all versions of apiextensions.k8s.io/v1 have one.
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def compile_definition(crd: Json, before: Definition | None = None) -> Definition:
    """The Definition of a stored (canonical) definition, under its accepted names (status.acceptedNames).

    `before` is the one of an earlier state: if only the status or the metadata has changed since, its schemas are kept.
    """
    spec, status, meta = crd["spec"], crd.get("status") or {}, crd["metadata"]
    uid, generation = meta.get("uid") or "", meta.get("generation") or 0
    conversion = spec.get("conversion") or {"strategy": "None"}
    rules = "" if conversion["strategy"] == "Webhook" else (meta.get("annotations") or {}).get(RULES) or ""
    if before is not None and generation and (before.uid, before.generation) == (uid, generation):
        versions = before.versions
    else:
        versions = _versions(spec)
    return Definition(
        group=spec["group"],
        names=_names(spec["names"], status.get("acceptedNames") or {}),
        namespaced=spec["scope"] == "Namespaced",
        versions=versions,
        storage_version=next(v.name for v in versions.values() if v.storage),
        uid=uid,
        generation=generation,
        revision=int(meta.get("resourceVersion") or 0),
        established=is_true(crd, "Established"),
        terminating=is_true(crd, "Terminating") or (emulated().is_1_37 and bool(meta.get("deletionTimestamp"))),
        conversion=conversion,
        conversion_rules=rules,
        reporting=_annotations(meta, "reporting.registry/"),
        queries=_annotations(meta, "query.registry/"),
    )


def _versions(spec: Json) -> Mapping[str, Version]:
    keeps_all = bool(spec.get("preserveUnknownFields"))
    in_order = [_version(version, keeps_all) for version in spec["versions"]]
    return {v.name: v for v in sorted(in_order, key=lambda v: priority_key(v.name))}


def _annotations(meta: Json, prefix: str) -> dict[str, str]:
    return {k: v for k, v in (meta.get("annotations") or {}).items() if k.startswith(prefix)}


def _names(requested: Json, accepted: Json) -> Names:
    # Before any name has been accepted the resource is not served, but its Definition needs names anyway.
    names = accepted if accepted.get("plural") else requested
    kind = names.get("kind") or requested.get("kind") or ""
    return Names(
        plural=names.get("plural") or "",
        singular=names.get("singular") or "",
        kind=kind,
        list_kind=names.get("listKind") or f"{kind}List",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
    )


def _version(version: Json, keeps_all: bool) -> Version:
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or _ANYTHING
    if keeps_all:
        schema = {**schema, KEEPS_ALL: True}
    subresources = version.get("subresources") or {}
    return Version(
        name=version["name"],
        served=bool(version.get("served")),
        storage=bool(version.get("storage")),
        schema=pack(schema),
        deprecated=bool(version.get("deprecated")),
        deprecation_warning=version.get("deprecationWarning"),
        columns=tuple(_column(c) for c in version.get("additionalPrinterColumns") or ()),
        status=subresources.get("status") is not None,
        scale=_scale(subresources.get("scale")),
        selectable_fields=tuple(f["jsonPath"] for f in version.get("selectableFields") or ()),
    )


def _column(column: Json) -> Column:
    return Column(
        name=column.get("name") or "",
        type=column.get("type") or "",
        json_path=column.get("jsonPath") or "",
        format=column.get("format") or "",
        description=column.get("description") or "",
        priority=column.get("priority") or 0,
    )


def _scale(scale: Json | None) -> Scale | None:
    if scale is None:
        return None
    return Scale(
        scale.get("specReplicasPath") or "", scale.get("statusReplicasPath") or "", scale.get("labelSelectorPath") or ""
    )


def schema_json(version: Version) -> Json:
    """The JSON of a version's schema, without compiling it where possible."""
    schema: Callable[[], CompiledSchema] = version.schema
    if isinstance(schema, PackedSchema):
        return schema.json
    json: Json = schema().json
    return json


def schema_digest(version: Version) -> str:
    """A digest of the schema, equal in all processes; cheap, since it decodes and compiles nothing."""
    schema: Callable[[], CompiledSchema] = version.schema
    return schema.digest.hex() if isinstance(schema, PackedSchema) else str(schema().identity)


def is_served_alike(one: Definition, other: Definition) -> bool:
    """Whether requests are served alike under both: same spec and names; conditions, for example, may differ."""
    if one is other:
        return True
    return (
        one.uid == other.uid
        and one.names == other.names
        and one.conversion == other.conversion
        and one.conversion_rules == other.conversion_rules
        and one.versions.keys() == other.versions.keys()
        and all(_is_alike(version, other.versions[name]) for name, version in one.versions.items())
    )


def _is_alike(one: Version, other: Version) -> bool:
    names = [f.name for f in fields(Version) if f.name != "schema"]
    return schema_digest(one) == schema_digest(other) and all(getattr(one, n) == getattr(other, n) for n in names)


def uncompiled_bytes(version: Version) -> int:
    """The length of the schema that the next write at this version compiles; 0 if that is done, or never long."""
    return version.schema.uncompiled_bytes if isinstance(version.schema, PackedSchema) else 0
