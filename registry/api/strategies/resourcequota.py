"""Resource quotas as objects; registry/api/admission/quota.py enforces them.

Follows kubernetes pkg/apis/core/validation/validation.go (ValidateResourceQuota) and
pkg/registry/core/resourcequota/strategy.go.
"""

from __future__ import annotations

from typing import Any

from registry.api.strategies.base import Context, Object, WriteEffects
from registry.api.strategies.builtin import TypedStrategy, keep
from registry.api.strategies.resource_names import SCOPES, counts_whole, is_standard_quota, quota_name_errors
from registry.builtin.quantities import is_whole, quantity
from registry.builtin.structs import CORE
from registry.codec.go_text import GoText, go_json
from registry.schema.field import MAX_ERRORS, FieldError, invalid, required
from registry.store.types import NO_FLAGS, WriteFlag

_EXCLUSIVE = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_ONLY_EXISTS = frozenset({"BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"})


class ResourceQuotaStrategy(TypedStrategy):
    struct = CORE["ResourceQuota"]
    has_quantities = True
    checks_finalizers = True
    returns_deleted_object = True
    has_status = True

    def part(self, subresource: str) -> TypedStrategy:
        return ResourceQuotaStatusStrategy(self.definition, self.version) if subresource == "status" else self

    def errors(self, obj: Object) -> list[FieldError]:
        spec = obj.get("spec") or {}
        return (
            self.meta_errors(obj)
            + amounts_errors(spec.get("hard") or {}, "spec.hard")
            + _scopes_errors(spec)
            + _selector_errors(spec)
        )

    def update_errors(self, new: Object, old: Object) -> list[FieldError]:
        errors = self.errors(new)[len(self.meta_errors(new)) :]
        scopes, before = ((o.get("spec") or {}).get("scopes") for o in (new, old))
        if set(scopes or ()) != set(before or ()):
            errors.append(invalid("spec.scopes", scopes, "field is immutable"))
        return errors

    def write_effects(self, new: Object, old: Object | None) -> WriteEffects:
        """Notifies other writes of a quota that starts or stops being enforced, or whose limits change.

        Usage that admission adds is not such a change, otherwise every counted write would cause all others to be
        re-evaluated.
        """
        if new is old:
            return {"flags": WriteFlag.CHANGES_NAMESPACES}
        before = ((old or {}).get("status") or {}).get("hard") or {}
        counting = (new.get("status") or {}).get("hard") or {}
        # Until a controller has put the limits into force, in the status.
        pending = counting != ((new.get("spec") or {}).get("hard") or {})
        flags = WriteFlag.CHANGES_NAMESPACES if counting != before else NO_FLAGS
        return {"flags": flags | WriteFlag.PENDING if pending else flags}


class ResourceQuotaStatusStrategy(ResourceQuotaStrategy):
    """/status: only the status can change."""

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        keep(new, old, "spec")

    def update_errors(self, new: Object, old: Object) -> list[FieldError]:
        status = new.get("status") or {}
        return [
            error for name in ("hard", "used") for error in amounts_errors(status.get(name) or {}, f"status.{name}")
        ]


def amounts_errors(amounts: dict[str, str], path: str) -> list[FieldError]:
    errors = []
    for name in sorted(amounts):
        field, amount = f"{path}[{name}]", amounts[name]
        errors += quota_name_errors(name, field)
        value = quantity(amount)
        if value.digits < 0:
            errors.append(invalid(field, amount, "must be greater than or equal to 0"))
        if counts_whole(name) and not is_whole(value):
            errors.append(invalid(field, amount, "must be an integer"))
    return errors


def _scopes_errors(spec: dict[str, Any]) -> list[FieldError]:
    scopes: list[str] = spec.get("scopes") or []
    errors: list[FieldError] = []
    counted = _standard_quotas(spec)
    for scope in scopes:
        if scope not in SCOPES:
            errors.append(invalid("spec.scopes", scopes, "unsupported scope"))
        errors += _misfit_errors(scope, counted, "spec.scopes", scopes)
        if len(errors) > MAX_ERRORS:
            return errors
    for pair in _EXCLUSIVE:
        if all(scope in scopes for scope in pair):
            errors.append(invalid("spec.scopes", scopes, "conflicting scopes"))
    return errors


def _standard_quotas(spec: dict[str, Any]) -> list[str]:
    return [name for name in spec.get("hard") or {} if is_standard_quota(name)]


def _misfit_errors(scope: str, counted: list[str], path: str, bad_value: object) -> list[FieldError]:
    """Returns an error for each of the counted resources that a scope does not apply to."""
    fits = SCOPES.get(scope)
    misfits = sum(name not in fits for name in counted) if fits is not None else 0
    return [invalid(path, bad_value, "unsupported scope applied to resource")] * misfits


def _selector_errors(spec: dict[str, Any]) -> list[FieldError]:
    selector = spec.get("scopeSelector") or {}
    path = "spec.scopeSelector.matchExpressions"
    errors: list[FieldError] = []
    counted, quoted = _standard_quotas(spec), _go_selector(selector)
    for requirement in selector.get("matchExpressions") or []:
        scope, operator = requirement.get("scopeName") or "", requirement.get("operator") or ""
        values = requirement.get("values") or []
        if scope not in SCOPES:
            errors.append(invalid(f"{path}.scopeName", scope, "unsupported scope"))
        errors += _misfit_errors(scope, counted, path, quoted)
        if scope in _ONLY_EXISTS and operator != "Exists":
            why = (
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
                "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
                "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
            )
            errors.append(invalid(f"{path}.operator", operator, why))
        errors += _values_errors(operator, values, path)
        if len(errors) > MAX_ERRORS:
            return errors
    named = {requirement.get("scopeName") for requirement in selector.get("matchExpressions") or []}
    for pair in _EXCLUSIVE:
        if named.issuperset(pair):
            errors.append(invalid(path, spec.get("scopes"), "conflicting scopes"))
    return errors


def _go_selector(selector: dict[str, Any]) -> GoText:
    """Returns the selector as Go prints its internal struct."""
    parts = [
        f'{{"ScopeName":{go_json(one.get("scopeName") or "")},"Operator":{go_json(one.get("operator") or "")},'
        f'"Values":{go_json(one.get("values"))}}}'
        for one in selector.get("matchExpressions") or ()
    ]
    return GoText(f'{{"MatchExpressions":[{",".join(parts)}]}}')


def _values_errors(operator: str, values: list[str], path: str) -> list[FieldError]:
    if operator in ("In", "NotIn"):
        why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
        return [] if values else [required(f"{path}.values", why)]
    if operator in ("Exists", "DoesNotExist"):
        why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
        return [invalid(f"{path}.values", values, why)] if values else []
    return [invalid(f"{path}.operator", operator, "not a valid selector operator")]
