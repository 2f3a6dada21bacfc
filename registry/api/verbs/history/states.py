"""Logged states as rows, objects and entries of lists."""

from __future__ import annotations

from typing import Final

from registry.api import continuation
from registry.api.errors import bad_request, expired, not_found
from registry.api.freshness import wait_for_revision
from registry.api.list_options import list_options
from registry.api.request import ResourceRequest
from registry.api.served import Object
from registry.flowcontrol.byte_shares import HeldAnswer
from registry.reporting.redaction import without
from registry.store.errors import RevisionExpired
from registry.store.reporting.model import LAST_APPLIED
from registry.store.types import ChangeType, LoggedChange, Row

API_VERSION: Final = "history.registry/v1"
DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 500
NEWEST: Final = (1 << 63) - 1
# How often states are held: as rows, as texts of entries, and as bytes of the answer.
HELD_TIMES: Final = 3
_OPERATIONS: Final = {ChangeType.ADDED: "Create", ChangeType.MODIFIED: "Update", ChangeType.DELETED: "Delete"}
_COPIES: Final = (("metadata", "managedFields"), ("metadata", "annotations", LAST_APPLIED))


def change_entry(logged: LoggedChange) -> Object:
    entry: Object = {"resourceVersion": str(logged.revision)}
    if logged.previous_revision:
        entry["previousResourceVersion"] = str(logged.previous_revision)
    actor = logged.actor
    entry |= {
        "uid": logged.uid,
        "time": logged.at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "operation": _OPERATIONS[logged.type],
        "verb": actor.verb,
        "user": actor.user,
        "fieldManager": actor.manager,
    }
    return entry


async def row_at(request: ResourceRequest, revision: int) -> Row:
    """Returns the row at a revision. Raises 404 if there was no object, 410 beyond the log, 504 in the future."""
    await wait_for_revision(request, revision)
    try:
        page = await request.backend.store.page(
            request.tenant, request.served.resource_name, at=revision, limit=1, key=request.key
        )
    except RevisionExpired as error:
        raise expired(
            f"resource version {revision} is beyond what is kept: the oldest is {error.compact_revision}"
        ) from error
    request.check_fresh(page.state)
    if not page.rows:
        raise not_found(request.served.resource, f"{request.name} at resource version {revision}")
    return page.rows[0]


def new_row(logged: LoggedChange) -> Row | None:
    if logged.type is ChangeType.DELETED:
        return None
    return Row(logged.resource, logged.key, logged.uid, logged.revision, logged.version, logged.schema, logged.body)


def old_row(logged: LoggedChange) -> Row | None:
    if logged.previous_body is None:
        return None
    return Row(
        logged.resource,
        logged.key,
        logged.uid,
        logged.previous_revision,
        logged.previous_version,
        logged.previous_schema,
        logged.previous_body,
    )


def redacted(request: ResourceRequest, obj: Object) -> Object:
    """Returns the object without sensitive fields and without fields that hold copies of them."""
    paths = request.served.extraction.redacted_paths
    return without(obj, (*paths, *_COPIES)) if paths else obj


def size_of(logged: LoggedChange) -> int:
    """Returns the length of both bodies."""
    return len(logged.body or "") + len(logged.previous_body or "")


async def hold(count: int) -> None:
    """Accounts for `count` bytes of states. Raises TooManyRequests."""
    if (answer := HeldAnswer.current()) is not None:
        await answer.hold_part(count)


def page_of(request: ResourceRequest) -> tuple[int, continuation.Continuation | None]:
    options = list_options({k: v for k, v in request.query.items() if k in ("limit", "continue")})
    if options.limit < 0:
        raise bad_request("limit: must not be negative")
    token = continuation.decode(options.continue_) if options.continue_ else None
    # Each state takes a webhook call.
    highest = DEFAULT_LIMIT if request.served.conversions is not None else MAX_LIMIT
    return min(options.limit or DEFAULT_LIMIT, highest), token
