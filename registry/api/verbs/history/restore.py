"""Restore and undelete: writes that make an object what it was."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

from registry.api.answers import ObjectAnswer
from registry.api.errors import already_exists, bad_request, conflict, not_found
from registry.api.options import WriteOptions, manager_of, write_options
from registry.api.request import Body, ResourceRequest
from registry.api.served import Object
from registry.api.strategies.base import ObjectDecodeError
from registry.api.verbs.create import create_object
from registry.api.verbs.driver import run
from registry.api.verbs.history.changes import NEWEST, old_row, row_at
from registry.api.verbs.pipeline import Draft, Outcome
from registry.api.verbs.selection import list_revision
from registry.api.verbs.update import UpdateOperation, copy_of
from registry.codec.json_decode import decode_json
from registry.codec.model import DecodeError as SyntaxFault
from registry.codec.yaml_decode import decode_yaml
from registry.flowcontrol.evaluation import Large, evaluate, load_large, note_size
from registry.schema.values import deep_copy
from registry.store.types import ChangeType, Row

# The part of metadata that describes the object; finalizers and owners decide about its present lifecycle.
_RESTORED: Final = ("labels", "annotations")
_KNOWN: Final = {"apiVersion", "kind", "resourceVersion", "preconditions"}


async def restore(request: ResourceRequest, body: Body) -> ObjectAnswer:
    """Returns 200 with the restored object: labels, annotations, and everything but metadata are as they were."""
    with ExitStack() as held:
        return await _restore(request, body, held)


async def _restore(request: ResourceRequest, body: Body, held: ExitStack) -> ObjectAnswer:
    wanted = await evaluate(partial(_decode_options, body), repeatable=True)
    revision = _wanted_revision(wanted)
    if not revision:
        raise bad_request("resourceVersion: the state to restore must be named")
    options = write_options(request.query, "UpdateOptions")
    current, _ = await request.load()
    preconditions = wanted.get("preconditions") or {}
    row = await load_large(Large.PAST, lambda: row_at(request, revision), _size, held)
    note_size(_size(row))
    past = await request.object(row)

    def make(request: ResourceRequest, old: Object) -> Object:
        metadata = {k: v for k, v in old["metadata"].items() if k not in _RESTORED}
        metadata |= {k: past["metadata"][k] for k in _RESTORED if k in past["metadata"]}
        if preconditions.get("resourceVersion"):
            metadata["resourceVersion"] = preconditions["resourceVersion"]
        return _decode_by_kind(request, {**past, "metadata": metadata})

    manager = manager_of(options, request.context.user_agent)
    uid = preconditions.get("uid") or current.uid
    operation = UpdateOperation(make, "restore", manager, WriteOptions(dry_run=options.dry_run), uid=uid)
    return await run(request, operation)


async def undelete(request: ResourceRequest, body: Body) -> ObjectAnswer:
    """Returns 201 with the object, recreated in its last or an earlier state. Raises 404 for an unknown object."""
    with ExitStack() as held:
        return await _undelete(request, body, held)


async def _undelete(request: ResourceRequest, body: Body, held: ExitStack) -> ObjectAnswer:
    wanted = await evaluate(partial(_decode_options, body), repeatable=True)
    options: WriteOptions = write_options(request.query, "CreateOptions")
    served = request.served
    if served.strategy.has_grace_period:
        return await _undelete_kept(request, wanted, options)
    past = await request.backend.store.history.of_object(
        request.tenant, served.resource_name, request.key, before=NEWEST, limit=1
    )
    request.check_fresh(past.state)
    last = past.changes[0] if past.changes else None
    if last is None or last.type is not ChangeType.DELETED:
        row, _ = await request.backend.store.load(request.tenant, served.resource_name, request.key)
        raise not_found(served.resource, request.name) if row is None else already_exists(served.resource, request.name)
    uid = (wanted.get("preconditions") or {}).get("uid")
    if uid and uid != last.uid:
        why = f"the UID in the precondition ({uid}) does not match the UID of what was deleted last ({last.uid})"
        raise conflict(served.resource, request.name, why)
    revision = _wanted_revision(wanted)

    async def past_row() -> Row:
        row = await row_at(request, revision) if revision else old_row(last)
        assert row is not None, "a deletion has a previous state"
        return row

    row = await load_large(Large.PAST, past_row, _size, held)
    note_size(_size(row))
    deleted = await request.object(row)
    metadata = {k: deleted["metadata"][k] for k in ("name", "namespace", *_RESTORED) if k in deleted["metadata"]}
    if owners := deleted["metadata"].get("ownerReferences"):
        # They belong to the past: if they are gone, the object would be garbage collected again.
        names = ", ".join(f"{o.get('kind')} {o.get('name')}" for o in owners)
        request.context.warnings.append(f"metadata.ownerReferences are not brought back: {names}")
    obj = await evaluate(partial(_decode_by_kind, request, {**deleted, "metadata": metadata}))
    manager = manager_of(options, request.context.user_agent)
    return await create_object(request, obj, options, manager, verb="undelete")


async def _undelete_kept(request: ResourceRequest, wanted: Object, options: WriteOptions) -> ObjectAnswer:
    """Returns 200 with an object that is deleted but still there. Raises 404 or 409 if there is none to bring back."""
    uid = (wanted.get("preconditions") or {}).get("uid") or ""
    manager = manager_of(options, request.context.user_agent)
    return await run(request, UndeleteOperation(_as_it_is, "undelete", manager, options, uid=uid))


def _size(row: Row) -> int:
    return len(row.body)


def _as_it_is(_request: ResourceRequest, old: Object) -> Object:
    return copy_of(old)


class UndeleteOperation(UpdateOperation):
    """The update that removes an object's deletion mark, as only the server can."""

    async def commit(self, request: ResourceRequest, draft: Draft) -> Outcome:
        request.served.strategy.prepare_for_undelete(draft.new, request.context)
        return await super().commit(request, draft)


def _decode_by_kind(request: ResourceRequest, obj: Object) -> Object:
    try:
        return request.served.strategy.decode(deep_copy(obj), [])
    except ObjectDecodeError as error:
        raise bad_request(f"what the object was then is no {request.served.kind.name} of today: {error}") from error


def _decode_options(body: Body) -> Object:
    """Decodes the options of a restore or undelete: `{"resourceVersion": "7", "preconditions": {"uid": ...}}`.

    The body may be empty.
    """
    if not body.data.strip():
        return {}
    try:
        value = body.read(decode_yaml if body.media_type == "yaml" else decode_json).value
    except SyntaxFault as fault:
        raise bad_request(f"the body cannot be read: {fault}") from fault
    texts: Sequence[Any] = ()
    if isinstance(value, dict):
        preconditions = value.get("preconditions") or {}
        if isinstance(preconditions, dict) and not (value.keys() - _KNOWN):
            texts = (value.get("resourceVersion"), preconditions.get("uid"), preconditions.get("resourceVersion"))
            if all(t is None or isinstance(t, str) for t in texts):
                return value
    raise bad_request(
        'the body must be of the form {"resourceVersion": "7", "preconditions": {"uid": "...", "resourceVersion": "9"}}'
    )


def _wanted_revision(wanted: Object) -> int:
    return list_revision(wanted.get("resourceVersion") or "")
