"""Service accounts, and requests for tokens of them, which are not stored.

Follows kubernetes pkg/registry/core/serviceaccount/strategy.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from registry.api.strategies.base import Context, Object
from registry.api.strategies.builtin import TypedStrategy
from registry.builtin.structs import AUTHENTICATION, CORE

_ENFORCE = "kubernetes.io/enforce-mountable-secrets"
_ENFORCE_WARNING = (
    f"metadata.annotations[{_ENFORCE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted "
    "secrets"
)


class ServiceAccountStrategy(TypedStrategy):
    struct = CORE["ServiceAccount"]
    checks_finalizers = True
    controlled = True
    returns_deleted_object = True
    subresources: Sequence[str] = ("token",)
    without_table: Sequence[str] = ("token",)

    def prepare_for_create(self, obj: Object, context: Context) -> None:
        super().prepare_for_create(obj, context)
        _only_names(obj)

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        super().prepare_for_update(new, old, context)
        _only_names(new)

    def warnings(self, new: Object, old: Object | None) -> Sequence[str]:
        """Warns about a deprecated annotation when a write first sets it, whatever its value."""
        return (_ENFORCE_WARNING,) if _has_enforce(new) and not (old and _has_enforce(old)) else ()


class TokenRequestStrategy(TypedStrategy):
    struct = AUTHENTICATION["TokenRequest"]
    virtual = True


def _has_enforce(obj: Object) -> bool:
    return _ENFORCE in (obj["metadata"].get("annotations") or {})


def _only_names(obj: Object) -> None:
    """Drops everything but the name from references to secrets."""
    if obj.get("secrets"):
        obj["secrets"] = [{"name": secret["name"]} if secret.get("name") else {} for secret in obj["secrets"]]
