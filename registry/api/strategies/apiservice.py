"""APIServices as objects; registry/aggregation routes requests by them.

A write that changes routing moves the guard of the tenant's definitions, as a definition does: every process routes the
next request by what is stored then.

Follows kube-aggregator pkg/registry/apiservice/strategy.go and pkg/apis/apiregistration/{validation,v1/defaults}.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any, Final

from registry.api.clock import timestamp
from registry.api.strategies.base import Context, Object, WriteEffects
from registry.api.strategies.builtin import TypedStrategy, keep
from registry.apply.values import equal
from registry.builtin.structs import API_REGISTRATION
from registry.codec.go_text import go_quote
from registry.definitions.conditions import with_condition
from registry.schema.field import FieldError, invalid, not_supported, required
from registry.schema.names import NameFunction, dns1035_label, dns1123_subdomain, name_is_path_segment
from registry.schema.objectmeta.rules import validate_object_meta
from registry.store.types import WriteFlag

AVAILABLE: Final = "Available"
# The marker by which the store selects APIServices with a service; clients cannot select by it.
REMOTE: Final = "spec.service"
_DEFAULT_PORT: Final = 443
_MAX_GROUP_PRIORITY, _MAX_VERSION_PRIORITY = 20_000, 1000
# Metadata of the stored object that a write of /status keeps.
_METADATA_OF_SPEC: Final = ("labels", "annotations", "finalizers", "ownerReferences")


class APIServiceStrategy(TypedStrategy):
    struct = API_REGISTRATION["APIService"]
    allow_unconditional_update = False
    has_status = True
    controlled = True
    without_table = ("status",)
    scheme = "k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go:28"
    has_own_scheme = True
    known_versions = ("apiregistration.k8s.io/v1beta1",)

    def part(self, subresource: str) -> TypedStrategy:
        return _APIServiceStatusStrategy(self.definition, self.version) if subresource == "status" else self

    def selectable(self, obj: Object) -> Iterable[tuple[str, str]]:
        return ((REMOTE, "true"),) if is_remote(obj) else ()

    def default(self, obj: Object) -> None:
        service = (obj.get("spec") or {}).get("service")
        if service is not None and service.get("port") is None:
            service["port"] = _DEFAULT_PORT

    def prepare_for_create(self, obj: Object, context: Context) -> None:
        super().prepare_for_create(obj, context)
        if not is_remote(obj):
            obj["status"] = local_status({})

    def errors(self, obj: Object) -> list[FieldError]:
        spec = obj.get("spec") or {}
        named = _is_named(f"{spec.get('version') or ''}.{spec.get('group') or ''}")
        return validate_object_meta(obj["metadata"], namespaced=False, name_function=named) + _spec_errors(spec)

    def write_effects(self, new: Object, old: Object | None) -> WriteEffects:
        """Ignores local APIServices, which route nothing, and availability, which each process finds out itself."""
        if not is_remote(new) and not (old is not None and is_remote(old)):
            return {}
        changed = old is None or new is old or not equal(new.get("spec"), old.get("spec"))
        return {"flags": WriteFlag.CHANGES_DEFINITIONS} if changed else {}


class _APIServiceStatusStrategy(APIServiceStrategy):
    """/status: only the status can change."""

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        keep(new, old, "spec")
        for name in _METADATA_OF_SPEC:
            keep(new["metadata"], old["metadata"], name)

    def update_errors(self, new: Object, old: Object) -> list[FieldError]:
        return [
            not_supported(f"status.conditions[{i}].status", condition.get("status") or "", ["True", "False", "Unknown"])
            for i, condition in enumerate((new.get("status") or {}).get("conditions") or ())
            if condition.get("status") not in ("True", "False", "Unknown")
        ]


def _is_named(required_name: str) -> NameFunction:
    """Returns a name function that accepts only this name, also as the prefix of a generated one."""

    def check(name: str, prefix: bool) -> list[str]:
        if (failures := name_is_path_segment(name, prefix)) or name == required_name:
            return failures
        return [f'must be `spec.version+"."+spec.group`: {go_quote(required_name)}']

    return check


def is_remote(obj: Object) -> bool:
    """Whether another server serves the group's version."""
    return (obj.get("spec") or {}).get("service") is not None


def local_status(status: Object) -> dict[str, Any]:
    """Returns the status of an APIService that this server serves."""
    now = timestamp()
    return with_condition(status, AVAILABLE, "True", "Local", "Local APIServices are always available", now)


def _spec_errors(spec: dict[str, Any]) -> list[FieldError]:
    group, version = spec.get("group") or "", spec.get("version") or ""
    errors = []
    if not group and version != "v1":
        errors.append(required("spec.group", "only v1 may have an empty group and it better be legacy kube"))
    if group:
        errors += [invalid("spec.group", group, problem) for problem in dns1123_subdomain(group)]
    errors += [invalid("spec.version", version, problem) for problem in dns1035_label(version)]
    for name, most in (("groupPriorityMinimum", _MAX_GROUP_PRIORITY), ("versionPriority", _MAX_VERSION_PRIORITY)):
        priority = spec.get(name) or 0
        if not 0 < priority <= most:
            errors.append(invalid(f"spec.{name}", priority, f"must be positive and less than {most}"))
    return errors + (_local_errors(spec) if spec.get("service") is None else _service_errors(spec))


def _local_errors(spec: dict[str, Any]) -> list[FieldError]:
    errors = []
    size = len(base64.b64decode(spec.get("caBundle") or ""))
    if size:
        errors.append(invalid("spec.caBundle", f"{size} bytes", "local APIServices may not have a caBundle"))
    if spec.get("insecureSkipTLSVerify"):
        errors.append(
            invalid("spec.insecureSkipTLSVerify", True, "local APIServices may not have insecureSkipTLSVerify")
        )
    return errors


def _service_errors(spec: dict[str, Any]) -> list[FieldError]:
    service = spec["service"]
    errors = [required(f"spec.service.{name}") for name in ("namespace", "name") if not service.get(name)]
    port = service.get("port") or 0
    if not 1 <= port <= 65535:
        why = "port is not valid: must be between 1 and 65535, inclusive"
        errors.append(invalid("spec.service.port", port, why))
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        errors.append(invalid("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present"))
    return errors
