"""Leases, used for leader election. Follows kubernetes pkg/registry/coordination/lease/strategy.go."""

from __future__ import annotations

from registry.api.strategies.base import Context, Object
from registry.api.strategies.builtin import TypedStrategy
from registry.builtin.structs import COORDINATION
from registry.schema.field import FieldError, invalid

# Fields of coordinated leader election, a feature that is off.
_GATED = ("strategy", "preferredHolder")


class LeaseStrategy(TypedStrategy):
    struct = COORDINATION["Lease"]
    allow_unconditional_update = False
    allow_create_on_update = True

    def prepare_for_create(self, obj: Object, context: Context) -> None:
        super().prepare_for_create(obj, context)
        _drop_gated(obj)

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        super().prepare_for_update(new, old, context)
        _drop_gated(new)

    def errors(self, obj: Object) -> list[FieldError]:
        return self.meta_errors(obj) + self.update_errors(obj, obj)

    def update_errors(self, new: Object, old: Object) -> list[FieldError]:
        errors: list[FieldError] = []
        spec = new.get("spec") or {}
        seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if seconds is not None and seconds <= 0:
            errors.append(invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
        if transitions is not None and transitions < 0:
            errors.append(invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
        return errors


def _drop_gated(obj: Object) -> None:
    spec = obj.get("spec")
    if spec and any(name in spec for name in _GATED):
        obj["spec"] = {name: value for name, value in spec.items() if name not in _GATED}
