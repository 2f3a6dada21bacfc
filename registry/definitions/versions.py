"""Validation of spec.versions, with the scale subresource, selectable fields and printer columns of each, and of
status.storedVersions.

Follows validateCustomResourceDefinitionSpec, validateDeprecationWarning, ValidateCustomResourceDefinitionSubresources,
ValidateCustomResourceSelectableFields, ValidateCustomResourceColumnDefinition and
ValidateCustomResourceDefinitionStoredVersions of apiextensions-apiserver
pkg/apis/apiextensions/validation/validation.go.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from registry.codec.go_text import GoText, go_json
from registry.definitions.internal import InternalVersion, go_versions
from registry.definitions.model import Json
from registry.schema.field import FieldError, duplicate, invalid, required, too_many
from registry.schema.field_paths import SchemaPathError, resolve
from registry.schema.names import dns1035_label

DEPRECATION_WARNING_MAX_BYTES = 256
MAX_SELECTABLE_FIELDS = 8


def validate_version_name(name: str, path: str) -> list[FieldError]:
    why = dns1035_label(name)
    return [invalid(path, name, ",".join(why))] if why else []


def validate_deprecation(version: InternalVersion, path: str) -> list[FieldError]:
    warning = version.deprecation_warning
    if warning is None:
        return []
    if not version.deprecated:
        why = ["can only be set for deprecated versions"]
    else:
        why = _unfit_warning(warning)
    printed = GoText(go_json(warning))  # a pointer in kube-apiserver
    return [invalid(f"{path}.deprecationWarning", printed, text) for text in why]


def _unfit_warning(warning: str) -> list[str]:
    errors = []
    if len(warning.encode("utf-8", "surrogatepass")) > DEPRECATION_WARNING_MAX_BYTES:
        errors.append(f"must be <= {DEPRECATION_WARNING_MAX_BYTES} characters long")
    if not warning:
        errors.append("must not be an empty string")
    position = 0  # in bytes
    for character in warning:
        if not is_print(character):
            errors.append(
                f"must only contain printable UTF-8 characters; non-printable character found at index {position}"
            )
            break
        position += len(character.encode("utf-8", "surrogatepass"))
    return errors


def is_print(character: str) -> bool:
    """Go's unicode.IsPrint: letters, marks, numbers, punctuation, symbols, and the ASCII space but no other."""
    return character == " " or unicodedata.category(character)[0] in "LMNPS"


def validate_uniqueness(versions: list[InternalVersion] | None, path: str) -> list[FieldError]:
    """The errors unless names are unique and exactly one version is the storage version."""
    errors = []
    listed = versions or []
    if len({v.name for v in listed}) != len(listed):
        errors.append(invalid(path, GoText(go_versions(versions)), "must contain unique version names"))
    if sum(v.storage for v in listed) != 1:
        errors.append(
            invalid(path, GoText(go_versions(versions)), "must have exactly one version marked as storage version")
        )
    return errors


def validate_stored_versions(
    stored: list[str] | None, versions: list[InternalVersion] | None, path: str
) -> list[FieldError]:
    if not stored:
        return [invalid(path, GoText("null" if stored is None else "[]"), "must have at least one stored version")]
    errors = []
    missing = {name: i for i, name in enumerate(stored)}
    for version in versions or ():
        if version.storage and version.name not in missing:
            errors.append(invalid(path, stored, f"must have the storage version {version.name}"))
        missing.pop(version.name, None)
    for name, i in missing.items():
        why = (
            f"missing from spec.versions; {name} was previously a storage version, and must remain in "
            f"spec.versions until a storage migration ensures no data remains persisted in {name} "
            f"and removes {name} from status.storedVersions"
        )
        errors.append(invalid(f"{path}[{i}]", name, why))
    return errors


def has_status(subresources: Json | None) -> bool:
    return subresources is not None and subresources.get("status") is not None


def validate_subresources(subresources: Json | None, path: str) -> list[FieldError]:
    scale = (subresources or {}).get("scale")
    if scale is None:
        return []
    errors: list[FieldError] = []
    for name, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        replicas_path = scale.get(name) or ""
        if not replicas_path:
            errors.append(required(f"{path}.scale.{name}"))
        else:
            errors.extend(_below(replicas_path, replicas_path, (root,), root, f"{path}.scale.{name}"))
    selector_path = scale.get("labelSelectorPath")
    if selector_path:
        printed = GoText(go_json(selector_path))  # a pointer in kube-apiserver
        errors.extend(
            _below(
                selector_path,
                printed,
                (".spec", ".status"),
                "either .spec or .status",
                f"{path}.scale.labelSelectorPath",
            )
        )
    return errors


def _below(json_path: str, printed: str, roots: tuple[str, ...], words: str, path: str) -> list[FieldError]:
    errors = validate_simple_path(json_path, path)
    if not errors and not json_path.startswith(tuple(f"{root}." for root in roots)):
        return [invalid(path, printed, f"should be a json path under {words}")]
    return errors


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
            why = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            errors.append(invalid(field_path, json_path, why))
        if resolved.path in seen:
            errors.append(duplicate(field_path, json_path))
        seen.add(resolved.path)
    if len(seen) > MAX_SELECTABLE_FIELDS:
        errors.append(too_many(path, len(seen), MAX_SELECTABLE_FIELDS))
    return errors


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
