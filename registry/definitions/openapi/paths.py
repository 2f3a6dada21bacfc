"""The paths of a resource in OpenAPI: operations, parameters and responses.

An operation is described once, in the form of v3; v2.py converts it. kube-apiserver describes its own kinds and those
of definitions by two different generators; `ResourceForm` has the differences. Client generators derive method names
from the ids and tags, so these equal kube-apiserver's; the descriptions are ours.

Follows apiextensions-apiserver pkg/controller/openapi/builder/builder.go and apiserver
pkg/endpoints/{installer.go,openapi/openapi.go}.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from registry.definitions.discovery import Subresource
from registry.definitions.openapi import parameters
from registry.definitions.openapi.parameters import NAMESPACE, PRETTY, hoist, name_of
from registry.definitions.openapi.types import Json, type_name
from registry.emulation import serves_cbor

_JSON_AND_YAML = ("application/json", "application/yaml")
_PROTOBUF = "application/vnd.kubernetes.protobuf"


@dataclass(frozen=True, slots=True)
class ResourceForm:
    """How built-in kinds or definitions are described: media types, and the differences of the two generators."""

    consumes: Sequence[str]
    produces: Sequence[str]
    streams: Sequence[str]
    patches: Sequence[str]
    get_parameters: Sequence[Json]
    delete_collection_parameters: Sequence[Json]
    delete_collection_body: str
    patch_codes: Sequence[int]
    list_text: str
    watch_paths: bool
    # Whether the operations of a subresource name its kind or that of the resource.
    names_subresource: bool


CUSTOM = ResourceForm(
    consumes=_JSON_AND_YAML,
    produces=_JSON_AND_YAML,
    streams=(),
    patches=("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"),
    get_parameters=parameters.GET,
    delete_collection_parameters=parameters.LIST,
    delete_collection_body="",
    patch_codes=(200,),
    list_text="list objects of kind {kind}",
    watch_paths=False,
    names_subresource=False,
)
BUILTIN = ResourceForm(
    consumes=("*/*",),
    produces=(*_JSON_AND_YAML, _PROTOBUF),
    streams=("application/json;stream=watch", f"{_PROTOBUF};stream=watch"),
    patches=(
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
    ),
    get_parameters=(),
    delete_collection_parameters=parameters.DELETE_COLLECTION,
    delete_collection_body="DeleteOptions",
    patch_codes=(200, 201),
    list_text="list or watch objects of kind {kind}",
    watch_paths=True,
    names_subresource=True,
)


_BUILTIN_WITH_CBOR = replace(
    BUILTIN,
    produces=(*BUILTIN.produces, "application/cbor"),
    streams=(*BUILTIN.streams, "application/cbor-seq"),
    patches=(*BUILTIN.patches, "application/apply-patch+cbor"),
)


def builtin_form() -> ResourceForm:
    """The form of built-in kinds; those of definitions do not name CBOR, as upstream."""
    return _BUILTIN_WITH_CBOR if serves_cbor() else BUILTIN


@dataclass(frozen=True, slots=True)
class PathResource:
    """The properties of a resource that its paths depend on. `kind_name` and `list_name` are the names of its schemas,
    which references have after `prefix`."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    verbs: frozenset[str]
    form: ResourceForm
    kind_name: str
    list_name: str
    # The type that a deletion returns.
    deleted_name: str
    prefix: str
    subresources: Sequence[Subresource]
    # The type names of subresources that take another kind.
    taken_names: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Operation:
    """One kind of operation: the discovery verb that allows it, its names, and the types of request and response."""

    verb: str
    method: str
    action: str  # x-kubernetes-action
    word: str  # the prefix of the operationId
    text: str  # the description; {kind} and {article} are filled in
    parameters: Sequence[Json]
    codes: Sequence[int]
    reads: str = ""  # "kind", or a type
    answers: str = "kind"  # "kind", "list", "deleted", or a type
    infix: str = ""  # follows the version in the operationId
    suffix: str = ""  # follows the kind in the operationId
    streams: bool = False


def paths_v3(resource: PathResource) -> dict[str, Json]:
    """`{"/apis/g/v1/namespaces/{namespace}/widgets": {"get": ..., "parameters": [...]}, ...}`."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    below = f"namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else resource.plural
    form = resource.form
    listing = _list(form)
    paths = {
        f"{root}/{below}": _item(resource, (listing, _CREATE, _delete_collection(form))),
        f"{root}/{below}/{{name}}": _item(resource, _object(form), named=True),
    }
    if resource.namespaced:
        paths[f"{root}/{resource.plural}"] = _item(resource, (listing,), everywhere=True)
    for subresource in resource.subresources:
        paths[f"{root}/{below}/{{name}}/{subresource.name}"] = _item(
            resource, (_CREATE_BELOW, *_object(form)), named=True, subresource=subresource
        )
    if form.watch_paths:
        paths[f"{root}/watch/{below}"] = _item(resource, (_WATCH_LIST,))
        paths[f"{root}/watch/{below}/{{name}}"] = _item(resource, (_WATCH,), named=True)
        if resource.namespaced:
            paths[f"{root}/watch/{resource.plural}"] = _item(resource, (_WATCH_LIST,), everywhere=True)
    return {path: item for path, item in paths.items() if item}


def _list(form: ResourceForm) -> _Operation:
    return _Operation(
        "list", "get", "list", "list", form.list_text, parameters.LIST, (200,), answers="list", streams=True
    )


_CREATE = _Operation(
    "create", "post", "post", "create", "create {article} {kind}", parameters.WRITE, (200, 201, 202), "kind"
)
_CREATE_BELOW = _Operation(
    "create", "post", "post", "create", "create{sub} {article} {kind}", parameters.WRITE, (200, 201, 202), "kind"
)
_WATCH_LIST = _Operation(
    "watch",
    "get",
    "watchlist",
    "watch",
    "watch the objects of kind {kind}; deprecated: list them with the parameter watch",
    parameters.LIST,
    (200,),
    answers="WatchEvent",
    suffix="List",
    streams=True,
)
_WATCH = _Operation(
    "watch",
    "get",
    "watch",
    "watch",
    "watch one object of kind {kind}; deprecated: list with the parameters watch and fieldSelector",
    parameters.LIST,
    (200,),
    answers="WatchEvent",
    streams=True,
)


def _delete_collection(form: ResourceForm) -> _Operation:
    return _Operation(
        "deletecollection",
        "delete",
        "deletecollection",
        "delete",
        "delete collection of {kind}",
        form.delete_collection_parameters,
        (200,),
        form.delete_collection_body,
        answers="Status",
        infix="Collection",
    )


def _object(form: ResourceForm) -> Sequence[_Operation]:
    return (
        _Operation("get", "get", "get", "read", "read{sub} the specified {kind}", form.get_parameters, (200,)),
        _Operation(
            "update", "put", "put", "replace", "replace{sub} the specified {kind}", parameters.WRITE, (200, 201), "kind"
        ),
        _Operation(
            "delete",
            "delete",
            "delete",
            "delete",
            "delete {article} {kind}",
            parameters.DELETE,
            (200, 202),
            "DeleteOptions",
            answers="deleted",
        ),
        _Operation(
            "patch",
            "patch",
            "patch",
            "patch",
            "partially update{sub} the specified {kind}",
            parameters.PATCH,
            form.patch_codes,
            "Patch",
        ),
    )


_RESPONSES = {200: "OK", 201: "Created", 202: "Accepted"}


def _item(
    resource: PathResource,
    operations: Sequence[_Operation],
    *,
    named: bool = False,
    everywhere: bool = False,
    subresource: Subresource | None = None,
) -> Json:
    """The path item; empty if none of the operations is allowed. `everywhere` means across all namespaces."""
    verbs = subresource.verbs if subresource is not None else resource.verbs
    by_method = {op.method: _operation(resource, op, everywhere, subresource) for op in operations if op.verb in verbs}
    if not by_method:
        return {}
    kind = subresource.kind if subresource is not None and subresource.taken is not None else resource.kind
    of_path = [name_of(kind)] if named else []
    if resource.namespaced and not everywhere:
        of_path.append(NAMESPACE)
    for operation in by_method.values():
        operation["parameters"] = [*of_path, PRETTY, *operation["parameters"]]
    return hoist(by_method)


def _operation(resource: PathResource, op: _Operation, everywhere: bool, subresource: Subresource | None) -> Json:
    """One operation, with its own parameters only."""
    kind, form = resource.kind, resource.form
    schema, below, marked = resource.kind_name, "", (resource.group, resource.version, kind)
    if subresource is not None:
        below = subresource.name
        if subresource.kind == "Scale":
            schema = type_name("Scale")
        elif subresource.taken is not None:
            schema = resource.taken_names[subresource.name]
        if form.names_subresource and subresource.version:
            marked = subresource.group, subresource.version, subresource.kind
    text = op.text.format(kind=kind, article=_article(kind), sub=f" {below} of" if below else "")
    document: Json = {
        "tags": [f"{camel_case(short_group(resource.group))}_{resource.version}"],
        "description": text,
        "operationId": _operation_id(resource, op, everywhere, below),
        "parameters": op.parameters,
    }
    if op.reads:
        document["requestBody"] = _body(resource, op, schema)
    own = {"kind": schema, "list": resource.list_name, "deleted": resource.deleted_name}
    answer = {"$ref": resource.prefix + (own.get(op.answers) or type_name(op.answers))}
    media_types = (*form.produces, *form.streams) if op.streams else form.produces
    content = {media: {"schema": answer} for media in media_types}
    document["responses"] = {str(code): {"description": _RESPONSES[code], "content": content} for code in op.codes}
    document["responses"]["401"] = {"description": "Unauthorized"}
    document["x-kubernetes-action"] = op.action
    document["x-kubernetes-group-version-kind"] = dict(zip(("group", "version", "kind"), marked, strict=True))
    return document


def _body(resource: PathResource, op: _Operation, schema: str) -> Json:
    name = schema if op.reads == "kind" else type_name(op.reads)
    media_types = resource.form.patches if op.reads == "Patch" else resource.form.consumes
    body: Json = {"content": {media: {"schema": {"$ref": resource.prefix + name}} for media in media_types}}
    if op.reads != "DeleteOptions":
        body["required"] = True
    return body


def _operation_id(resource: PathResource, op: _Operation, everywhere: bool, subresource: str) -> str:
    """`listStableExampleComV1NamespacedCronTab`."""
    scope = "Namespaced" if resource.namespaced and not everywhere else ""
    end = "ForAllNamespaces" if everywhere else subresource.title()
    group = camel_case(short_group(resource.group), capital=True)
    version = camel_case(resource.version, capital=True)
    return f"{op.word}{group}{version}{op.infix}{scope}{resource.kind}{op.suffix}{end}"


def short_group(group: str) -> str:
    """`rbac.authorization` for `rbac.authorization.k8s.io`, as in ids and tags."""
    return group.removesuffix(".k8s.io") if group else "core"


def camel_case(text: str, capital: bool = False) -> str:
    """`stable.example.com` is `stableExampleCom`; a leading digit is dropped, as in toValidOperationID."""
    out = []
    for position, character in enumerate(text):
        if character.isalpha() or character == "_" or (position and character.isdigit()):
            out.append(character.upper() if capital else character)
            capital = False
        else:
            capital = True
    return "".join(out)


def _article(noun: str) -> str:
    return "an" if noun[:1] in "aeiouAEIOU" else "a"
