"""Validation of the names of a definition.

Follows ValidateCustomResourceDefinitionNames of apiextensions-apiserver
pkg/apis/apiextensions/validation/validation.go and apimachinery pkg/util/validation/validation.go.
"""

from __future__ import annotations

from registry.definitions.model import Json
from registry.schema.field import FieldError, invalid, required, too_many
from registry.schema.names import dns1035_label, dns1123_subdomain, name_is_dns_subdomain

# Short names of a definition, and its categories; kube-apiserver has no limit, and a recording of it has 200.
MAX_NAMES = 1_000


def definition_name(name: str, spec: Json, prefix: bool) -> list[str]:
    """The errors of metadata.name (or, as a prefix, of generateName) of a definition with this spec."""
    errors = list(name_is_dns_subdomain(name, prefix))
    names = spec.get("names") or {}
    if name != f"{names.get('plural') or ''}.{spec.get('group') or ''}":
        errors.append('must be spec.names.plural+"."+spec.group')
    return errors


def validate_group(group: str, path: str) -> list[FieldError]:
    if not group:
        return [required(path)]
    errors = dns1123_subdomain(group)
    if errors:
        return [invalid(path, group, ",".join(errors))]
    if "." not in group:
        return [invalid(path, group, "should be a domain with at least one dot")]
    return []


def validate_required_names(names: Json, path: str) -> list[FieldError]:
    """The errors of missing names, which are required in the spec but not in the status."""
    return [required(f"{path}.{name}") for name in ("plural", "singular", "kind", "listKind") if not names.get(name)]


def validate_number_of_names(names: Json, path: str) -> list[FieldError]:
    """The errors of too many short names or categories: those of all definitions of a group are indexed in memory."""
    return [
        too_many(f"{path}.{name}", len(names[name]), MAX_NAMES)
        for name in ("shortNames", "categories")
        if len(names.get(name) or ()) > MAX_NAMES
    ]


def validate_names(names: Json, path: str) -> list[FieldError]:
    """The errors of the names that are set; used for spec.names and for status.acceptedNames."""
    errors: list[FieldError] = []
    for name in ("plural", "singular"):
        _label(names.get(name) or "", f"{path}.{name}", errors)
    kind, list_kind = names.get("kind") or "", names.get("listKind") or ""
    for name, value in (("kind", kind), ("listKind", list_kind)):
        why = dns1035_label(value.lower()) if value else []
        if why:
            errors.append(
                invalid(f"{path}.{name}", value, "may have mixed case, but should otherwise match: " + ",".join(why))
            )
    for i, short_name in enumerate(names.get("shortNames") or ()):
        _label(short_name, f"{path}.shortNames[{i}]", errors, required=True)
    if kind and kind == list_kind:
        errors.append(invalid(f"{path}.listKind", list_kind, "kind and listKind may not be the same"))
    for i, category in enumerate(names.get("categories") or ()):
        _label(category, f"{path}.categories[{i}]", errors, required=True)
    return errors


def _label(value: str, path: str, errors: list[FieldError], required: bool = False) -> None:
    why = dns1035_label(value) if value or required else []
    if why:
        errors.append(invalid(path, value, ",".join(why)))
