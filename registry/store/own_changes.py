"""The changes that this process commits, made from its writes: its watches need not wait until the log is read.

A domain's revisions are gapless, so the change after the feed's position is the next one wherever it comes from. It is
read from the log if another process has made it, if the write does not say what it replaces, or if its transaction may
have made others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from registry.store.encoding import label_elements
from registry.store.labels import NO_LABELS, StoredLabels
from registry.store.types import Change, ChangeType, Replaced, Tenant, TenantId, Write, WriteOperation

# Of objects with more labels the log is read, which has them in less memory: the texts of so many short ones, before
# and after a change, take two kilobytes, which the size of a change does not count.
FEW_LABELS: Final = 16


class CommittedWrite(NamedTuple):
    """A write that is committed. `write` is None if only the log knows what has been written."""

    tenant: Tenant
    revision: int
    write: Write | None


def changes_after(position: int, committed: Iterable[CommittedWrite]) -> list[tuple[TenantId, Change]] | None:
    """Returns the changes of one domain, in the order of their revisions, if they are the next after a position."""
    changes = []
    for expected, (tenant, revision, write) in enumerate(committed, position + 1):
        if revision != expected or write is None or (change := _change_of(tenant, revision, write)) is None:
            return None
        changes.append((tenant.id, change))
    return changes


def _change_of(tenant: Tenant, revision: int, write: Write) -> Change | None:
    replaced = write.replaced
    if write.alone or len(write.labels) > FEW_LABELS:
        return None
    if write.operation is WriteOperation.CREATE:
        return _change(tenant, revision, write, ChangeType.ADDED)
    if replaced is None or replaced.labels is None or replaced.row.revision != write.expected_revision:
        return None
    is_update = write.operation is WriteOperation.UPDATE
    return _change(tenant, revision, write, ChangeType.MODIFIED if is_update else ChangeType.DELETED, replaced)


def _change(tenant: Tenant, revision: int, write: Write, kind: ChangeType, replaced: Replaced | None = None) -> Change:
    row = replaced.row if replaced is not None else None
    previous_labels = _stored(replaced.labels or ()) if replaced is not None else NO_LABELS
    is_deleted = kind is ChangeType.DELETED
    state = row if is_deleted and row is not None else write
    return Change(
        revision=revision,
        type=kind,
        resource=write.resource,
        key=write.key,
        uid=state.uid,
        version=state.version,
        schema=state.schema,
        body=state.body,
        labels=previous_labels if is_deleted else _stored(write.labels),
        previous_revision=row.revision if row is not None else 0,
        previous_version=row.version if row is not None else "",
        previous_schema=row.schema if row is not None else 0,
        previous_body=row.body if row is not None else None,
        previous_labels=previous_labels,
        actor=write.actor,
        tenant=tenant.id,
    )


def _stored(labels: Sequence[str]) -> StoredLabels:
    return StoredLabels.of(label_elements(labels))
