"""What `kubectl explain` prints of built-in kinds: no type and no field is without a description."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from registry import builtin
from registry.builtin.subresources import subresources_of
from registry.definitions.openapi.components import _descriptions
from registry.definitions.openapi.documents import document_path, openapi_v3_document

# Parts of the schema of schemas, of which upstream says nothing either.
UNDESCRIBED = ("JSONSchemaProps", "ExternalDocumentation")


def published() -> Iterator[tuple[str, dict[str, Any]]]:
    """The types of all built-in kinds, by name."""
    definitions = list(builtin.definitions())
    for path in sorted({document_path(d.group, version) for d in definitions for version in d.versions}):
        document = openapi_v3_document(definitions, path, subresources_of)
        assert document is not None
        yield from document["components"]["schemas"].items()


def test_each_type_and_field_has_a_description() -> None:
    """Two hundred had none."""
    bare = set()
    for name, schema in published():
        if not name.endswith(UNDESCRIBED):
            parts = {name: schema, **{f"{name}.{field}": part for field, part in schema.get("properties", {}).items()}}
            bare |= {place for place, part in parts.items() if "description" not in part}
    assert sorted(bare) == []


def test_each_description_is_used() -> None:
    used = {f"{name}.{field}" for name, schema in published() for field in ("", *schema.get("properties", {}))}
    assert {f"{name}.{field}" for name, texts in _descriptions().items() for field in texts} - used == set()
