"""Validation of selectableFields: the fields of field selectors, in addition to name and namespace.

Follows ValidateCustomResourceSelectableFields of apiextensions-apiserver
pkg/apis/apiextensions/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from registry.schema.field import FieldError, duplicate, invalid, required, too_many
from registry.schema.field_paths import SchemaPathError, resolve

Json = Mapping[str, Any]

MAX_SELECTABLE_FIELDS = 8


def validate_selectable_fields(fields: Sequence[Json], schema: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen = set()
    for i, field in enumerate(fields):
        field_path = f"{path}[{i}].jsonPath"
        json_path = field.get("jsonPath") or ""
        if not json_path:
            errors.append(required(field_path))
            continue
        try:
            resolved = resolve(json_path, schema, brackets=False)
        except SchemaPathError as error:
            errors.append(invalid(field_path, json_path, f"is an invalid path: {error}"))
            continue
        if resolved.root == "metadata":
            errors.append(invalid(field_path, json_path, "must not point to fields in metadata"))
        if resolved.schema.get("type") not in ("string", "boolean", "integer"):
            errors.append(
                invalid(
                    field_path,
                    json_path,
                    "must point to a field of type string, boolean or integer. "
                    "Enum string fields and strings with formats are allowed.",
                )
            )
        if resolved.path in seen:
            errors.append(duplicate(field_path, json_path))
        seen.add(resolved.path)
    if len(seen) > MAX_SELECTABLE_FIELDS:
        errors.append(too_many(path, len(seen), MAX_SELECTABLE_FIELDS))
    return errors
