"""Roles and bindings: validation, and the escalation check, which refuses to grant rights that the user lacks.

Follows kubernetes pkg/apis/rbac/{validation/validation.go,v1/defaults.go} and
pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/{strategy.go,policybased/storage.go} at v1.36.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from registry.admission.selectors import selector_errors
from registry.api.strategies.base import Context, Object
from registry.api.strategies.builtin import TypedStrategy
from registry.api.strategies.custom import with_revision
from registry.authorization.authorizer import TENANT_BYTES
from registry.authorization.rbac.model import (
    EVERYTHING,
    GROUP,
    reference_of,
    rules_of,
    rules_size,
    subjects_of,
    subjects_size,
)
from registry.builtin.structs import RBAC
from registry.codec.go_text import GoText, go_json
from registry.schema.field import FieldError, invalid, not_supported, required
from registry.schema.names import NameFunction, name_is_dns_subdomain, name_is_path_segment, name_is_stored_segment
from registry.schema.objectmeta.rules import validate_common_fields

_ROLE_KINDS = ("Role", "ClusterRole")
_WHAT = "roles and bindings"
_SUBJECT_KINDS = ("ServiceAccount", "User", "Group")


class _RbacStrategy(TypedStrategy, ABC):
    checks_finalizers = True
    allow_create_on_update = True

    def name_function(self) -> NameFunction:
        return name_is_stored_segment

    def prepare_for_create(self, obj: Object, context: Context) -> None:
        super().prepare_for_create(obj, context)
        self.check_memory(_WHAT, TENANT_BYTES, self.size(obj), 0, obj, context)
        if context.authority is not None:
            self.check_grant(obj, None, context)

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        super().prepare_for_update(new, old, context)
        self.check_memory(_WHAT, TENANT_BYTES, self.size(new), self.size(old), new, context)
        if context.authority is not None and not _only_collected(new, old):
            self.check_grant(new, old, context)

    @abstractmethod
    def size(self, obj: Object) -> int:
        """What it takes in memory, in bytes."""

    @abstractmethod
    def check_grant(self, new: Object, old: Object | None, context: Context) -> None:
        """Raises a StatusError if the writer would grant rights that they lack."""

    def validate_update(self, new: Object, old: Object, warnings: list[str]) -> Sequence[FieldError]:
        errors = validate_common_fields(with_revision(new, old), old["metadata"], namespaced=self.definition.namespaced)
        return self._with_declared_last(errors + self.update_errors(new, old))

    def update_errors(self, new: Object, old: Object) -> list[FieldError]:
        """Unlike those of other kinds, errors of the whole object come before those of the change of its metadata."""
        return self.errors(new) + self.meta_change_errors(new, old)


def _only_collected(new: Object, old: Object) -> bool:
    """Whether only fields change that the garbage collector changes: owners and finalizers."""
    return bool(_without_collection(new) == _without_collection(old))


def _without_collection(obj: Object) -> Any:
    ignored = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")
    return _without_empty({**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k not in ignored}})


def _without_empty(value: Any) -> Any:
    """Drops empty lists and maps, which Go's comparison (equality.Semantic) takes for absent ones."""
    if isinstance(value, dict):
        parts = ((name, _without_empty(part)) for name, part in value.items())
        return {name: part for name, part in parts if part not in ({}, [], None)}
    return list(map(_without_empty, value)) if isinstance(value, list) else value


class RoleStrategy(_RbacStrategy):
    struct = RBAC["Role"]
    declared_required = (r"rules\[\d+\]\.verbs",)
    namespaced_rules: ClassVar[bool] = True

    def finish(self, obj: Object) -> Object:
        finished = super().finish(obj)
        finished["rules"] = finished["rules"] or None  # Go's nil: an empty list becomes null
        return finished

    def errors(self, obj: Object) -> list[FieldError]:
        errors = self.meta_errors(obj)
        for position, rule in enumerate(obj.get("rules") or ()):
            errors += _rule_errors(rule, f"rules[{position}]", namespaced=self.namespaced_rules)
        return errors

    def size(self, obj: Object) -> int:
        return rules_size(rules_of(obj))

    def check_grant(self, new: Object, old: Object | None, context: Context) -> None:
        assert context.authority is not None
        context.authority.check_rules(new["metadata"].get("name") or "", rules_of(new))


class ClusterRoleStrategy(RoleStrategy):
    struct = RBAC["ClusterRole"]
    namespaced_rules = False

    def errors(self, obj: Object) -> list[FieldError]:
        errors = super().errors(obj)
        aggregation = obj.get("aggregationRule")
        if aggregation is not None:
            errors += _aggregation_errors(aggregation)
        return errors

    def check_grant(self, new: Object, old: Object | None, context: Context) -> None:
        super().check_grant(new, old, context)
        if any(_aggregates(role) for role in (new, old) if role is not None):
            assert context.authority is not None
            context.authority.check_rules(
                new["metadata"].get("name") or "",
                EVERYTHING,
                "must have cluster-admin privileges to use the aggregationRule",
            )


def _aggregates(role: Object) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


class RoleBindingStrategy(_RbacStrategy):
    struct = RBAC["RoleBinding"]
    declared_required = (r"subjects\[\d+\]\.name", r"roleRef\.name")
    role_kinds: ClassVar[tuple[str, ...]] = _ROLE_KINDS

    def size(self, obj: Object) -> int:
        return subjects_size(subjects_of(obj))

    def default(self, obj: Object) -> None:
        reference = obj["roleRef"] = dict(obj.get("roleRef") or {})
        reference["apiGroup"] = reference.get("apiGroup") or GROUP
        for subject in obj.get("subjects") or ():
            if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = GROUP

    def errors(self, obj: Object) -> list[FieldError]:
        errors = self.meta_errors(obj)
        errors += _reference_errors(obj.get("roleRef") or {}, self.role_kinds)
        for position, subject in enumerate(obj.get("subjects") or ()):
            errors += _subject_errors(subject, f"subjects[{position}]", namespaced=self.definition.namespaced)
        return errors

    def update_errors(self, new: Object, old: Object) -> list[FieldError]:
        errors = super().update_errors(new, old)
        if _reference(new) != _reference(old):
            errors.append(invalid("roleRef", GoText(go_json(_reference(new))), "cannot change roleRef"))
        return errors

    def check_grant(self, new: Object, old: Object | None, context: Context) -> None:
        assert context.authority is not None
        context.authority.check_binding(new["metadata"].get("name") or "", reference_of(new))


class ClusterRoleBindingStrategy(RoleBindingStrategy):
    struct = RBAC["ClusterRoleBinding"]
    role_kinds = ("ClusterRole",)


def _reference(obj: Mapping[str, Any]) -> dict[str, str]:
    """Returns the reference as Go prints its internal struct."""
    reference = obj.get("roleRef") or {}
    return {
        "APIGroup": reference.get("apiGroup") or "",
        "Kind": reference.get("kind") or "",
        "Name": reference.get("name") or "",
    }


def _rule_errors(rule: Mapping[str, Any], path: str, *, namespaced: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    if not rule.get("verbs"):
        errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    paths = rule.get("nonResourceURLs")
    if paths:
        where, value = f"{path}.nonResourceURLs", GoText(go_json(paths))
        if namespaced:
            errors.append(invalid(where, value, "namespaced rules cannot apply to non-resource URLs"))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            errors.append(invalid(where, value, "rules cannot apply to both regular resources and non-resource URLs"))
        return errors
    if not rule.get("apiGroups"):
        errors.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return errors


def _reference_errors(reference: Mapping[str, Any], kinds: tuple[str, ...]) -> list[FieldError]:
    errors: list[FieldError] = []
    if reference.get("apiGroup") != GROUP:
        errors.append(not_supported("roleRef.apiGroup", reference.get("apiGroup") or "", [GROUP]))
    if reference.get("kind") not in kinds:
        errors.append(not_supported("roleRef.kind", reference.get("kind") or "", list(kinds)))
    name = reference.get("name") or ""
    if not name:
        errors.append(required("roleRef.name"))
    else:
        errors += [invalid("roleRef.name", name, problem) for problem in name_is_path_segment(name, False)]
    return errors


def _subject_errors(subject: Mapping[str, Any], path: str, *, namespaced: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    name, group = subject.get("name") or "", subject.get("apiGroup") or ""
    if not name:
        errors.append(required(f"{path}.name"))
    kind = subject.get("kind") or ""
    if kind == "ServiceAccount":
        if name:
            errors += [invalid(f"{path}.name", name, problem) for problem in name_is_dns_subdomain(name, False)]
        if group:
            errors.append(not_supported(f"{path}.apiGroup", group, [""]))
        if not namespaced and not subject.get("namespace"):
            errors.append(required(f"{path}.namespace"))
    elif kind in _SUBJECT_KINDS:
        if group != GROUP:
            errors.append(not_supported(f"{path}.apiGroup", group, [GROUP]))
    else:
        errors.append(not_supported(f"{path}.kind", kind, list(_SUBJECT_KINDS)))
    return errors


def _aggregation_errors(aggregation: Mapping[str, Any]) -> list[FieldError]:
    selectors = aggregation.get("clusterRoleSelectors") or ()
    where = "aggregationRule.clusterRoleSelectors"
    if not selectors:
        return [required(where, "at least one clusterRoleSelector required if aggregationRule is non-nil")]
    errors: list[FieldError] = []
    for position, selector in enumerate(selectors):
        path = f"{where}[{position}]"
        problems = selector_errors(selector, path)
        if problems:  # such a selector cannot be compiled, of which kube-apiserver complains in addition
            errors += [*problems, invalid(path, None, "invalid label selector.")]
    return errors
