"""Validation of the scale subresource of a definition.

Follows ValidateCustomResourceDefinitionSubresources of apiextensions-apiserver
pkg/apis/apiextensions/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from registry.codec.go_text import GoText, go_json
from registry.definitions.columns import validate_simple_path
from registry.schema.field import FieldError, invalid, required

Json = Mapping[str, Any]


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
