"""The NonStructuralSchema condition: definitions that preserve unknown fields may have schemas that are not structural.

Follows apiextensions-apiserver pkg/controller/nonstructuralschema/nonstructuralschema_controller.go.
"""

from __future__ import annotations

from typing import Any

from registry.definitions.conditions import find, has_condition, with_condition
from registry.definitions.model import Json
from registry.schema.field import FieldError, invalid
from registry.schema.structural.structural import find_unsupported, validate_structural

CONDITION = "NonStructuralSchema"
# The maximum length of the condition's message.
_MAX_MESSAGE = 32 * 1024


def is_structural(schema: Json) -> bool:
    """Whether a schema is structural. Its depth must have been bounded."""
    return find_unsupported(schema) is None and not validate_structural(schema, "")


def next_status(crd: Json, now: str) -> dict[str, Any] | None:
    """The status with the condition up to date; None if unchanged. `now` is in RFC 3339."""
    wanted, old = _condition(crd), find(crd, CONDITION)
    is_current = old is None if wanted is None else has_condition(crd, CONDITION, *wanted)
    if is_current:
        return None
    status = crd.get("status") or {}
    conditions = [c for c in status.get("conditions") or () if c.get("type") != CONDITION]
    if wanted is not None:  # upstream puts it last
        conditions += with_condition({"conditions": [old] if old else []}, CONDITION, *wanted, now)["conditions"]
    return {**status, "conditions": conditions}


def _condition(crd: Json) -> tuple[str, str, str] | None:
    """Status, reason and message of the desired condition. Only a definition that preserves unknown fields can have
    one."""
    spec = crd.get("spec") or {}
    if not spec.get("preserveUnknownFields"):
        return None
    errors: list[FieldError] = [invalid("spec.preserveUnknownFields", True, "must be false")]
    for i, version in enumerate(spec.get("versions") or ()):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            continue
        why = find_unsupported(schema)
        if why is not None:
            message = f"failed to check validation schema for version {version.get('name') or ''}: {why}"
            return "Unknown", "StructuralError", message
        errors += validate_structural(schema, f"spec.versions[{i}].schema.openAPIV3Schema")
    texts = list(dict.fromkeys(error.message() for error in errors))
    message = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return "True", "Violations", message[:_MAX_MESSAGE]
