"""Validation of additionalPrinterColumns.

Follows ValidateCustomResourceColumnDefinition of apiextensions-apiserver
pkg/apis/apiextensions/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from registry.schema.field import FieldError, invalid, required, too_many

Json = Mapping[str, Any]

TYPES = ("boolean", "date", "integer", "number", "string")
MAX_COLUMNS = 500  # kube-apiserver has no limit; the paths of more take too long to compile
FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")


def validate_columns(columns: Sequence[Json] | None, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if columns and len(columns) > MAX_COLUMNS:
        return [too_many(path, len(columns), MAX_COLUMNS)]
    for i, column in enumerate(columns or ()):
        _check(column, f"{path}[{i}]", errors)
    return errors


def _check(column: Json, path: str, errors: list[FieldError]) -> None:
    if not column.get("name"):
        errors.append(required(f"{path}.name"))
    column_type, column_format = column.get("type") or "", column.get("format") or ""
    types = f"must be one of {','.join(TYPES)}"
    if not column_type:
        errors.append(required(f"{path}.type", types))
    elif column_type not in TYPES:
        errors.append(invalid(f"{path}.type", column_type, types))
    if column_format and column_format not in FORMATS:
        errors.append(invalid(f"{path}.format", column_format, f"must be one of {','.join(FORMATS)}"))
    json_path = column.get("jsonPath") or ""
    if not json_path:
        errors.append(required(f"{path}.JSONPath"))
    else:
        errors.extend(validate_simple_path(json_path, f"{path}.JSONPath"))


def validate_simple_path(json_path: str, path: str) -> list[FieldError]:
    """A non-empty JSON path must start with a dot; the rest is not validated."""
    if json_path.startswith("."):
        return []
    return [invalid(path, json_path, "must be a simple json path starting with .")]
