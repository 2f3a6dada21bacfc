"""Reviews: objects created with a question, and returned with the answer in their status.

This module validates the question; registry/api/verbs/review.py answers it. Follows kubernetes
pkg/apis/authorization/validation/validation.go and pkg/apis/authentication.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from registry.admission.selectors import operator_errors, requirement_errors
from registry.api.strategies.base import Object
from registry.api.strategies.builtin import TypedStrategy
from registry.builtin.structs import AUTHENTICATION, AUTHORIZATION
from registry.codec.go_text import GoText, go_json
from registry.codec.structs.meta import META
from registry.schema.field import FieldError, invalid, required

_RESOURCE, _PATH = "spec.resourceAttributes", "spec.nonResourceAttributes"


class ReviewStrategy(TypedStrategy):
    virtual = True
    without_table: Sequence[str] = ("",)

    def errors(self, obj: Object) -> list[FieldError]:
        """Returns the errors of the question; there are none where nothing is asked that could be wrong."""
        return []

    def validate(self, obj: Object) -> list[FieldError]:
        return self.errors(obj)

    def metadata_errors(self, obj: Object) -> list[FieldError]:
        """Returns an error if metadata has anything but a namespace and managedFields."""
        return _metadata_errors(obj["metadata"], "must be empty")


class AccessReviewStrategy(ReviewStrategy):
    """Access reviews. `asks_of_others` says that the spec names the user or groups."""

    asks_of_others: ClassVar[bool] = True

    def errors(self, obj: Object) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors = _attributes_errors(spec)
        if self.asks_of_others and not spec.get("user") and not spec.get("groups"):
            errors.append(invalid("spec.user", "", "at least one of user or group must be specified"))
        return errors + _selectors_errors(spec) + self.metadata_errors(obj)


class SubjectAccessReviewStrategy(AccessReviewStrategy):
    struct = AUTHORIZATION["SubjectAccessReview"]


class SelfSubjectAccessReviewStrategy(AccessReviewStrategy):
    struct = AUTHORIZATION["SelfSubjectAccessReview"]
    asks_of_others = False


class LocalSubjectAccessReviewStrategy(AccessReviewStrategy):
    struct = AUTHORIZATION["LocalSubjectAccessReview"]

    def errors(self, obj: Object) -> list[FieldError]:
        spec, metadata = obj.get("spec") or {}, obj["metadata"]
        errors = super().errors(obj)
        attributes, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        if attributes is not None and (attributes.get("namespace") or "") != (metadata.get("namespace") or ""):
            errors.append(
                invalid(f"{_RESOURCE}.namespace", attributes.get("namespace") or "", "must match metadata.namespace")
            )
        if path is not None:
            errors.append(invalid(_PATH, _go_path(path), "disallowed on this kind of request"))
        return errors

    def metadata_errors(self, obj: Object) -> list[FieldError]:
        return _metadata_errors(obj["metadata"], "must be empty except for namespace")


class SelfSubjectRulesReviewStrategy(ReviewStrategy):
    struct = AUTHORIZATION["SelfSubjectRulesReview"]


class SelfSubjectReviewStrategy(ReviewStrategy):
    struct = AUTHENTICATION["SelfSubjectReview"]


class TokenReviewStrategy(ReviewStrategy):
    struct = AUTHENTICATION["TokenReview"]


def _metadata_errors(metadata: dict[str, Any], problem: str) -> list[FieldError]:
    if not any(name not in ("namespace", "managedFields") for name in metadata):
        return []
    return [invalid("metadata", GoText(_in_order(META["ObjectMeta"].encode(metadata))), problem)]


def _in_order(encoded: dict[str, Any]) -> str:
    """Encodes metadata with its members, and those of managedFields, in the order of the Go structs."""
    encoded_go = {name: go_json(value) for name, value in encoded.items()}
    if "managedFields" in encoded:
        entries = [
            ",".join(f'"{name}":{go_json(entry[name])}' for name in _ENTRY if name in entry)
            for entry in encoded["managedFields"]
        ]
        encoded_go["managedFields"] = "[" + ",".join(f"{{{entry}}}" for entry in entries) + "]"
    return "{" + ",".join(f'"{name}":{text}' for name, text in encoded_go.items()) + "}"


_ENTRY = ("manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource")


def _attributes_errors(spec: dict[str, Any]) -> list[FieldError]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        return [invalid(_PATH, _go_path(path), "cannot be specified in combination with resourceAttributes")]
    if resource is None and path is None:
        return [
            invalid(_RESOURCE, None, "exactly one of nonResourceAttributes or resourceAttributes must be specified")
        ]
    return []


def _selectors_errors(spec: dict[str, Any]) -> list[FieldError]:
    resource = spec.get("resourceAttributes") or {}
    errors: list[FieldError] = []
    for name in ("fieldSelector", "labelSelector"):
        selector = resource.get(name)
        if selector is not None:
            errors += _selector_errors(selector, f"{_RESOURCE}.{name}", of_labels=name == "labelSelector")
    return errors


def _go_path(path: dict[str, Any]) -> GoText:
    """Returns the attributes of a path as Go prints its internal struct."""
    return GoText(go_json({"Path": path.get("path") or "", "Verb": path.get("verb") or ""}))


def _selector_errors(selector: dict[str, Any], path: str, *, of_labels: bool) -> list[FieldError]:
    raw, requirements = selector.get("rawSelector"), selector.get("requirements") or []
    errors: list[FieldError] = []
    if raw and requirements:
        errors.append(invalid(f"{path}.rawSelector", raw, "may not specified at the same time as requirements"))
    if not raw and not requirements:
        errors.append(
            required(f"{path}.requirements", f"when {path} is specified, requirements or rawSelector is required")
        )
    for position, requirement in enumerate(requirements):
        errors += _requirement_errors(requirement, f"{path}.requirements[{position}]", of_labels=of_labels)
    return errors


def _requirement_errors(requirement: dict[str, Any], path: str, *, of_labels: bool) -> list[FieldError]:
    """Returns the errors of a requirement. Unknown operators are allowed for newer clients: the answer reports them."""
    if of_labels:
        return requirement_errors(requirement, path, any_operator=True)
    errors = [] if requirement.get("key") else [required(f"{path}.key", "must be specified")]
    return errors + operator_errors(requirement, path, any_operator=True)
