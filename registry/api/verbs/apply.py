"""Server-side apply: a PATCH that declares the fields the client owns, and creates the object if it is missing.

Follows apiserver pkg/endpoints/handlers/patch.go (applyPatcher).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from registry.api.answers import ObjectAnswer
from registry.api.bodies import decoder_of
from registry.api.errors import StatusError, bad_request, conflict, plain_internal
from registry.api.metadata import agree_on_name, agree_on_namespace
from registry.api.options import WriteOptions, manager_of
from registry.api.ownership import own_apply
from registry.api.request import Body, ResourceRequest
from registry.api.served import Object
from registry.api.strategies.base import ObjectDecodeError
from registry.api.verbs.create import CreateOperation
from registry.api.verbs.driver import run
from registry.api.verbs.update import UpdateOperation, copy_of
from registry.apply.objects import display_name, group_version_kind, has_same_contents
from registry.codec.go_text import json_type
from registry.codec.model import CborError, Decoded
from registry.codec.model import DecodeError as CodecError
from registry.emulation import emulated
from registry.flowcontrol.evaluation import evaluate


async def apply(request: ResourceRequest, body: Body, options: WriteOptions) -> ObjectAnswer:
    decoded = await read_configuration(request, body, creates=not request.subresource)
    manager, force = manager_of(options, request.context.user_agent), bool(options.force)

    def merge(request: ResourceRequest, old: Object | None) -> Object:
        result = own_apply(request, old, decoded.value, manager, force=force)
        note_duplicates(request, decoded, options)
        if old is None:
            _require_no_uid(request, result)
        elif has_same_contents(old, result):
            return copy_of(result)  # not even defaults of the request's version are filled in
        return _complete(request, result, decoded.value)

    missing = (
        None
        if request.subresource
        else CreateOperation(lambda request: merge(request, None), options, manager, "apply", owned=True)
    )
    return await run(request, UpdateOperation(merge, "apply", manager, options, owned=True, create=missing))


def force_apply(configure: Callable[[Object], Object | None], manager: str) -> UpdateOperation:
    """Returns the operation by which the server itself applies a configuration: what `configure` returns, if any."""

    def merge(request: ResourceRequest, old: Object) -> Object:
        configuration = configure(old)
        if configuration is None:
            return copy_of(old)
        result = own_apply(request, old, configuration, manager, force=True)
        return copy_of(result) if has_same_contents(old, result) else _complete(request, result, configuration)

    return UpdateOperation(merge, "apply", manager, owned=True)


def _require_no_uid(request: ResourceRequest, created: Object) -> None:
    """Raises a 409 if the applied configuration has the uid of an object: there is none."""
    metadata = created.get("metadata")
    uid = metadata.get("uid") if isinstance(metadata, dict) else None
    if uid and isinstance(uid, str):  # anything else fails to decode
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise conflict(request.served.resource, request.name, why)


def _complete(request: ResourceRequest, result: Object, configuration: Object) -> Object:
    """Decodes the object after an apply by its kind. Its namespace and name must agree with the path's."""
    try:
        obj = request.served.strategy.complete({**result})
    except ObjectDecodeError as error:
        fault = request.served.strategy.conversion_fault(result)
        if fault is None:
            raise bad_request(str(error)) from error
        why = f"unable to convert unstructured object to {group_version_kind(result)}: {fault}"
        what = f"failed to convert new object ({display_name(configuration)}) to proper version"
        raise plain_internal(f"{what}: {why}") from error
    agree_on_namespace(request, obj)
    agree_on_name(request, obj)
    return obj


class _UnencodableError(StatusError):
    """YAML that cannot be converted to JSON, which 1.37 does for the audit log before anything else."""


async def read_configuration(request: ResourceRequest, body: Body, *, creates: bool) -> Decoded:
    """Decodes the applied configuration. Unless it could create the object, a missing object is reported first."""
    try:
        return await evaluate(partial(_decode_configuration, body))
    except StatusError as error:
        if not creates and not isinstance(error, _UnencodableError):
            await request.load()
        raise


def _decode_configuration(body: Body) -> Decoded:
    """An empty body is an empty object."""
    try:
        decoded = body.read(decoder_of(body.media_type))
    except CborError as error:
        raise bad_request(f"error decoding {_noun()}: {error}") from error
    except CodecError as error:
        if emulated().is_1_37 and not body.data.lstrip().startswith(b"{"):
            # The original converts it to JSON for the audit log first, unless it looks like JSON.
            raise _UnencodableError(400, "BadRequest", f"error encoding patch: {error}") from error
        raise bad_request(f"error decoding {_noun()}: error converting YAML to JSON: {error}") from error
    if decoded.value is None:
        decoded.value = {}
    if not isinstance(decoded.value, dict):
        raise bad_request(
            f"error decoding {_noun()}: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal "
            f"{json_type(decoded.value)} into Go value of type map[string]interface {{}}"
        )
    return decoded


def _noun() -> str:
    """Returns what errors call the configuration: since 1.37 it need not be YAML."""
    return "patch" if emulated().is_1_37 else "YAML"


def note_duplicates(request: ResourceRequest, decoded: Decoded, options: WriteOptions) -> None:
    """Reports duplicate keys; called when nothing is wrong with the fields themselves."""
    if not decoded.duplicates or options.field_validation == "Ignore":
        return
    if options.field_validation == "Strict":
        errors = ", ".join(decoded.strict_errors())
        raise bad_request(f"error strict decoding {_noun()}: error converting YAML to JSON: {errors}")
    request.context.warnings.extend(decoded.duplicates)
