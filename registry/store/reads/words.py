"""Full-text search as SQL: over the GIN index of `search_words`, and over states in the log.

Results contain the words; the caller checks phrases and excluded words, and objects with more words than the index
holds.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final, LiteralString, NamedTuple, Protocol

from registry.store.types import TenantId


class SearchWord(Protocol):
    """A word that an object must have; with `prefix`, the beginning of one."""

    @property
    def text(self) -> str: ...
    @property
    def prefix(self) -> bool: ...


class Words(NamedTuple):
    """All words of at least one alternative, in the index with this number; `overflow` is the entry of the objects
    whose words the index does not hold."""

    number: int
    lookup: Sequence[Sequence[SearchWord]]
    overflow: bytes

    def values(self, tenant: TenantId) -> dict[str, Any]:
        """Returns the parameters of CANDIDATES and HAD."""
        return {"words": tsquery(tenant, self.number, self.lookup), "overflow": self.overflow}


def tsquery(tenant: TenantId, number: int, lookup: Sequence[Sequence[SearchWord]]) -> str:
    """Returns a tsquery over lexemes as registry_words builds them. Words consist of letters, digits and marks."""
    scope = tenant.to_bytes(8, "big", signed=True) + number.to_bytes(8, "big", signed=True)
    start = base64.b64encode(scope).decode()
    alternatives = [[f"'{start}{word.text}'" + (":*" if word.prefix else "") for word in words] for words in lookup]
    return " | ".join("(" + " & ".join(words) + ")" for words in alternatives)


# The keys of objects that now have the words, or have more words than the index holds.
CANDIDATES: Final[LiteralString] = (
    "SELECT w.key FROM search_words w WHERE w.words @@ %(words)s::tsquery AND w.tenant_id = %(tenant)s::bigint"
    " AND w.resource = %(resource)s::text"
    " UNION ALL SELECT e.key FROM index_entries e WHERE e.tenant_id = %(tenant)s::bigint"
    " AND e.entry = %(overflow)s::bytea"
)
# Whether a state in the log had them.
HAD: Final[LiteralString] = (
    "(registry_words(%(tenant)s::bigint, u.previous_index_entries) @@ %(words)s::tsquery"
    " OR u.previous_index_entries @> ARRAY[%(overflow)s::bytea])"
)
