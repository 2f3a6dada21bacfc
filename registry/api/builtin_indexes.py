"""Indexes of built-in kinds, declared by the server's settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from registry.api.extraction import SECRET_PATHS
from registry.definitions.model import Definition
from registry.query.indexes import INDEX, indexes_of

# Stored in the form of another definition.
_TRANSLATED: Final = frozenset(
    {"events", "events.events.k8s.io", "customresourcedefinitions.apiextensions.k8s.io"}
)  # fmt: skip


def with_indexes(definitions: Sequence[Definition], declared: Sequence[tuple[str, str]]) -> Sequence[Definition]:
    """Adds declared indexes, pairs of a resource and fields. Raises ValueError if one is unknown or invalid."""
    by_name = {definition.name: definition for definition in definitions}
    for name, fields in declared:
        known = by_name.get(name)
        if known is None or name in _TRANSLATED:
            raise ValueError(f'--builtin-indexes: "{name}" is not a built-in resource that can be indexed')
        before = known.queries.get(INDEX, "")
        indexed = replace(known, queries={**known.queries, INDEX: f"{before};{fields}"})
        if errors := indexes_of(indexed, SECRET_PATHS if name == "secrets" else ()).errors:
            raise ValueError(f"--builtin-indexes: {name}: {errors[0]}")
        by_name[name] = indexed
    return list(by_name.values())
