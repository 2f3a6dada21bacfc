"""Documents of existing objects: finds those of another layout, and replaces them."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from registry.store.arrays import BigintArray
from registry.store.bounds import READ_BYTES
from registry.store.connection import Pool
from registry.store.encoding import strip_document
from registry.store.errors import Unstorable
from registry.store.reporting.statements import PUT_DOCUMENTS, STALE_DOCUMENTS
from registry.store.types import Tenant

logger = logging.getLogger(__name__)

# Key, revision and document of an object.
Document = tuple[str, int, str | None]


async def stale_documents(
    pool: Pool, tenant: Tenant, resource: str, layout: str, after: str, limit: int
) -> list[tuple[str, int, str]]:
    """Returns key, revision and body of objects whose document has another layout; with an empty layout, of those that
    have a document.

    Empty when none is left; a result shorter than `limit` is not the end.
    """
    rows = await pool.fetch(
        STALE_DOCUMENTS,
        {
            "tenant": tenant.id,
            "resource": resource,
            "after": after,
            "layout": layout or None,
            "limit": limit,
            "bytes": READ_BYTES,
        },
    )
    return [(row[0], row[1], row[2]) for row in rows]


async def put_documents(pool: Pool, tenant: Tenant, resource: str, documents: Sequence[Document]) -> None:
    """Stores documents. One that PostgreSQL rejects is reduced to its facets, and the object's columns are NULL."""
    try:
        await _put(pool, tenant, resource, documents)
    except Unstorable:
        for key, revision, document in documents:
            try:
                await _put(pool, tenant, resource, [(key, revision, document)])
            except Unstorable as error:
                logger.warning("%s %s is stored without its doc: %s", resource, key, error)
                await _put(pool, tenant, resource, [(key, revision, strip_document(document))])


async def _put(pool: Pool, tenant: Tenant, resource: str, documents: Sequence[Document]) -> None:
    await pool.execute(
        PUT_DOCUMENTS,
        {
            "tenant": tenant.id,
            "resource": resource,
            "keys": [d[0] for d in documents],
            "revisions": BigintArray([d[1] for d in documents]),
            "docs": [d[2] for d in documents],
        },
    )
