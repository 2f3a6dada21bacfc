"""The paths of a resource in OpenAPI: which requests it takes, with which parameters, and what it answers.

An operation is described once, in the form of v3; v2.py rewrites it.

Follows apiextensions-apiserver pkg/controller/openapi/builder/builder.go and apiserver
pkg/endpoints/{installer.go,openapi/openapi.go}.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from registry.definitions.discovery import Subresource
from registry.definitions.openapi.types import type_name

Json = dict[str, Any]

MEDIA_TYPES = ("application/json", "application/yaml")
PATCH_TYPES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class Resource:
    """What the paths of a resource depend on. `kind_name` and `list_name` are the names of its schemas, to which
    references are made with `prefix` before them."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    verbs: frozenset[str]
    builtin: bool
    kind_name: str
    list_name: str
    prefix: str
    subresources: Sequence[Subresource]
    # The names of the types of subresources that take a kind of their own.
    taken_names: Mapping[str, str]


# Name, JSON type, and what it is for.
_PRETTY = ("pretty", "string", "Whether to indent the answer.")
_DRY_RUN = ("dryRun", "string", "All, to see what would happen without changing anything.")
_FIELD_MANAGER = ("fieldManager", "string", "The name under which ownership of the changed fields is noted.")
_FIELD_VALIDATION = (
    "fieldValidation",
    "string",
    "What to do with unknown and repeated fields: Ignore, Warn (the default) or Strict.",
)
_FORCE = ("force", "boolean", "Whether an apply takes over fields that others own.")
_LIST = (
    ("allowWatchBookmarks", "boolean", "Whether a watch may send bookmarks, which tell how far it has come."),
    ("continue", "string", "The token of a former part of the list, to get the next one."),
    ("fieldSelector", "string", "Restricts the answer to objects with these fields."),
    ("labelSelector", "string", "Restricts the answer to objects with these labels."),
    ("limit", "integer", "The most items that are wanted at a time."),
    ("resourceVersion", "string", "The version that the answer must have, or be as new as."),
    ("resourceVersionMatch", "string", "How resourceVersion is to be taken: Exact or NotOlderThan."),
    ("sendInitialEvents", "boolean", "Whether a watch begins with the objects that are there."),
    ("timeoutSeconds", "integer", "How long the request may take."),
    ("watch", "boolean", "Whether to go on with the changes."),
)
_DELETE = (
    _DRY_RUN,
    ("gracePeriodSeconds", "integer", "How long the deletion may take."),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean", "Has no effect here."),
    ("orphanDependents", "boolean", "An older word for a propagationPolicy of Orphan."),
    ("propagationPolicy", "string", "What becomes of dependents: Orphan, Background or Foreground."),
)
_WRITE = (_DRY_RUN, _FIELD_MANAGER, _FIELD_VALIDATION)

Parameters = Sequence[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class _Operation:
    """One kind of request: the verb of discovery that allows it, what it is called in three places, what goes in."""

    verb: str
    method: str
    action: str  # x-kubernetes-action
    word: str  # begins the operationId
    text: str  # the description; {kind} and {article} are filled in
    parameters: Parameters
    codes: Sequence[int]
    reads: str = ""  # "kind", or a type


_COLLECTION = (
    _Operation("list", "get", "list", "list", "list objects of kind {kind}", _LIST, (200,)),
    _Operation("create", "post", "post", "create", "create {article} {kind}", _WRITE, (200, 201, 202), "kind"),
    _Operation(
        "deletecollection",
        "delete",
        "deletecollection",
        "deletecollection",
        "delete collection of {kind}",
        (*_LIST, *_DELETE),
        (200,),
        "DeleteOptions",
    ),
)
_OBJECT = (
    _Operation("get", "get", "get", "read", "read{sub} the specified {kind}", (), (200,)),
    _Operation("update", "put", "put", "replace", "replace{sub} the specified {kind}", _WRITE, (200, 201), "kind"),
    _Operation("delete", "delete", "delete", "delete", "delete {article} {kind}", _DELETE, (200, 202), "DeleteOptions"),
    _Operation(
        "patch",
        "patch",
        "patch",
        "patch",
        "partially update{sub} the specified {kind}",
        (*_WRITE, _FORCE),
        (200, 201),
        "Patch",
    ),
)
_CREATE_BELOW = _Operation(
    "create", "post", "post", "create", "create{sub} {article} {kind}", _WRITE, (200, 201, 202), "kind"
)
_RESPONSES = {200: "OK", 201: "Created", 202: "Accepted"}


def paths_v3(resource: Resource) -> dict[str, Json]:
    """`{"/apis/g/v1/namespaces/{namespace}/widgets": {"get": ..., "parameters": [...]}, ...}`."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    own = f"{root}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"
    found = {
        own: _item(resource, _COLLECTION, [_NAMESPACE] if resource.namespaced else []),
        f"{own}/{{name}}": _item(resource, _OBJECT, _of_object(resource)),
    }
    if resource.namespaced:
        listing = [op for op in _COLLECTION if op.verb == "list"]
        found[f"{root}/{resource.plural}"] = _item(resource, listing, [], all_namespaces=True)
    for subresource in resource.subresources:
        found[f"{own}/{{name}}/{subresource.name}"] = _item(
            resource, (_CREATE_BELOW, *_OBJECT), _of_object(resource), subresource=subresource
        )
    return {path: item for path, item in found.items() if set(item) - {"parameters"}}


_NAMESPACE = {
    "name": "namespace",
    "in": "path",
    "description": "The namespace of the objects.",
    "required": True,
    "schema": {"type": "string", "uniqueItems": True},
}


def _of_object(resource: Resource) -> list[Json]:
    name = {
        "name": "name",
        "in": "path",
        "description": f"The name of the {resource.kind}.",
        "required": True,
        "schema": {"type": "string", "uniqueItems": True},
    }
    return [name, _NAMESPACE] if resource.namespaced else [name]


def _item(
    resource: Resource,
    operations: Sequence[_Operation],
    parameters: list[Json],
    *,
    all_namespaces: bool = False,
    subresource: Subresource | None = None,
) -> Json:
    verbs = subresource.verbs if subresource is not None else resource.verbs
    item: Json = {
        op.method: _operation(resource, op, all_namespaces, subresource) for op in operations if op.verb in verbs
    }
    return {**item, "parameters": [*parameters, _parameter(*_PRETTY)]}


def _operation(resource: Resource, op: _Operation, all_namespaces: bool, subresource: Subresource | None) -> Json:
    kind = resource.kind
    group, version, name = resource.group, resource.version, kind
    if subresource is not None and subresource.version:
        group, version, name = subresource.group, subresource.version, subresource.kind
    schema = resource.kind_name
    if subresource is not None and subresource.kind == "Scale":
        schema = type_name("Scale")
    elif subresource is not None and subresource.taken is not None:
        schema = resource.taken_names[subresource.name]
    tag = f"{_camel(_short(resource.group))}_{resource.version}"
    below = subresource.name if subresource is not None else ""
    text = op.text.format(kind=kind, article=_article(kind), sub=f" {below} of" if below else "")
    found: Json = {
        "tags": [tag],
        "description": text,
        "operationId": _operation_id(resource, op, all_namespaces, below),
    }
    if op.parameters:
        found["parameters"] = [_parameter(*p) for p in op.parameters]
    if op.reads:
        found["requestBody"] = _body(resource, op, schema)
    answer = schema
    if op.verb == "list":
        answer = resource.list_name
    elif op.verb in ("delete", "deletecollection"):
        answer = type_name("Status")
    content = {media: {"schema": {"$ref": resource.prefix + answer}} for media in MEDIA_TYPES}
    found["responses"] = {str(code): {"description": _RESPONSES[code], "content": content} for code in op.codes}
    found["responses"]["401"] = {"description": "Unauthorized"}
    found["x-kubernetes-action"] = op.action
    found["x-kubernetes-group-version-kind"] = {"group": group, "version": version, "kind": name}
    return found


def _body(resource: Resource, op: _Operation, schema: str) -> Json:
    name = schema if op.reads == "kind" else type_name(op.reads)
    media_types: tuple[str, ...] = MEDIA_TYPES
    if op.reads == "Patch":
        media_types = (*PATCH_TYPES, STRATEGIC) if resource.builtin else PATCH_TYPES
    body: Json = {"content": {media: {"schema": {"$ref": resource.prefix + name}} for media in media_types}}
    if op.reads != "DeleteOptions":
        body["required"] = True
    return body


def _parameter(name: str, kind: str, description: str) -> Json:
    return {"name": name, "in": "query", "description": description, "schema": {"type": kind, "uniqueItems": True}}


def _operation_id(resource: Resource, op: _Operation, all_namespaces: bool, subresource: str) -> str:
    """`listStableExampleComV1NamespacedCronTab`."""
    scope = "Namespaced" if resource.namespaced and not all_namespaces else ""
    end = "ForAllNamespaces" if all_namespaces else subresource.title()
    group = _camel(_short(resource.group), capital=True)
    return f"{op.word}{group}{_camel(resource.version, capital=True)}{scope}{resource.kind}{end}"


def _short(group: str) -> str:
    return group.removesuffix(".k8s.io") if group else "core"


def _camel(text: str, capital: bool = False) -> str:
    """`stable.example.com` is `stableExampleCom`."""
    out = []
    for character in text:
        if not (character.isascii() and character.isalnum()):
            capital = True
        else:
            out.append(character.upper() if capital else character)
            capital = False
    return "".join(out)


def _article(noun: str) -> str:
    return "an" if noun[:1] in "aeiouAEIOU" else "a"
