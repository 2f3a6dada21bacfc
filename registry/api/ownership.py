"""Field ownership after a write: the managedFields of objects, by the FieldManager of their definition."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from registry.api.errors import apply_conflict, bad_request, plain_internal
from registry.api.request import ResourceRequest
from registry.api.served import Object, Served
from registry.apply.errors import ApplyError, Conflicts, InvalidApply
from registry.apply.managed import invalid_reason
from registry.apply.managed_fields import FieldManager
from registry.apply.scale import Applier, apply_scale, own_scale_update, scale_entries
from registry.schema.compiled import CompiledSchema
from registry.schema.model import Json, Structural


def field_manager_of(served: Served) -> FieldManager:
    """Returns the FieldManager of a definition; constructed once, and kept with it.

    If a webhook converts, each request has its own, with its own conversions.
    """
    holder = served.definition.__dict__ if served.conversions is None else served.conversions.__dict__
    manager: FieldManager | None = holder.get("_field_manager")
    if manager is None:
        manager = holder["_field_manager"] = _field_manager(served)
    return manager


def _field_manager(served: Served) -> FieldManager:
    definition = served.definition
    prefix = f"{definition.group}/" if definition.group else ""
    schemas = {f"{prefix}{name}": _structural(version.schema) for name, version in definition.versions.items()}
    with_status = [f"{prefix}{name}" for name, version in definition.versions.items() if version.status]
    conversions = served.conversions
    convert = conversions.convert_for_owners if conversions is not None else served.strategy.convert_for_owners
    return FieldManager(
        definition.names.kind,
        schemas,
        convert=convert,
        status_versions=with_status,
        builtin=definition.builtin,
        zeros=served.strategy.zeros,
        checked_items=served.strategy.checked_items,
    )


def own_create(served: Served, obj: Object, manager: str, timestamp: str) -> Object:
    return field_manager_of(served).update(None, obj, manager, served.api_version, timestamp)


def own_update(request: ResourceRequest, old: Object, new: Object, manager: str) -> Object:
    served = request.served
    return field_manager_of(served).update(
        old, new, manager, served.api_version, request.context.timestamp, _owning_subresource(request)
    )


def own_apply(request: ResourceRequest, old: Object | None, applied: Object, manager: str, *, force: bool) -> Object:
    """Returns the object after the apply. Raises conflicts and errors of the applied object as Statuses."""
    served = request.served
    with _statuses():
        return field_manager_of(served).apply(
            old,
            applied,
            manager,
            served.api_version,
            request.context.timestamp,
            force=force,
            subresource=_owning_subresource(request),
        )


def keep_valid_ownership(request: ResourceRequest, before: Object, mutated: Object) -> Object:
    """Returns the object after mutating admission, with its former managedFields if they are invalid now.

    Follows apiserver pkg/endpoints/handlers/fieldmanager/admission.go.
    """
    metadata = mutated.get("metadata") or {}
    reason = invalid_reason(metadata.get("managedFields"))
    if reason is None:
        return mutated
    request.context.warnings.append(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating "
        f"admission controller; please fix your requests: {reason}"
    )
    metadata = {**metadata, "managedFields": before["metadata"].get("managedFields") or []}
    return {**mutated, "metadata": metadata}


def own_scale(request: ResourceRequest, old: Object, new: Object, manager: str) -> Object:
    """Transfers the ownership of replicas to `manager`, after an update or patch of the Scale."""
    return own_scale_update(old, new, _replicas_paths(request), manager, request.served.api_version)


def owners_of_scale(request: ResourceRequest, old: Object) -> list[Json]:
    """The managedFields of an object's Scale."""
    return scale_entries(old, _replicas_paths(request))


def _replicas_paths(request: ResourceRequest) -> dict[str, str]:
    definition = request.served.definition
    return {
        f"{definition.group}/{name}": version.scale.spec_replicas_path
        for name, version in definition.versions.items()
        if version.scale is not None
    }


def own_apply_scale(
    request: ResourceRequest, old: Object, applied: Object, replicas_path: str, manager: str, *, force: bool
) -> Object:
    served = request.served
    with _statuses():
        return apply_scale(
            field_manager_of(served),
            old,
            applied,
            replicas_path,
            Applier(manager, served.api_version, request.context.timestamp),
            force=force,
        )


@contextlib.contextmanager
def _statuses() -> Iterator[None]:
    try:
        yield
    except Conflicts as error:
        raise apply_conflict(str(error), ((each.message, each.field) for each in error.conflicts)) from error
    except InvalidApply as error:
        raise bad_request(str(error)) from error
    except ApplyError as error:
        raise plain_internal(str(error)) from error


def _owning_subresource(request: ResourceRequest) -> str:
    """managedFields distinguish status and finalize; writes through scale count as the object's own."""
    return "" if request.subresource == "scale" else request.subresource


def _structural(schema: Callable[[], CompiledSchema]) -> Callable[[], Structural]:
    return lambda: schema().ownership_schema
