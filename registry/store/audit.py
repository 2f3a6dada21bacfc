"""The table of audit events: batched inserts, and deletion after the retention."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Final

from registry.store.arrays import TextArray
from registry.store.connection import Pool
from registry.store.statements import statement

# Rows per DELETE statement, which keeps its locks and duration short.
DELETE_ROWS: Final = 5_000

# Clients choose the parts of a path. An index entry has at most 2,700 bytes: what does not fit is in the event alone.
INSERT: Final = statement(
    "insert-audit-events",
    "Audit events, given as JSON.",
    """
    INSERT INTO audit_events (at, tenant, username, verb, resource, namespace, name, code, event)
    SELECT (e ->> 'stageTimestamp')::timestamptz, e #>> '{annotations,tenancy.registry/tenant}',
        coalesce(e #>> '{user,username}', ''), e ->> 'verb',
        left(resource, CASE WHEN octet_length(resource) > 600 THEN 150 ELSE 600 END),
        left(namespace, CASE WHEN octet_length(namespace) > 600 THEN 150 ELSE 600 END),
        left(name, CASE WHEN octet_length(name) > 600 THEN 150 ELSE 600 END),
        (e #>> '{responseStatus,code}')::int, e
    FROM unnest(%(events)s::text[]) AS t (line) CROSS JOIN LATERAL (SELECT line::jsonb AS e) j
    CROSS JOIN LATERAL (
        SELECT concat_ws('.', e #>> '{objectRef,resource}', e #>> '{objectRef,apiGroup}') AS resource,
            e #>> '{objectRef,namespace}' AS namespace, e #>> '{objectRef,name}' AS name
    ) o
    """,
)

REMOVE: Final = statement(
    "remove-audit-events",
    "Removes some events from before a time; by the index of times.",
    """
    DELETE FROM audit_events WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM audit_events
        WHERE at < now() - %(keep)s::float8 * interval '1 second' ORDER BY at LIMIT %(limit)s::bigint
    ))
    RETURNING 1
    """,
)


async def insert(pool: Pool, lines: Sequence[bytes]) -> None:
    # jsonb rejects U+0000. A backslash before its escape belongs to the text.
    texts = [line.decode("utf-8", "replace") for line in lines]
    await pool.execute(INSERT, {"events": TextArray([_storable(text) for text in texts])})


async def remove_old(pool: Pool, retention: datetime.timedelta) -> int:
    """Deletes events older than `retention` and returns their number."""
    removed = 0
    while rows := await pool.execute(REMOVE, {"keep": retention.total_seconds(), "limit": DELETE_ROWS}):
        removed += len(rows)
    return removed


def _storable(text: str) -> str:
    if "\\u0000" not in text:
        return text
    # An even number of backslashes before it is literal text: split by pairs.
    return "\\\\".join(part.replace("\\u0000", "\\ufffd") for part in text.split("\\\\"))
