"""The OpenAPI v2 (Swagger) document of all served resources, for older clients; omits what v2 cannot express.

Follows kube-openapi pkg/builder/openapi.go and apiextensions-apiserver pkg/controller/openapi/builder/merge.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from registry.definitions.compiled import schema_json
from registry.definitions.discovery import Subresources, standard_subresources
from registry.definitions.model import Definition
from registry.definitions.openapi.components import with_all_fields
from registry.definitions.openapi.documents import (
    LIST_METADATA,
    SECURITY,
    info,
    input_schemas,
    kind_schemas,
    list_schema,
    own_versions,
    resource_of,
    served_versions,
)
from registry.definitions.openapi.pages import pages
from registry.definitions.openapi.paths import paths_v3
from registry.definitions.openapi.types import Json, all_groups, shared_types
from registry.schema.openapi import V2_PREFIX, metadata_v2, published_v2


def openapi_v2(definitions: Iterable[Definition], subresources: Subresources = standard_subresources) -> Json:
    """The document of /openapi/v2. Its hash is that of all v3 documents together, as it depends on the same input."""
    schemas: Json = {}
    paths: Json = {}
    served = served_versions(definitions)
    for definition, version in served:
        resource = resource_of(definition, version, subresources, V2_PREFIX)
        published = published_v2(with_all_fields(resource.kind_name, schema_json(version)))
        schemas |= kind_schemas(resource, definition, version, published)
        if "list" in resource.verbs:
            metadata = metadata_v2(LIST_METADATA, "ListMeta")
            schemas[resource.list_name] = list_schema(definition, version, resource, metadata)
        schemas |= input_schemas(resource, published_v2)
        paths |= {path: _item(item, resource.form.consumes) for path, item in paths_v3(resource).items()}
    paths |= {page.path: _item(page.item(V2_PREFIX), page.consumes) for page in pages(own_versions(served))}
    schemas |= shared_types((paths, schemas), all_groups(), v3=False)
    return {
        "swagger": "2.0",
        "info": info(),
        "paths": dict(sorted(paths.items())),
        "definitions": dict(sorted(schemas.items())),
        "securityDefinitions": SECURITY,
        "security": [{name: []} for name in SECURITY],
    }


def _item(item: Json, consumes: Sequence[str]) -> Json:
    return {
        name: [_parameter(p) for p in value] if name == "parameters" else _operation(value, consumes)
        for name, value in item.items()
    }


def _parameter(parameter: Json) -> Json:
    return {**{k: v for k, v in parameter.items() if k != "schema"}, **parameter["schema"]}


def _operation(operation: Json, consumes: Sequence[str]) -> Json:
    """Converts an operation. `consumes` are the media types of requests without a body, which v2 lists too."""
    body = operation.get("requestBody")
    parameters = [_parameter(p) for p in operation.get("parameters") or ()]
    if body is not None:
        required = {"required": True} if body.get("required") else {}
        parameters.insert(0, {"name": "body", "in": "body", "schema": _schema(body), **required})
    document: Json = {
        "tags": operation["tags"],
        "description": operation["description"],
        "operationId": operation["operationId"],
        "consumes": list(body["content"] if body is not None else consumes),
        "produces": list(operation["responses"]["200"]["content"]),
        "schemes": ["https"],
        "responses": {
            code: {"description": answer["description"], **({"schema": _schema(answer)} if "content" in answer else {})}
            for code, answer in operation["responses"].items()
        },
    }
    if not document["consumes"]:
        del document["consumes"]
    if parameters:
        document["parameters"] = parameters
    return document | {k: v for k, v in operation.items() if k.startswith("x-kubernetes-")}


def _schema(holder: Json) -> Json:
    """The schema of a request or response body, which is the same for all media types."""
    schema: Json = next(iter(holder["content"].values()))["schema"]
    return schema
