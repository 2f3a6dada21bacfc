"""Namespaces: they terminate before they are removed, and three cannot be deleted.

Follows kubernetes pkg/registry/core/namespace/{strategy,storage/storage}.go and pkg/apis/core/validation. The labels
for Pod Security are validated as in pod-security-admission admission/admission.go (ValidateNamespace) and
api/helpers.go (PolicyToEvaluate); there are no pods to apply them to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from registry.api.errors import Qualified, forbidden
from registry.api.strategies.base import Context, Object, WriteEffects
from registry.api.strategies.builtin import TypedStrategy
from registry.builtin.structs import CORE
from registry.schema.field import FieldError, invalid
from registry.schema.names import NameFunction, label_key, name_is_dns_label
from registry.store.types import WriteFlag

NAME_LABEL = "kubernetes.io/metadata.name"
FINALIZER = "kubernetes"
_STANDARD_FINALIZERS = frozenset({FINALIZER, "orphan", "foregroundDeletion"})
_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})

_PREFIX: Final = "pod-security.kubernetes.io/"
_MODES: Final = ("enforce", "audit", "warn")
_LEVELS: Final = ("privileged", "baseline", "restricted")
_VERSION: Final = re.compile(r"v1\.(0|[1-9][0-9]{0,18})", re.ASCII)
_MAX_MINOR: Final = (1 << 63) - 1


class NamespaceStrategy(TypedStrategy):
    struct = CORE["Namespace"]
    checks_finalizers = True
    labels = ("status.phase",)
    returns_deleted_object = True
    controlled = True
    policy_without_orphans = "Foreground"
    # Whether it is the strategy of a subresource.
    is_part = False
    subresources: Sequence[str] = ("finalize",)
    without_table = ("finalize",)

    def part(self, subresource: str) -> TypedStrategy:
        parts = {"status": NamespaceStatusStrategy, "finalize": NamespaceFinalizeStrategy}
        return parts[subresource](self.definition, self.version)

    def name_function(self) -> NameFunction:
        return name_is_dns_label

    def default(self, obj: Object) -> None:
        """Adds the phase, and the name to the labels, early enough that the writer owns the label."""
        obj["status"] = {"phase": "Active", **(obj.get("status") or {})}
        _name_label(obj)

    def prepare_for_create(self, obj: Object, context: Context) -> None:
        super().prepare_for_create(obj, context)
        spec = obj["spec"] = dict(obj.get("spec") or {})
        finalizers = list(spec.get("finalizers") or [])
        spec["finalizers"] = finalizers if FINALIZER in finalizers else [*finalizers, FINALIZER]
        obj["status"] = {"phase": "Active"}

    def finish(self, obj: Object) -> Object:
        """Labels a namespace whose name has been generated; upstream does not validate that label."""
        _name_label(obj)
        return super().finish(obj)

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        super().prepare_for_update(new, old, context)
        new["spec"] = old.get("spec") or {}
        new["status"] = old.get("status") or {}

    def validate(self, obj: Object) -> Sequence[FieldError]:
        return super().validate(obj) or _pod_security_errors(obj["metadata"].get("labels"))

    def validate_update(self, new: Object, old: Object, warnings: list[str]) -> Sequence[FieldError]:
        """Labels for Pod Security that were invalid before may stay."""
        errors = super().validate_update(new, old, warnings)
        if errors or self.is_part:
            return errors
        label_errors = _pod_security_errors(new["metadata"].get("labels"))
        return label_errors if label_errors != _pod_security_errors(old["metadata"].get("labels")) else []

    def errors(self, obj: Object) -> list[FieldError]:
        finalizers = (obj.get("spec") or {}).get("finalizers") or []
        return self.meta_errors(obj) + [e for f in finalizers for e in _finalizer_errors(f, "spec.finalizers")]

    def meta_change_errors(self, new: Object, old: Object) -> list[FieldError]:
        """Validates a namespace, but not a subresource of it, as a new one too."""
        whole = [] if self.is_part else self.meta_errors(new)
        return whole + super().meta_change_errors(new, old)

    def update_errors(self, new: Object, old: Object) -> list[FieldError]:
        return []

    def waits(self, obj: Object) -> bool:
        """The first deletion only marks a namespace, also one without finalizers."""
        return bool((obj.get("spec") or {}).get("finalizers")) or not obj["metadata"].get("deletionTimestamp")

    def prepare_for_delete(self, obj: Object, context: Context) -> None:
        """Marks the namespace itself, without a grace period unless only metadata.finalizers still hold it."""
        name = obj["metadata"]["name"]
        if name in _IMMORTAL:
            raise forbidden(Qualified("namespaces"), name, "this namespace may not be deleted")
        if obj["metadata"].get("deletionTimestamp") and not self.waits(obj):
            obj["metadata"].setdefault("deletionGracePeriodSeconds", 0)
        obj["metadata"].setdefault("deletionTimestamp", context.timestamp)
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}

    def write_effects(self, new: Object, old: Object | None) -> WriteEffects:
        if old is None:
            # Its default objects are created after it.
            return {"flags": WriteFlag.COUNTS_AS_NAMESPACE | WriteFlag.FOLLOW_UP}
        goes = bool(new["metadata"].get("deletionTimestamp"))
        went = bool(old["metadata"].get("deletionTimestamp"))
        flags = WriteFlag.COUNTS_AS_NAMESPACE
        if goes:
            flags |= WriteFlag.PENDING
        if goes and (not went or new is old):
            flags |= WriteFlag.CHANGES_NAMESPACES
        return {"flags": flags}


class NamespaceStatusStrategy(NamespaceStrategy):
    """/status: only the status can change."""

    is_part = True

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        new["spec"] = old.get("spec") or {}
        new["status"] = dict(new.get("status") or {})
        new["status"].setdefault("phase", "Active")

    def update_errors(self, new: Object, old: Object) -> list[FieldError]:
        errors = []
        phase, going = new["status"].get("phase"), bool(new["metadata"].get("deletionTimestamp"))
        if going and phase != "Terminating":
            why = "may only be 'Terminating' if `deletionTimestamp` is not empty"
            errors.append(invalid("status.Phase", phase, why))
        elif not going and phase != "Active":
            errors.append(invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty"))
        return errors


class NamespaceFinalizeStrategy(NamespaceStrategy):
    """/finalize: only spec.finalizers can change."""

    is_part = True

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        new["status"] = old.get("status") or {}
        spec = new["spec"] = dict(new.get("spec") or {})
        if not spec.get("finalizers"):
            spec.pop("finalizers", None)

    def update_errors(self, new: Object, old: Object) -> list[FieldError]:
        finalizers = (new.get("spec") or {}).get("finalizers") or []
        return [e for i, f in enumerate(finalizers) for e in _finalizer_errors(f, f"spec.finalizers[{i}]")]


def _finalizer_errors(finalizer: str, field: str) -> list[FieldError]:
    problems = label_key(finalizer)
    if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
        problems = [*problems, "name is neither a standard finalizer name nor is it fully qualified"]
    return [invalid(field, finalizer, problem) for problem in problems]


def _name_label(obj: Object) -> None:
    name = obj["metadata"].get("name")
    if name:
        obj["metadata"]["labels"] = {**(obj["metadata"].get("labels") or {}), NAME_LABEL: name}


def _pod_security_errors(labels: Mapping[str, str] | None) -> list[FieldError]:
    """Returns an error for each level or version that does not exist."""
    errors = []
    for mode in _MODES:
        level, version = (f"{_PREFIX}{mode}{ending}" for ending in ("", "-version"))
        if labels and level in labels and labels[level] not in _LEVELS:
            errors.append(invalid(f"metadata.labels[{level}]", labels[level], f"must be one of {', '.join(_LEVELS)}"))
        if labels and version in labels and not _is_version(labels[version]):
            errors.append(invalid(f"metadata.labels[{version}]", labels[version], 'must be "latest" or "v1.x"'))
    return errors


def _is_version(text: str) -> bool:
    match = _VERSION.fullmatch(text)
    return text == "latest" or (match is not None and int(match[1]) <= _MAX_MINOR)
