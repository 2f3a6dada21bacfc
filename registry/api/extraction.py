"""What is extracted from the objects of a resource for queries and SQL reports, and which fields these omit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from registry.budget import Budget
from registry.codec.stored import decode_stored
from registry.definitions.model import Definition, Version
from registry.query.indexes import INDEX, NO_INDEXES, Indexes, converts_contents, indexes_of
from registry.reporting import marking
from registry.reporting.facets import Documents, documents_for
from registry.reporting.redaction import redacted_paths
from registry.store.reporting.model import Path
from registry.store.types import Entries

SECRET_PATHS: Final[tuple[Path, ...]] = (("data",), ("stringData",))


class Extraction:
    """Of objects that are written at `version`. Those that are `translated` are stored as another kind, which has no
    indexes."""

    def __init__(self, definition: Definition, version: Version, *, translated: bool) -> None:
        self._definition = definition
        self._version = version
        self._translated = translated
        self._storage_version = definition.versions[definition.storage_version]

    # -- fields that are omitted
    @cached_property
    def redacted_paths(self) -> tuple[Path, ...]:
        """Fields that history omits, by the schemas of this version and of the stored one."""
        return self._paths_redacted_in(self._version, self._storage_version) if self._definition.revision else ()

    @cached_property
    def sensitive(self) -> tuple[Path, ...]:
        """Fields that cannot be queried, by the schemas of all versions."""
        definition = self._definition
        if not definition.revision:
            return SECRET_PATHS if definition.name == "secrets" else ()
        return self._paths_redacted_in(*definition.versions.values())

    def _paths_redacted_in(self, *versions: Version) -> tuple[Path, ...]:
        marks = marking.paths(self._definition.reporting.get(marking.SENSITIVE, ""))
        schemas = [version.schema().structural for version in versions]
        return tuple(dict.fromkeys(path for schema in schemas for path in redacted_paths(schema, marks)))

    # -- queries
    @cached_property
    def indexes(self) -> Indexes:
        """The indexes that the definition declares; for built-in kinds, those of the server's settings."""
        definition = self._definition
        selectable = definition.selectable_fields if definition.revision else ()
        if self._translated or not (definition.queries or selectable):
            return NO_INDEXES
        return indexes_of(definition, self.sensitive)

    def index_entries(self, obj: Mapping[str, Any], body: str) -> Entries | None:
        """Returns the index entries of an object that is stored as `body`; None if nothing is indexed."""
        indexes = self.indexes
        if not indexes.numbers or not body.startswith('"'):
            return None
        if not indexes.all:
            return Entries(indexes.layout, indexes.numbers, (), indexes.fields)
        if self._version is not self._storage_version:
            # As it will be read at the storage version.
            obj = decode_stored('{"metadata":{' + body)
            with Budget():
                self._storage_version.schema().prune_and_default(obj)
        return Entries(indexes.layout, indexes.numbers, indexes.entries(obj), indexes.fields)

    # -- reports
    @cached_property
    def _documents(self) -> Documents | None:
        """Makes the documents for SQL reports; None if a kind has no reports, as all built-in ones."""
        definition, annotations = self._definition, self._definition.reporting
        if not definition.revision or marking.is_off(annotations):
            return None
        wanted = list(marking.paths(annotations.get(marking.INDEXES, "")))
        for selectable in definition.selectable_fields:
            wanted += marking.paths(selectable)
        schema = self._storage_version.schema().structural
        return documents_for(schema, wanted, marking.paths(annotations.get(marking.SENSITIVE, "")))

    def document(self, obj: Mapping[str, Any], body: str) -> str | None:
        """Returns the document of an object that is stored as `body`; None if there is none, or it is sealed."""
        documents = self._documents
        if documents is None or not body.startswith('"'):
            return None
        as_stored = self._version is self._storage_version or not converts_contents(self._definition)
        return documents.text(obj, body) if as_stored else documents.of_body(body)


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
