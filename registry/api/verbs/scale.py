"""The scale subresource: three fields of an object in the form for autoscalers.

    {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {...}, "spec": {"replicas": 3},
     "status": {"replicas": 3, "selector": "app=a"}}

A write of the Scale is a write of the object at the paths in the definition.

Follows apiextensions-apiserver pkg/registry/customresource/etcd.go (ScaleREST).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from registry.api.answers import DocumentAnswer
from registry.api.bodies import field_faults, read_body, verbatim
from registry.api.errors import bad_request, internal_error, plain_internal
from registry.api.metadata import agree_on_name, agree_on_namespace
from registry.api.options import WriteOptions, manager_of, write_options
from registry.api.ownership import own_apply_scale, own_scale, owners_of_scale
from registry.api.request import Body, ResourceRequest
from registry.api.served import Object
from registry.api.strategies.custom import nested
from registry.api.tables.table import CREATED_DESCRIPTION, custom_table
from registry.api.verbs.apply import note_duplicates, read_configuration
from registry.api.verbs.driver import run
from registry.api.verbs.get import begin_get
from registry.api.verbs.patch import JSON_PATCH, MERGE_PATCH, PatchReader, in_document_order
from registry.api.verbs.update import UpdateOperation
from registry.builtin.structs import AUTOSCALING
from registry.codec.go_text import not_registered, type_meta, type_meta_error
from registry.codec.model import DecodeError as CodecError
from registry.codec.structs import structs as typed
from registry.codec.structs.base import StructDecodeError
from registry.codec.structs.meta import UNVERSIONED
from registry.definitions.known_kinds import META_KINDS, is_known_kind
from registry.definitions.model import Column, Scale
from registry.schema.model import Json

_API_VERSION = "autoscaling/v1"
_SCHEME: Final = "k8s.io/client-go/scale/util.go:146"
# The versions of this scheme, with all of their kinds. It converts a Scale between them through an internal one only.
_VERSIONS: Final = frozenset({_API_VERSION, "extensions/v1beta1", "apps/v1beta1", "apps/v1beta2"})
# The number of replicas that a patch finds where there is none: the smallest of 32 bits, which it must replace.
_UNSET: Final = -(1 << 31)
_TABLE = custom_table(
    (
        Column("Desired", "integer", ".spec.replicas", description="Number of desired replicas"),
        Column("Available", "integer", ".status.replicas", description="Number of actual replicas"),
        Column("Age", "date", ".metadata.creationTimestamp", description=CREATED_DESCRIPTION),
    )
)
_UNDECODABLE = (
    "no kind is registered for the type v1.Scale in scheme "
    '"k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go:781"'
)


async def get_scale(request: ResourceRequest) -> DocumentAnswer:
    """Returns the Scale. Raises 500 if the object has no replicas in its spec."""
    await begin_get(request)
    row, _ = await request.load()
    obj, paths = await request.object(row), _paths(request)
    scale = scale_of(obj, paths)
    if nested(obj, paths.spec_replicas_path, int, "int64")[0] is None:
        raise internal_error(f'the spec replicas field "{paths.spec_replicas_path}" does not exist')
    return DocumentAnswer(scale, table=_TABLE)


def _paths(request: ResourceRequest) -> Scale:
    scale = request.served.version.scale
    assert scale is not None, "the dispatcher has looked"
    return scale


def scale_of(obj: Object, paths: Scale) -> dict[str, Any]:
    """Returns the Scale of an object; absent numbers are 0. Raises 500 if a value on a path has another type."""
    replicas, selector = _nested(obj, paths.spec_replicas_path, int, "int64"), None
    status: dict[str, Any] = {"replicas": _nested(obj, paths.status_replicas_path, int, "int64") or 0}
    if paths.label_selector_path:
        selector = _nested(obj, paths.label_selector_path, str, "string")
    if selector:
        status["selector"] = selector
    metadata = obj["metadata"]
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": _API_VERSION,
        "metadata": {k: metadata[k] for k in names if k in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _nested(obj: Object, path: str, wanted: type, go: str) -> Any:
    value, fault = nested(obj, path, wanted, go)
    if fault:
        raise plain_internal(fault)
    return value


async def update_scale(request: ResourceRequest, body: Body) -> DocumentAnswer:
    """Serves a PUT: a resource version is optional, missing replicas are 0."""
    options = write_options(request.query, "UpdateOptions")
    unknown: list[str] = []
    try:
        decoded = read_body(body, "autoscaling/v1", "Scale")
        value = decoded.value
        if decoded.duplicates and body.media_type == "json":
            value = verbatim(value, decoded, body.data)
        scale = _decode(value, unknown)
    except (CodecError, StructDecodeError) as error:
        raise bad_request(_UNDECODABLE) from error
    faults = field_faults(decoded.duplicates, unknown)
    if faults and options.field_validation == "Strict":
        raise bad_request(_UNDECODABLE)
    if options.field_validation != "Ignore":
        request.context.warnings.extend(faults)
    request.context.refer_to(scale["metadata"])
    _agree(request, scale)
    uid = scale["metadata"].get("uid") or ""
    return await _write(request, lambda _, old: scale, options, "update", uid)


async def patch_scale(request: ResourceRequest, body: Body) -> DocumentAnswer:
    is_apply = body.media_type not in (JSON_PATCH, MERGE_PATCH)
    options = write_options(request.query, "PatchOptions", is_apply=is_apply)
    paths = _paths(request)
    if is_apply:
        return await _apply(request, body, options, paths)
    reader = PatchReader(body, options)

    def patch_scale(request: ResourceRequest, old: Object) -> dict[str, Any]:
        before = _scale_to_patch(request, old, paths)
        result = reader.result("Scale", before)
        refuse = partial(reader.refused, before, partial(typed.encode, AUTOSCALING["Scale"]))
        unknown: list[str] = []
        try:
            scale = _decode(result, unknown)
        except StructDecodeError as error:
            raise refuse(result, reader.first_fault(result, _decode) or str(error)) from error
        faults = field_faults(reader.faults, in_document_order(unknown))
        if faults and options.field_validation == "Strict":
            raise refuse(result, f"strict decoding error: {', '.join(faults)}")
        if options.field_validation != "Ignore":
            request.context.warnings.extend(faults)
        return scale

    return await _write(request, patch_scale, options, "patch")


def _scale_to_patch(request: ResourceRequest, old: Object, paths: Scale) -> Object:
    scale = scale_of(old, paths)
    if nested(old, paths.spec_replicas_path, int, "int64")[0] is None:
        scale["spec"] = {"replicas": _UNSET}
    return _owned(scale, owners_of_scale(request, old))


def _owned(scale: Object, owners: Sequence[Json]) -> Object:
    """Adds who owns the replicas; a Scale without owners has no managedFields."""
    if owners:
        scale["metadata"]["managedFields"] = owners
    return scale


async def _apply(request: ResourceRequest, body: Body, options: WriteOptions, paths: Scale) -> DocumentAnswer:
    """Applies a Scale: the manager becomes the owner of the object's replicas."""
    decoded = await read_configuration(request, body, creates=False)
    manager = manager_of(options, request.context.user_agent)

    def make(request: ResourceRequest, old: Object) -> Object:
        path = paths.spec_replicas_path
        scale_of(old, paths)  # raises what is wrong with the object before
        result = own_apply_scale(request, old, decoded.value, path, manager, force=bool(options.force))
        note_duplicates(request, decoded, options)
        return _completed(request, {**result})

    return await _run(request, make, "apply", manager, options)


async def _run(
    request: ResourceRequest,
    make: Callable[[ResourceRequest, Object], Object],
    verb: str,
    manager: str,
    options: WriteOptions,
    uid: str = "",
) -> DocumentAnswer:
    paths = _paths(request)
    operation = UpdateOperation(make, verb, manager, options, uid=uid, owned=True, view=_ScaleView(request, paths))
    answer = await run(request, operation)
    return DocumentAnswer(scale_of(answer.object, paths), table=_TABLE)


class _ScaleView:
    """The form in which admission sees a write through the Scale."""

    def __init__(self, request: ResourceRequest, paths: Scale) -> None:
        self._request = request
        self._paths = paths

    def present(self, obj: Object) -> Object:
        return scale_of(obj, self._paths)

    def present_for_mutation(self, new: Object, old: Object) -> tuple[Object, Object]:
        """Returns the Scales. Only mutating admission sees who owns the replicas, and since when: what is stored of an
        update has no time."""
        before = owners_of_scale(self._request, old)
        time = {"time": self._request.context.timestamp}
        owners = [owner if owner in before else time | owner for owner in owners_of_scale(self._request, new)]
        return _owned(self.present(new), owners), _owned(self.present(old), before)

    def merge_back(self, obj: Object, mutated: Object) -> Object:
        """Merges back the replicas, which are all that a mutation can change."""
        try:
            scale = _decode(mutated, [])
        except StructDecodeError as error:
            raise bad_request(_UNDECODABLE) from error
        path = self._paths.spec_replicas_path
        new = obj if scale["replicas"] == nested(obj, path, int, "int64")[0] else _with(obj, path, scale["replicas"])
        return {**new, "metadata": dict(new["metadata"])}


def _decode(value: Any, unknown: list[str]) -> dict[str, Any]:
    """Decodes a Scale: metadata, and replicas as an integer of 32 bits; kind and version may be missing.

    Raises StructDecodeError with Go's text.
    """
    if (why := type_meta_error({} if value is None else value)) is not None:
        raise StructDecodeError(why)
    meta = type_meta(value or {})
    kind, version = meta.get("kind") or "Scale", meta.get("apiVersion") or _API_VERSION
    if (kind, version) != ("Scale", _API_VERSION):
        raise StructDecodeError(_wrong_type(kind, version))
    decoded = typed.decode(AUTOSCALING["Scale"], value)
    unknown.extend(decoded.unknown)
    spec = decoded.value.get("spec") or {}
    return {"metadata": decoded.value.get("metadata") or {}, "replicas": spec.get("replicas") or 0}


def _wrong_type(kind: str, version: str) -> str:
    if kind in UNVERSIONED or (version in _VERSIONS and is_known_kind(kind, version)):
        package = "v1" if kind in UNVERSIONED | META_KINDS else version.partition("/")[2]
        return f"converting ({package}.{kind}) to (v1.Scale): unknown conversion"
    return not_registered(kind, version, _SCHEME)


async def _write(
    request: ResourceRequest,
    scale_from: Callable[[ResourceRequest, Object], dict[str, Any]],
    options: WriteOptions,
    verb: str,
    uid: str = "",
) -> DocumentAnswer:
    paths = _paths(request)
    manager = manager_of(options, request.context.user_agent)

    def make(request: ResourceRequest, old: Object) -> Object:
        scale_of(old, paths)  # raises what is wrong with the object before
        scale = scale_from(request, old)
        _agree(request, scale)
        if scale["replicas"] == _UNSET:
            raise bad_request(f'the spec replicas field "{paths.spec_replicas_path}" cannot be empty')
        new = _with(old, paths.spec_replicas_path, scale["replicas"])
        metadata = dict(old["metadata"])
        if scale["metadata"].get("resourceVersion"):
            metadata["resourceVersion"] = scale["metadata"]["resourceVersion"]
        scaled = own_scale(request, old, {**new, "metadata": metadata}, manager)
        return _completed(request, scaled)

    return await _run(request, make, verb, manager, options, uid)


def _completed(request: ResourceRequest, obj: Object) -> Object:
    """A spec that a Scale creates gets its defaults, which no manager owns: those of the stored version, which another
    version gets when it is read."""
    return request.served.strategy.complete(obj) if request.served.version.storage else obj


def _agree(request: ResourceRequest, scale: dict[str, Any]) -> None:
    """Requires that namespace and name are those of the path."""
    agree_on_namespace(request, {"metadata": dict(scale["metadata"])})
    agree_on_name(request, scale)


def _with(obj: Object, path: str, value: Any) -> Object:
    """Returns a copy of `obj` with `value` at a simple path; creates missing parents."""
    new = dict(obj)
    inner = new
    *parents, last = path.strip(".").split(".")
    for part in parents:
        below = inner.get(part)
        inner[part] = dict(below) if isinstance(below, dict) else {}
        inner = inner[part]
    inner[last] = value
    return new
