"""What a row that the commit function returns says of its write: committed, or why not."""

from __future__ import annotations

from typing import Any

from registry.store.errors import (
    AlreadyExists,
    GuardsChanged,
    InUse,
    NotFound,
    QuotaExceeded,
    RevisionConflict,
    SharingRefused,
    StoreError,
    TenancyRefused,
    TenantNotFound,
    TenantSuspended,
)
from registry.store.types import Committed, Guards, Row, Uid, Write


def outcome_of(write: Write, row: tuple[Any, ...]) -> Committed | StoreError:
    _, outcome, revision, definitions, namespaces, uid, stored_revision, version, schema, body, refusal = row
    if outcome == "ok":
        return Committed(revision, Guards(definitions, namespaces))
    if outcome == "missing":
        return NotFound(f"{write.resource} {write.key} does not exist")
    if outcome == "used":
        return InUse(f"{write.resource} {write.key} is in use")
    if outcome == "guards":
        return GuardsChanged(Guards(definitions, namespaces))
    if outcome == "tenant":
        return TenantNotFound("the tenant does not exist")
    if outcome == "suspended":
        return TenantSuspended("the tenant is suspended")
    if outcome == "quota":
        what, requested, used, limit = refusal.split(" ")
        return QuotaExceeded(what, int(requested), int(used), int(limit))
    if outcome == "tenancy":
        reason, _, name = refusal.partition(" ")
        return TenancyRefused(reason, name)
    if outcome == "sharing":
        reason, _, detail = refusal.partition(" ")
        return SharingRefused(reason, detail)
    current = Row(write.resource, write.key, Uid(uid), stored_revision, version, schema, body)
    return AlreadyExists(current) if outcome == "exists" else RevisionConflict(current)
