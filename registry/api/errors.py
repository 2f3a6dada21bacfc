"""A Status is data: one constructor for each reason, in Kubernetes' words.

    raise not_found(resource, "a")      # 404 widgets.example.com "a" not found

StatusError is raised by the verbs and written by the HTTP layer. `from_store` translates the errors of the store,
once.

A Status is bounded in the number of its causes and in length, whatever a client has sent. The reference bounds neither.

Follows apimachinery pkg/api/errors/errors.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from registry.codec.go_text import go_quote
from registry.schema.field import MAX_ERRORS, MAX_MESSAGE, OMIT_VALUE, ErrorType, FieldError, shorten
from registry.store import errors as store


class Qualified(NamedTuple):
    """A resource or a kind with its group: prints `widgets.example.com`, or `configmaps` in the core group."""

    name: str
    group: str = ""

    def __str__(self) -> str:
        return f"{self.name}.{self.group}" if self.group else self.name


class StatusError(Exception):
    """A failure as clients see it. `details` None omits the details from the Status.

    `metadata` and `status` are those of a Status: a list that has expired returns a token with which it can continue,
    though not consistently, and a webhook chooses both.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        retry_after_seconds: int | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
        status: str = "Failure",
    ) -> None:
        self.message = shorten(message, MAX_MESSAGE)
        super().__init__(self.message)
        self.code = code
        self.reason = shorten(reason)
        self.details = None if details is None else {name: _short(value) for name, value in details.items()}
        self.retry_after_seconds = retry_after_seconds
        self._metadata = {name: _short(value) for name, value in (metadata or {}).items()}
        self._status = shorten(status)

    def status(self) -> dict[str, Any]:
        """The Status object: `{"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", ...}`."""
        body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": self._metadata}
        body["status"] = self._status
        if self.message:
            body["message"] = self.message
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


def _of(what: Qualified, name: str = "", **more: Any) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if what.group:
        details["group"] = what.group
    if what.name:
        details["kind"] = what.name
    return details | more


def _short(detail: Any) -> Any:
    """Shortens a name or kind, which may be as long as a request, and the list of causes."""
    if isinstance(detail, str):
        return shorten(detail)
    return detail[: MAX_ERRORS + 1] if isinstance(detail, list) else detail


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(resource: Qualified, name: str, message: str, causes: Sequence[Mapping[str, str]] = ()) -> StatusError:
    """`widgets.example.com "a" is forbidden: <message>`; without a resource or name those words are omitted."""
    if not resource.name:
        text = f"forbidden: {message}"
    elif name:
        text = f"{resource} {go_quote(name)} is forbidden: {message}"
    else:
        text = f"{resource} is forbidden: {message}"
    details = _of(resource, name)
    if causes:
        details["causes"] = list(causes)
    return StatusError(403, "Forbidden", text, details)


def not_found(resource: Qualified, name: str) -> StatusError:
    return StatusError(404, "NotFound", f"{resource} {go_quote(name)} not found", _of(resource, name))


def resource_not_found() -> StatusError:
    """Returns the answer for an unknown resource of a built-in group."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def method_not_supported(resource: Qualified, action: str) -> StatusError:
    message = f'{action} is not supported on resources of kind "{resource}"'
    return StatusError(405, "MethodNotAllowed", message, _of(resource))


def method_not_allowed() -> StatusError:
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, {})


def not_acceptable(message: str, *, with_details: bool = False) -> StatusError:
    return StatusError(406, "NotAcceptable", message, {} if with_details else None)


def already_exists(
    resource: Qualified, name: str, *, terminating: bool = False, has_prefix: bool = False
) -> StatusError:
    """`has_prefix`: the object to create has a generateName, even if it has a name too."""
    message = f"{resource} {go_quote(name)} already exists"
    details = _of(resource, name)
    if has_prefix:
        message += ", the server was not able to generate a unique name for the object"
        details["retryAfterSeconds"] = 1
    if terminating:
        message = f"object is being deleted: {message}"
    return StatusError(409, "AlreadyExists", message, details, 1 if has_prefix else None)


def conflict(resource: Qualified, name: str, why: str) -> StatusError:
    message = f"Operation cannot be fulfilled on {resource} {go_quote(name)}: {why}"
    return StatusError(409, "Conflict", message, _of(resource, name))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def modified(resource: Qualified, name: str) -> StatusError:
    """Returns the 409 of optimistic concurrency."""
    return conflict(resource, name, MODIFIED)


def apply_conflict(message: str, conflicts: Iterable[tuple[str, str]]) -> StatusError:
    """`conflicts` are messages and fields. As many of them become causes as in `invalid`."""
    causes: list[dict[str, str]] = []
    room = MAX_MESSAGE // 2
    for text, field in conflicts:
        are_left_out = len(causes) == MAX_ERRORS or room <= 0
        if are_left_out:
            text, field = "more conflicts are not shown", ""
        room -= len(text) + len(field)
        causes.append({"reason": "FieldManagerConflict", "message": text, "field": field})
        if are_left_out:
            break
    return StatusError(409, "Conflict", message, {"causes": causes})


def expired(message: str, continue_: str = "") -> StatusError:
    """`continue_` is a token with which an expired list can continue, though not consistently."""
    return StatusError(410, "Expired", message, metadata={"continue": continue_} if continue_ else None)


def too_large(message: str) -> StatusError:
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {message}")


def unsupported_media_type(message: str, *, with_details: bool) -> StatusError:
    return StatusError(415, "UnsupportedMediaType", message, {} if with_details else None)


def invalid(kind: Qualified, name: str, errors: Iterable[FieldError]) -> StatusError:
    """Returns a 422 with a cause for each error. Equal texts occur once in the message, but each is a cause.

    There are no more than MAX_ERRORS causes, and their texts are bounded; the last one says that others are left out.
    """
    causes: list[dict[str, str]] = []
    texts: dict[str, None] = {}
    room = MAX_MESSAGE // 2
    for error in errors:
        if len(causes) == MAX_ERRORS or room <= 0:
            error = _NOT_SHOWN
        field, body = shorten(error.field), error.body()
        room -= len(field) + len(body)
        causes.append({"reason": str(error.type), "message": body, "field": field})
        texts[f"{field}: {body}"] = None
        if error is _NOT_SHOWN:
            break
    text = next(iter(texts)) if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = _of(kind, name)
    if causes:
        details["causes"] = causes
    return StatusError(422, "Invalid", f"{shorten(str(kind))} {go_quote(shorten(name))} is invalid: {text}", details)


_NOT_SHOWN = FieldError(ErrorType.INVALID, "<nil>", OMIT_VALUE, "more errors are not shown")


def unprocessable(message: str) -> StatusError:
    """Returns the 422 for a patch that does not apply, with a fixed text and empty details."""
    return StatusError(422, "Invalid", message, {})


def too_many_requests(message: str, retry_after_seconds: int) -> StatusError:
    details = {"retryAfterSeconds": retry_after_seconds}
    return StatusError(429, "TooManyRequests", message, details, retry_after_seconds)


def plain_internal(message: str) -> StatusError:
    """Returns a 500 as kube-apiserver's for errors without a reason."""
    return StatusError(500, "", message)


def internal_error(message: str) -> StatusError:
    causes = [{"message": message}]
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", {"causes": causes})


def service_unavailable(message: str, retry_after_seconds: int = 1) -> StatusError:
    details = {"retryAfterSeconds": retry_after_seconds}
    return StatusError(503, "ServiceUnavailable", message, details, retry_after_seconds)


def timeout(message: str, *, causes: Sequence[Mapping[str, str]] = (), retry_after_seconds: int = 0) -> StatusError:
    details: dict[str, Any] = {}
    if causes:
        details["causes"] = list(causes)
    if retry_after_seconds:
        details["retryAfterSeconds"] = retry_after_seconds
    return StatusError(504, "Timeout", message, details, retry_after_seconds or None)


def namespace_required() -> StatusError:
    """Returns the 400 for an object of a namespaced kind in no namespace (pkg/registry/generic/registry/store.go)."""
    return bad_request("Namespace parameter required.")


def refused_key(name: str, problems: Sequence[str]) -> StatusError:
    """Returns the 400 for a name that no object can have, because of `problems`; the name may be empty."""
    if not name:
        return bad_request("Name parameter required.")
    return bad_request(f"Name parameter invalid: {go_quote(name)}: {';'.join(problems)}")


def deadline_exceeded() -> StatusError:
    """Returns the 504 for a request that takes longer than it may (apiserver pkg/server/filters/timeout.go)."""
    return timeout("Timeout: request did not complete within the allotted timeout")


def revision_in_future(revision: int, current: int, *, retry_after_seconds: int = 1) -> StatusError:
    """Returns the 504 for a resource version that has not been assigned, by default after the wait for it."""
    text = f"Timeout: Too large resource version: {revision}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return timeout(text, causes=causes, retry_after_seconds=retry_after_seconds)


def from_store(error: store.StoreError) -> StatusError:
    """Returns the Status of errors that the verbs did not handle themselves."""
    match error:
        case store.RevisionExpired():
            return expired(f"too old resource version: {error.revision} ({error.compact_revision})")
        case store.RevisionInFuture():
            return revision_in_future(error.revision, error.current, retry_after_seconds=0)
        case store.Uncertain():
            return StatusError(
                500,
                "InternalError",
                "the connection to the database was lost while the change was "
                "being committed: read the object to see whether it was made",
                {"retryAfterSeconds": error.retry_after_seconds},
                error.retry_after_seconds,
            )
        case store.Unavailable():
            return service_unavailable("the database is not available", error.retry_after_seconds)
        case store.TenantSuspended():
            return StatusError(403, "Forbidden", "the tenant is suspended: it can be read but not written to", {})
        case store.QuotaExceeded():
            return StatusError(403, "Forbidden", f"the tenant's limit of {error.what} is reached", {})
        case store.Unreadable():
            return internal_error("an object is encrypted by a key that this server does not have, or is damaged")
        case store.ValueRefused():
            return bad_request("the request has a value that the database can neither hold nor look up")
        case store.TooManyBytes():
            return too_large(f"the objects of {error.resource} that this request needs are too large together")
        case store.TenantNotFound():
            return StatusError(404, "NotFound", "the tenant does not exist", {})
        case _:
            return internal_error("the store answered in an unexpected way")
