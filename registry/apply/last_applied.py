"""The last-applied-configuration annotation of kubectl's client-side apply, which server-side apply takes over.

Follows apimachinery pkg/util/managedfields/internal/lastapplied{,manager,updater}.go.
"""

from __future__ import annotations

import json

from registry.apply.compare import changes
from registry.apply.fieldsets import FieldSet, difference
from registry.apply.owned import Untypable, field_set
from registry.apply.types import MergeType
from registry.apply.validate import validate
from registry.codec.go_text import go_json
from registry.schema.model import Json

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"

# The limit on all annotations of an object; the annotation is dropped rather than failing an apply.
MAX_ANNOTATIONS_BYTES = 256 * 1024


def unchanged_fields(live: dict[str, Json], api_version: str, node: MergeType) -> FieldSet | None:
    """The fields that client-side apply set and that are unchanged since; None without a usable annotation."""
    text = _annotation(live)
    if not text:
        return None
    try:
        configuration = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(configuration, dict) or configuration.get("apiVersion") != api_version:
        return None
    if not configuration.get("kind") or validate(configuration, node) or validate(live, node):
        return None
    try:
        diff = changes(configuration, live, node)
    except Untypable:
        return None
    return difference(difference(field_set(configuration, node), diff.changed), diff.removed)


def with_annotation(value: dict[str, Json], applied: dict[str, Json]) -> dict[str, Json]:
    """`value` with its annotation, if it has one, updated to the configuration applied now."""
    if not _annotation(value):
        return value
    text = _configuration(applied)
    annotations = {**value["metadata"]["annotations"], ANNOTATION: text}
    if _bytes(annotations) > MAX_ANNOTATIONS_BYTES:
        del annotations[ANNOTATION]
    elif value["metadata"]["annotations"].get(ANNOTATION) == text:
        return value
    metadata = {**value["metadata"], "annotations": annotations}
    return {**value, "metadata": metadata}


def _configuration(applied: dict[str, Json]) -> str:
    metadata = applied.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if isinstance(metadata, dict) and "annotations" in metadata:
        metadata = dict(metadata)
        if annotations is None:
            del metadata["annotations"]
        else:
            metadata["annotations"] = {name: text for name, text in annotations.items() if name != ANNOTATION}
        applied = {**applied, "metadata": metadata}
    return go_json(applied) + "\n"


def _annotation(value: dict[str, Json]) -> str:
    metadata = value.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    text = annotations.get(ANNOTATION) if isinstance(annotations, dict) else None
    return text if isinstance(text, str) else ""


def _bytes(annotations: dict[str, Json]) -> int:
    return sum(
        len(name.encode("utf-8", "surrogatepass")) + len(str(text).encode("utf-8", "surrogatepass"))
        for name, text in annotations.items()
    )
