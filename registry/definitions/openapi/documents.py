"""OpenAPI v3 documents of the served resources: one for each group version, and one for each page of the server.

`openapi_v3_hashes` lists the documents, with hashes that change with their content; a document is generated on request,
and the caller may cache it by its hash. kubectl needs the documents for `explain`, and checks the parameters of PATCH
and POST to learn whether the server validates fields.

Follows apiextensions-apiserver pkg/controller/openapi/builder/builder.go, apiserver pkg/endpoints/{installer,openapi}
and kube-openapi pkg/{builder3,handler3}.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from registry.definitions.compiled import schema_digest, schema_json
from registry.definitions.discovery import Subresources, standard_subresources, verbs_of
from registry.definitions.model import Definition, Version
from registry.definitions.openapi.components import with_named_types
from registry.definitions.openapi.pages import pages
from registry.definitions.openapi.paths import CUSTOM, PathResource, builtin_form, paths_v3
from registry.definitions.openapi.types import GroupVersion, Json, custom_groups, shared_types, type_name
from registry.emulation import emulated, serves_cbor
from registry.schema.openapi import V3_PREFIX, metadata_v3, published_v3, type_meta

# Part of every hash: increment it when the documents of the same definitions change.
FORMAT = 6

# The packages of kube-apiserver's own types; all others are named by their group, reversed.
_PACKAGES = {
    "": "io.k8s.api.core",
    "apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration.k8s.io": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
    **{
        f"{group}.k8s.io": f"io.k8s.api.{group.partition('.')[0]}"
        for group in """
            admissionregistration authentication authorization certificates coordination discovery events
            rbac.authorization storagemigration
        """.split()
    },
}


def openapi_v3_hashes(
    definitions: Iterable[Definition], subresources: Subresources = standard_subresources
) -> dict[str, str]:
    """The documents by their path under /openapi/v3: `{"api/v1": "5F0E...", "apis/g.example.com/v1": "..."}`."""
    served = served_versions(definitions)
    parts: dict[str, list[str]] = {page.document: [] for page in pages(own_versions(served))}
    for definition, version in served:
        names = definition.names
        facts = [
            names.plural,
            names.kind,
            names.list_kind,
            definition.namespaced,
            list(verbs_of(definition)),
            [[s.name, s.kind, list(s.verbs)] for s in subresources(definition, version)],
            list(version.selectable_fields),
            schema_digest(version),
        ]
        parts.setdefault(document_path(definition.group, version.name), []).append(json.dumps(facts))
    of_process = [str(FORMAT), emulated().name, *(["cbor"] if serves_cbor() else [])]
    return {
        path: hashlib.sha512("\n".join([*of_process, *sorted(facts)]).encode()).hexdigest().upper()
        for path, facts in sorted(parts.items())
    }


def openapi_v3_index(hashes: dict[str, str], prefix: str) -> Json:
    """The document of /openapi/v3. `prefix` precedes all paths: `/clusters/acme`, for example."""
    return {
        "paths": {
            path: {"serverRelativeURL": f"{prefix}/openapi/v3/{path}?hash={digest}"} for path, digest in hashes.items()
        }
    }


def openapi_v3_document(
    definitions: Iterable[Definition], path: str, subresources: Subresources = standard_subresources
) -> Json | None:
    """The document at a path under /openapi/v3, such as apis/g.example.com/v1 or version; None if there is none."""
    definitions = list(definitions)
    served = served_versions(definitions)
    for group, version in dict.fromkeys((d.group, v.name) for d, v in served):
        if document_path(group, version) == path:
            return openapi_v3(definitions, group, version, subresources)
    for page in pages(own_versions(served)):
        if page.document == path:
            return _document({page.path: page.item(V3_PREFIX)}, {}, own=True)
    return None


def openapi_v3(
    definitions: Iterable[Definition], group: str, version: str, subresources: Subresources = standard_subresources
) -> Json | None:
    """The document of one version of a group; None if nothing is served."""
    members = [(d, v) for d, v in served_versions(definitions) if d.group == group and v.name == version]
    if not members:
        return None
    schemas: Json = {}
    paths: Json = {}
    for definition, v in sorted(members, key=lambda m: m[0].names.plural):
        resource = resource_of(definition, v, subresources, V3_PREFIX)
        schemas |= kind_schemas(resource, definition, v, published_v3(schema_json(v)))
        if "list" in resource.verbs:
            schemas[resource.list_name] = list_schema_v3(definition, v, resource)
        schemas |= input_schemas(resource, published_v3)
        paths |= paths_v3(resource)
    is_builtin = any(definition.builtin for definition, _ in members)
    if not is_builtin:
        return _document(paths, schemas, custom_groups(), own=False)
    path = document_path(group, version)
    paths |= {page.path: page.item(V3_PREFIX) for page in pages([(group, version)]) if page.document == path}
    return _document(paths, schemas, dict.fromkeys((("", "v1"), (group, version))), own=True)


def _document(paths: Json, schemas: Json, groups: Iterable[GroupVersion] = (), *, own: bool) -> Json:
    """`groups` mark the shared types; `own` is True for built-in kinds and the server's pages."""
    schemas = {**schemas, **shared_types((paths, schemas), groups, v3=True)}
    components: Json = {"schemas": dict(sorted(schemas.items()))} if schemas else {}
    if own:
        components["securitySchemes"] = SECURITY
    return {
        "openapi": "3.0.0",
        "info": info() if own else _CUSTOM_INFO,
        "paths": {path: _with_sorted_content(item) for path, item in sorted(paths.items())},
        "components": components,
    }


def _with_sorted_content(item: Json) -> Json:
    """Sorts the media types of bodies, as Go encodes a map: generators prefer the first. v2 has them in lists."""
    return {name: value if name == "parameters" else _sorted_content(value) for name, value in item.items()}


def _sorted_content(operation: Json) -> Json:
    changed: Json = {"responses": {code: _in_order(answer) for code, answer in operation["responses"].items()}}
    if "requestBody" in operation:
        changed["requestBody"] = _in_order(operation["requestBody"])
    return {**operation, **changed}


def _in_order(body: Json) -> Json:
    return {**body, "content": dict(sorted(body["content"].items()))} if "content" in body else body


def info() -> Json:
    """The info of documents of built-in kinds and of the v2 document: the version without the patch release, as in
    apiserver pkg/server/config.go (completeOpenAPI)."""
    return {"title": "Kubernetes", "version": emulated().name}


# The same for kinds of definitions.
_CUSTOM_INFO = {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
SECURITY = {
    "BearerToken": {
        "type": "apiKey",
        "description": "Bearer Token authentication",
        "name": "authorization",
        "in": "header",
    }
}


def document_path(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def model_name(group: str, version: str, kind: str) -> str:
    """`com.example.stable.v1.CronTab`."""
    package = _PACKAGES.get(group) or ".".join(reversed(group.split(".")))
    return f"{package}.{version}.{kind}"


def resource_of(definition: Definition, version: Version, subresources: Subresources, prefix: str) -> PathResource:
    group, names = definition.group, definition.names
    return PathResource(
        group=group,
        version=version.name,
        plural=names.plural,
        kind=names.kind,
        namespaced=definition.namespaced,
        verbs=frozenset(verbs_of(definition)),
        form=builtin_form() if definition.builtin else CUSTOM,
        kind_name=model_name(group, version.name, names.kind),
        list_name=model_name(group, version.name, names.list_kind),
        deleted_name=model_name(group, version.name, names.kind)
        if definition.builtin and names.kind in _ANSWERED
        else type_name("Status"),
        prefix=prefix,
        subresources=(offered := tuple(subresources(definition, version))),
        taken_names={s.name: model_name(s.group, s.version, s.kind) for s in offered if s.taken is not None},
    )


def kind_schemas(resource: PathResource, definition: Definition, version: Version, published: Json) -> Json:
    """The schema of a kind by its name, and for a built-in kind those of its nested types."""
    schema = kind_schema(definition, version, published)
    if not definition.builtin:
        return {resource.kind_name: schema}
    schema, types = with_named_types(resource.kind_name, schema, resource.prefix)
    return {**types, resource.kind_name: schema}


def input_schemas(resource: PathResource, published: Callable[[Mapping[str, Any]], Json]) -> Json:
    """The types that subresources take if these are of another kind."""
    schemas: Json = {}
    for subresource in resource.subresources:
        if subresource.taken is not None:
            version = subresource.taken.versions[subresource.version]
            name = resource.taken_names[subresource.name]
            schema = kind_schema(subresource.taken, version, published(schema_json(version)))
            schemas[name], types = with_named_types(name, schema, resource.prefix)
            schemas |= types
    return schemas


# Kinds whose deletion returns the object.
_ANSWERED = frozenset({"ResourceQuota", "Service", "ServiceAccount"})


def kind_schema(definition: Definition, version: Version, schema: Json) -> Json:
    """A published schema with the extensions for the kind and the selectable fields."""
    return {**schema, **_extensions(definition, version, definition.names.kind)}


def list_schema_v3(definition: Definition, version: Version, resource: PathResource) -> Json:
    metadata = metadata_v3(LIST_METADATA, "ListMeta")
    return list_schema(definition, version, resource, {**metadata, "default": {}} if definition.builtin else metadata)


LIST_METADATA = "The metadata that every list has."


def list_schema(definition: Definition, version: Version, resource: PathResource, metadata: Json) -> Json:
    names, properties = definition.names, type_meta()
    return {
        "description": f"{names.list_kind} is a list of {names.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": properties["apiVersion"],
            "items": {
                "description": f"The {names.plural}.",
                "type": "array",
                "items": {"$ref": resource.prefix + resource.kind_name},
            },
            "kind": properties["kind"],
            "metadata": metadata,
        },
        **_extensions(definition, version, names.list_kind),
    }


def _extensions(definition: Definition, version: Version, kind: str) -> Json:
    extensions: Json = {
        "x-kubernetes-group-version-kind": [{"group": definition.group, "version": version.name, "kind": kind}]
    }
    if version.selectable_fields:
        extensions["x-kubernetes-selectable-fields"] = [
            {"fieldPath": path.removeprefix(".")} for path in version.selectable_fields
        ]
    return extensions


def served_versions(definitions: Iterable[Definition]) -> list[tuple[Definition, Version]]:
    return [(d, v) for d in definitions if d.established for v in d.versions.values() if v.served]


def own_versions(served: Iterable[tuple[Definition, Version]]) -> list[GroupVersion]:
    """The groups and versions of the built-in kinds."""
    return sorted({(definition.group, version.name) for definition, version in served if definition.builtin})
