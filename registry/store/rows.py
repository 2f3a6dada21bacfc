"""Statement fragments and row conversions shared by several readers."""

from __future__ import annotations

from typing import Any, Final

from registry.store.lost import lower_bound
from registry.store.types import DomainId, Guards, Tenant, TenantId, TenantName

# Selects what a page starts with: counter, compact revision and guards, in the snapshot of its rows.
STATE: Final = """
    SELECT d.revision AS current, d.compact_revision, t.definitions_revision, t.namespaces_revision
    FROM tenants t JOIN domains d ON d.id = ANY (ARRAY[t.domain_id])
    WHERE t.id = %(tenant)s::bigint AND t.deleted_at IS NULL
"""


# The same for a page at a given revision, which may be lost.
STATE_AT: Final = STATE.replace("d.compact_revision", lower_bound("%(at)s::bigint") + " AS compact_revision")

# The changes `c` of a domain since a revision. As a row, since the indexes of keys have the revision, too.
SINCE: Final = "(c.domain_id, c.revision) > (%(domain)s::bigint, %(at)s::bigint) AND c.domain_id <= %(domain)s::bigint"


# What `tenant_of` converts, of the tenant `t`.
TENANT: Final = "t.id, t.name, t.domain_id, t.definitions_revision, t.namespaces_revision, t.attributes"


def tenant_of(row: tuple[Any, ...]) -> Tenant:
    """Converts a row that begins with the columns of TENANT."""
    return Tenant(TenantId(row[0]), TenantName(row[1]), DomainId(row[2]), Guards(row[3], row[4]), row[5])
