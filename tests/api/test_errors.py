"""The tree of store errors: each maps to a Status, or is listed as handled by the verbs."""

from __future__ import annotations

import pytest

from registry.api.errors import from_store
from registry.store import errors
from registry.store.errors import StoreError
from registry.store.types import Guards, ObjectKey, ResourceName, Row, Uid
from tests.api.errors import status_shape

ROW = Row(ResourceName("widgets.example.com"), ObjectKey("default/a"), Uid("u"), 7, "v1", 1, "{}")

# The verbs translate these: reaching the border means that one has forgotten to.
UNHANDLED = (500, "InternalError", None)
MAPPED: dict[type[StoreError], tuple[StoreError, tuple[int, str, int | None]]] = {
    errors.AlreadyExists: (errors.AlreadyExists(ROW), UNHANDLED),
    errors.NotFound: (errors.NotFound("gone"), UNHANDLED),
    errors.RevisionConflict: (errors.RevisionConflict(ROW), UNHANDLED),
    errors.GuardsChanged: (errors.GuardsChanged(Guards(1, 2)), UNHANDLED),
    errors.TenantExists: (errors.TenantExists("acme"), UNHANDLED),
    errors.Unstorable: (errors.Unstorable("bad value"), UNHANDLED),
    errors.ValueRefused: (errors.ValueRefused("a secret value"), (400, "BadRequest", None)),
    errors.RevisionExpired: (errors.RevisionExpired(3, 5, 9), (410, "Expired", None)),
    errors.RevisionInFuture: (errors.RevisionInFuture(30, 9), (504, "Timeout", None)),
    errors.TenantNotFound: (errors.TenantNotFound("acme"), (404, "NotFound", None)),
    errors.TooManyBytes: (errors.TooManyBytes(ROW.resource), (413, "RequestEntityTooLarge", None)),
    errors.QueryTooLarge: (errors.QueryTooLarge("too many objects"), UNHANDLED),
    errors.IndexNotReady: (errors.IndexNotReady(None), UNHANDLED),
    errors.InUse: (errors.InUse("it has objects"), UNHANDLED),
    errors.TenancyRefused: (errors.TenancyRefused("parent", "acme"), UNHANDLED),
    errors.SharingRefused: (errors.SharingRefused("bound", "2"), UNHANDLED),
    errors.TenantSuspended: (errors.TenantSuspended("acme"), (403, "Forbidden", None)),
    errors.QuotaExceeded: (errors.QuotaExceeded("objects", 1, 5, 5), (403, "Forbidden", None)),
    errors.Unreadable: (errors.Unreadable("a secret key"), (500, "InternalError", None)),
    errors.Unavailable: (errors.Unavailable("secret detail of the database"), (503, "ServiceUnavailable", 1)),
    errors.Closed: (errors.Closed("the store is closed"), (503, "ServiceUnavailable", 1)),
    errors.Uncertain: (errors.Uncertain("secret detail of the database"), (500, "InternalError", 1)),
}


def all_errors(base: type[StoreError] = StoreError) -> list[type[StoreError]]:
    return [found for child in base.__subclasses__() for found in (child, *all_errors(child))]


def test_every_error_is_in_the_table() -> None:
    ours = {error for error in all_errors() if error.__module__ == errors.__name__}
    assert ours == MAPPED.keys()


@pytest.mark.parametrize("error, wanted", MAPPED.values(), ids=[e.__name__ for e in MAPPED])
def test_the_status_of_each_error(error: StoreError, wanted: tuple[int, str, int | None]) -> None:
    code, reason, retry_after = wanted
    found = from_store(error)
    status = status_shape(found.status(), code, reason)
    assert found.retry_after_seconds == retry_after
    if retry_after:
        assert status["details"]["retryAfterSeconds"] == retry_after
    assert "secret" not in status["message"], "what the database says is for the log"
