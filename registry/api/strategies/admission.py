"""Policies, their bindings and webhook configurations as objects; registry/api/admission/admitter.py enforces them.

A write of one moves the guard of the tenant's definitions: every process evaluates the next write with the new state.

Follows kubernetes pkg/registry/admissionregistration/*/strategy.go and pkg/apis/admissionregistration/v1/defaults.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from registry.admission.configuration import TENANT_BYTES, memory_size
from registry.admission.validation_policies import (
    mutating_binding_errors,
    mutating_policy_errors,
    validating_binding_errors,
    validating_policy_errors,
)
from registry.admission.validation_webhooks import webhook_configuration_errors
from registry.api.strategies.base import Context, Object, WriteEffects
from registry.api.strategies.builtin import TypedStrategy
from registry.api.strategies.conditions import conditions_errors
from registry.apply.values import equal
from registry.builtin.structs import ADMISSION_REGISTRATION
from registry.emulation import emulated
from registry.schema.field import FieldError, invalid, required
from registry.store.types import NO_FLAGS, WriteFlag

_WHAT: Final = "admission policies and webhooks"
_HEAD = frozenset({"apiVersion", "kind", "metadata", "status"})


# Reserved for configurations that a server of Kubernetes reads from files (ManifestBasedAdmissionControlConfig).
_STATIC: Final = ".static.k8s.io"
_RESERVED: Final = (
    f'names ending with "{_STATIC}" are reserved for static manifest-based configurations and cannot be managed via '
    "the API"
)


class AdmissionStrategy(TypedStrategy):
    """What all of them share: a generation, optimistic concurrency, and a reserved suffix of names."""

    allow_unconditional_update = False
    propagates = True

    def validate(self, obj: Object) -> Sequence[FieldError]:
        errors = list(super().validate(obj))
        name = obj["metadata"].get("name") or ""
        if emulated().is_1_37 and name.endswith(_STATIC):
            errors.append(invalid("metadata.name", name, _RESERVED))
        return self._with_declared_last(errors)

    def meta_change_errors(self, new: Object, old: Object) -> list[FieldError]:
        """Validates the metadata as that of a new object: what must not change is left to the common rules."""
        return self.meta_errors(new)

    def warnings(self, new: Object, old: Object | None) -> Sequence[str]:
        return [f"metadata.name: {_RESERVED}"] if new["metadata"]["name"].endswith(_STATIC) else []

    def prepare_for_create(self, obj: Object, context: Context) -> None:
        super().prepare_for_create(obj, context)
        self.check_memory(_WHAT, TENANT_BYTES, memory_size(obj), 0, obj, context)
        obj["metadata"]["generation"] = 1

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        super().prepare_for_update(new, old, context)
        self.check_memory(_WHAT, TENANT_BYTES, memory_size(new), memory_size(old), new, context)
        generation = old["metadata"].get("generation", 0)
        mine = {k: v for k, v in self.finish(new).items() if k not in _HEAD}
        theirs = {k: v for k, v in old.items() if k not in _HEAD}
        new["metadata"]["generation"] = generation if equal(mine, theirs) else generation + 1

    def write_effects(self, new: Object, old: Object | None) -> WriteEffects:
        """Only changes of the generation count: labels and the like do not affect enforcement."""
        changed = old is None or new is old or (new["metadata"].get("generation") != old["metadata"].get("generation"))
        return {"flags": WriteFlag.CHANGES_DEFINITIONS} if changed else {}


def default_match(match: dict[str, Any] | None) -> None:
    if match is None:
        return
    match.setdefault("matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    for name in ("resourceRules", "excludeResourceRules"):
        for rule in match.get(name) or ():
            rule.setdefault("scope", "*")


class PolicyStrategy(AdmissionStrategy):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("failurePolicy", "Fail")
        default_match(spec.get("matchConstraints"))


class PolicyBindingStrategy(AdmissionStrategy):
    def default(self, obj: Object) -> None:
        default_match((obj.get("spec") or {}).get("matchResources"))


class WebhooksStrategy(AdmissionStrategy):
    mutating: ClassVar[bool] = False

    def default(self, obj: Object) -> None:
        for webhook in obj.get("webhooks") or ():
            webhook.setdefault("failurePolicy", "Fail")
            webhook.setdefault("matchPolicy", "Equivalent")
            webhook.setdefault("namespaceSelector", {})
            webhook.setdefault("objectSelector", {})
            webhook.setdefault("timeoutSeconds", 10)
            if self.mutating:
                webhook.setdefault("reinvocationPolicy", "Never")
            for rule in webhook.get("rules") or ():
                rule.setdefault("scope", "*")
            service = (webhook.get("clientConfig") or {}).get("service")
            if service is not None:
                service.setdefault("port", 443)

    def errors(self, obj: Object) -> list[FieldError]:
        return self.meta_errors(obj) + webhook_configuration_errors(obj)

    def update_errors(self, new: Object, old: Object) -> list[FieldError]:
        return webhook_configuration_errors(new, old)


class ValidatingPolicyStrategy(PolicyStrategy):
    struct = ADMISSION_REGISTRATION["ValidatingAdmissionPolicy"]
    has_status = True
    controlled = True

    def part(self, subresource: str) -> TypedStrategy:
        return PolicyStatusStrategy(self.definition, self.version) if subresource == "status" else self

    def errors(self, obj: Object) -> list[FieldError]:
        return self.meta_errors(obj) + validating_policy_errors(obj)

    def update_errors(self, new: Object, old: Object) -> list[FieldError]:
        return validating_policy_errors(new, old)

    def write_effects(self, new: Object, old: Object | None) -> WriteEffects:
        """Marks the policy pending until its types have been checked (registry/controllers/policy_status.py)."""
        effects = super().write_effects(new, old)
        checked = (new.get("status") or {}).get("observedGeneration") == new["metadata"].get("generation")
        if new is not old and not checked:
            effects["flags"] = effects.get("flags", NO_FLAGS) | WriteFlag.PENDING
        return effects


_NOT_RESET: Final = ("uid", "creationTimestamp", "deletionGracePeriodSeconds", "managedFields")


class PolicyStatusStrategy(ValidatingPolicyStrategy):
    """/status: only the status can change."""

    def warnings(self, new: Object, old: Object | None) -> Sequence[str]:
        return ()

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        """Resets the metadata but for what cannot change, which is validated (ResetObjectMetaForStatus)."""
        status, given = new.get("status"), new["metadata"]
        metadata = {**old["metadata"], **{name: given[name] for name in _NOT_RESET if name in given}}
        new.clear()
        new.update({**old, "metadata": metadata, "status": status or {}})

    def update_errors(self, new: Object, old: Object) -> list[FieldError]:
        status = new.get("status") or {}
        errors = []
        for i, warning in enumerate((status.get("typeChecking") or {}).get("expressionWarnings") or ()):
            path = f"status.typeChecking.expressionWarnings[{i}]"
            if not warning.get("warning"):
                errors.append(required(f"{path}.warning"))
            if not (warning.get("fieldRef") or "").strip():
                errors.append(required(f"{path}.fieldRef"))
        return errors + conditions_errors(status.get("conditions") or (), "status.conditions")


class ValidatingBindingStrategy(PolicyBindingStrategy):
    struct = ADMISSION_REGISTRATION["ValidatingAdmissionPolicyBinding"]
    declared_required = (r"spec\.policyName", r"spec\.validationActions")

    def errors(self, obj: Object) -> list[FieldError]:
        return self.meta_errors(obj) + validating_binding_errors(obj)

    def update_errors(self, new: Object, old: Object) -> list[FieldError]:
        return validating_binding_errors(new)


class MutatingPolicyStrategy(PolicyStrategy):
    struct = ADMISSION_REGISTRATION["MutatingAdmissionPolicy"]

    def errors(self, obj: Object) -> list[FieldError]:
        return self.meta_errors(obj) + mutating_policy_errors(obj)

    def update_errors(self, new: Object, old: Object) -> list[FieldError]:
        return mutating_policy_errors(new, old)


class MutatingBindingStrategy(PolicyBindingStrategy):
    struct = ADMISSION_REGISTRATION["MutatingAdmissionPolicyBinding"]

    def errors(self, obj: Object) -> list[FieldError]:
        return self.meta_errors(obj) + mutating_binding_errors(obj)

    def update_errors(self, new: Object, old: Object) -> list[FieldError]:
        return mutating_binding_errors(new)


class ValidatingWebhooksStrategy(WebhooksStrategy):
    struct = ADMISSION_REGISTRATION["ValidatingWebhookConfiguration"]


class MutatingWebhooksStrategy(WebhooksStrategy):
    struct = ADMISSION_REGISTRATION["MutatingWebhookConfiguration"]
    mutating = True


def strategies() -> Sequence[tuple[str, type[AdmissionStrategy]]]:
    """Returns strategies by the names in registry/builtin/admissionregistration.yaml."""
    return (
        ("mutatingadmissionpolicy", MutatingPolicyStrategy),
        ("mutatingadmissionpolicybinding", MutatingBindingStrategy),
        ("mutatingwebhookconfiguration", MutatingWebhooksStrategy),
        ("validatingadmissionpolicy", ValidatingPolicyStrategy),
        ("validatingadmissionpolicybinding", ValidatingBindingStrategy),
        ("validatingwebhookconfiguration", ValidatingWebhooksStrategy),
    )
