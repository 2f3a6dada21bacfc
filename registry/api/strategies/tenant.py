"""Tenants as objects: their names, their protection, and the effect of each write on their rows.

A write of a tenant changes its row in the same commit (Write.tenancy, registry/store/sql/tenancy.sql), so a tenant is
there, suspended, limited or gone for every process when its write is answered. Rules that involve other tenants (the
tree of parents, names of schemas) are checked there too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from registry.api.errors import Qualified, already_exists, forbidden
from registry.api.options import DeleteOptions
from registry.api.strategies.base import Context, Object, WriteEffects
from registry.api.strategies.custom import CustomStrategy, StatusStrategy
from registry.builtin.tenancy import GROUP, PLURAL, SYSTEM
from registry.codec.json_encode import encode_json_text
from registry.definitions.conditions import with_condition
from registry.schema.field import FieldError, invalid
from registry.schema.field import forbidden as forbidden_field
from registry.store.types import NO_FLAGS, WriteFlag

# A tenant is removed when a controller has removed everything in it.
FINALIZER: Final = "tenancy.registry/content"
DEFAULT: Final = "default"
ALWAYS_THERE: Final = (SYSTEM, DEFAULT)

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
# Words that have, or may get, another meaning where a tenant is named.
RESERVED: Final = frozenset({"all", "any", "api", "apis", "clusters", "none", "registry", "root", "self"})
RESERVED_PREFIXES: Final = ("registry-", "system-", "xn--")
LIMITS: Final = ("objects", "bytes", "definitions", "namespaces")
# A hundred years, which both PostgreSQL's dates and Python's can represent.
LONGEST_KEPT_SECONDS: Final = 100 * 365 * 86_400
RATES: Final = ("requestsPerSecond", "concurrentRequests", "watches")

_RESOURCE: Final = Qualified(PLURAL, GROUP)


def is_tenant_name(name: str) -> bool:
    """Whether this can be the name of a tenant: a DNS label."""
    return _LABEL.fullmatch(name) is not None


class TenantStrategy(CustomStrategy):
    controlled = True
    has_grace_period = True

    def part(self, subresource: str) -> CustomStrategy:
        return TenantStatusStrategy(self.definition, self.version) if subresource == "status" else self

    def prepare_for_create(self, obj: Object, context: Context) -> None:
        super().prepare_for_create(obj, context)
        metadata = obj["metadata"]
        finalizers = metadata.get("finalizers") or []
        if FINALIZER not in finalizers:
            metadata["finalizers"] = [*finalizers, FINALIZER]
        obj["status"] = _status(obj, None, context)

    def validate(self, obj: Object) -> Sequence[FieldError]:
        return [*super().validate(obj), *_name_errors(obj), *_errors(obj)]

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        super().prepare_for_update(new, old, context)
        status = _status(new, old, context)
        if status != old.get("status"):
            new["status"] = status

    def validate_update(self, new: Object, old: Object, warnings: list[str]) -> Sequence[FieldError]:
        return [*super().validate_update(new, old, warnings), *_errors(new)]

    def prepare_for_delete(self, obj: Object, context: Context) -> None:
        metadata = obj["metadata"]
        name = metadata["name"]
        if metadata.get("deletionTimestamp"):
            return
        if name in ALWAYS_THERE:
            raise forbidden(_RESOURCE, name, "this tenant is always there, and cannot be deleted")
        if (obj.get("spec") or {}).get("protected"):
            why = (
                "the tenant is protected: its deletion would remove all that it holds. If "
                f"that is meant, set spec.protected to false (kubectl patch tenant {name} --type=merge -p "
                '\'{"spec":{"protected":false}}\'), and delete it again'
            )
            raise forbidden(_RESOURCE, name, why)
        finalizers = metadata.get("finalizers") or []
        if FINALIZER not in finalizers:
            metadata["finalizers"] = [*finalizers, FINALIZER]
        obj["status"] = _status({**obj, "metadata": {**metadata, "deletionTimestamp": context.timestamp}}, obj, context)

    def grace_seconds(self, options: DeleteOptions) -> int:
        """Returns for how many seconds the client wants the tenant kept."""
        return max(0, min(options.grace_period_seconds or 0, LONGEST_KEPT_SECONDS))

    def prepare_for_undelete(self, obj: Object, context: Context) -> None:
        metadata = obj["metadata"]
        if not metadata.get("deletionTimestamp"):
            raise already_exists(_RESOURCE, metadata["name"])
        del metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"]
        obj["status"] = _status(obj, obj, context)

    def write_effects(self, new: Object, old: Object | None) -> WriteEffects:
        if new is old:
            return {}
        ending = bool(new["metadata"].get("deletionTimestamp"))
        returns = not ending and old is not None and bool(old["metadata"].get("deletionTimestamp"))
        flags = WriteFlag.PENDING if ending else NO_FLAGS
        return {"flags": flags, "tenancy": _row(new, ending=ending, returns=returns)}


class TenantStatusStrategy(StatusStrategy):
    """/status, as controllers report it; the row of the tenant does not change."""

    controlled = True

    def write_effects(self, new: Object, old: Object | None) -> WriteEffects:
        ending = new is not old and new["metadata"].get("deletionTimestamp")
        return {"flags": WriteFlag.PENDING} if ending else {}


def _name_errors(obj: Object) -> list[FieldError]:
    name = obj["metadata"].get("name") or ""
    if not name:
        return []  # reported as missing elsewhere
    if not is_tenant_name(name):
        why = (
            "a tenant's name must be a DNS label: at most 63 lower case letters, "
            "digits and '-', beginning and ending with a letter or digit"
        )
        return [invalid("metadata.name", name, why)]
    if name in RESERVED or name.startswith(RESERVED_PREFIXES):
        return [forbidden_field("metadata.name", f"{name} is a reserved name")]
    return []


def _errors(obj: Object) -> list[FieldError]:
    spec = _spec(obj)
    name = obj["metadata"].get("name")
    if name not in ALWAYS_THERE:
        return []
    errors = []
    if spec.get("suspended"):
        errors.append(forbidden_field("spec.suspended", "this tenant cannot be suspended"))
    if spec.get("parent"):
        errors.append(forbidden_field("spec.parent", "this tenant stands alone"))
    if name == SYSTEM and spec.get("quotas"):
        errors.append(forbidden_field("spec.quotas", "this tenant has no limits"))
    return errors


def _spec(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    spec = obj.get("spec")
    return spec if isinstance(spec, Mapping) else {}


def _row(obj: Object, *, ending: bool, returns: bool) -> str:
    """Returns the new state of the tenant's row, as registry_follow takes it."""
    spec, name = _spec(obj), obj["metadata"]["name"]
    if ending:
        seconds = obj["metadata"].get("deletionGracePeriodSeconds") or 0
        return encode_json_text({"name": name, "life": "ending", "keptSeconds": seconds})
    quotas = spec.get("quotas") or {}
    attributes: dict[str, Any] = {}
    for key in ("parent", "suspended", "sqlSchema", "deletionProtection"):
        if spec.get(key):
            attributes[key] = spec[key]
    rates = {key: quotas[key] for key in RATES if key in quotas}
    if rates:
        attributes["rates"] = rates
    return encode_json_text(
        {
            "name": name,
            "life": "living",
            "undelete": returns,
            "parent": spec.get("parent"),
            "domain": spec.get("domain"),
            "suspended": bool(spec.get("suspended")),
            "sqlSchema": spec.get("sqlSchema"),
            "limits": {key: quotas[key] for key in LIMITS if key in quotas},
            "attributes": attributes,
        }
    )


def _status(obj: Object, old: Object | None, context: Context) -> Object:
    """Returns the status after a write: true with the commit, which also changes the row."""
    if obj["metadata"].get("deletionTimestamp"):
        phase, value = "Terminating", "False"
        message = "all that the tenant holds is removed from metadata.deletionTimestamp on"
    elif _spec(obj).get("suspended"):
        phase, value, message = "Suspended", "True", "the tenant can be read but not written to"
    else:
        phase, value, message = "Active", "True", ""
    status = {**((old or {}).get("status") or {}), "phase": phase}
    return with_condition(status, "Ready", value, phase, message, context.timestamp)
