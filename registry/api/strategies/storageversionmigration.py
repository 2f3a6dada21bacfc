"""StorageVersionMigrations as objects; registry/controllers/storage_migration/controller.py carries them out.

Follows kubernetes pkg/registry/storagemigration/storagemigration/strategy.go and
pkg/apis/storagemigration/validation.
"""

from __future__ import annotations

import re

from registry.api.strategies.base import Context, Object, WriteEffects
from registry.api.strategies.builtin import TypedStrategy, keep
from registry.api.strategies.conditions import conditions_errors
from registry.apply.values import equal
from registry.builtin.structs import STORAGE_MIGRATION
from registry.codec.go_text import GoText, go_json
from registry.codec.structs.meta import META
from registry.definitions.conditions import is_true
from registry.schema.field import FieldError, invalid, required
from registry.schema.names import dns1035_label, dns1123_subdomain
from registry.store.types import WriteFlag

RUNNING, SUCCEEDED, FAILED = "Running", "Succeeded", "Failed"


class StorageVersionMigrationStrategy(TypedStrategy):
    struct = STORAGE_MIGRATION["StorageVersionMigration"]
    allow_unconditional_update = False
    has_status = True
    controlled = True

    def part(self, subresource: str) -> TypedStrategy:
        return _MigrationStatusStrategy(self.definition, self.version) if subresource == "status" else self

    def errors(self, obj: Object) -> list[FieldError]:
        return self.meta_errors(obj) + _resource_errors((obj.get("spec") or {}).get("resource") or {})

    def update_errors(self, new: Object, old: Object) -> list[FieldError]:
        errors = self.errors(new)
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        if not equal(_resource(spec), _resource(before)):
            value = GoText(f'{{"Resource":{go_json(_resource(spec))}}}')
            errors.append(invalid("spec", value, "field is immutable"))
        return errors

    def write_effects(self, new: Object, old: Object | None) -> WriteEffects:
        """Marks the migration pending until it has ended, so that it is resumed after a crash."""
        return {} if is_finished(new) else {"flags": WriteFlag.PENDING}


class _MigrationStatusStrategy(StorageVersionMigrationStrategy):
    """/status: only the status can change."""

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        keep(new, old, "spec")

    def update_errors(self, new: Object, old: Object) -> list[FieldError]:
        return _status_errors(new, old)


def is_finished(migration: Object) -> bool:
    return is_true(migration, SUCCEEDED) or is_true(migration, FAILED)


def _resource(spec: Object) -> dict[str, str]:
    resource = spec.get("resource") or {}
    return {"group": resource.get("group") or "", "resource": resource.get("resource") or ""}


def _resource_errors(resource: dict[str, str]) -> list[FieldError]:
    errors = []
    name, group = resource.get("resource") or "", resource.get("group") or ""
    if not name:
        errors.append(required("spec.resource.resource", "resource is required to be set"))
    elif dns1035_label(name):
        errors.append(invalid("spec.resource.resource", name, ",".join(dns1035_label(name))))
    if group and dns1123_subdomain(group):
        errors.append(invalid("spec.resource.group", group, ",".join(dns1123_subdomain(group))))
    return errors


# -- the status

_is_revision = re.compile("[1-9][0-9]*|0").fullmatch


def _status_errors(new: Object, old: Object) -> list[FieldError]:
    status, before = new.get("status") or {}, old.get("status") or {}
    revision, revision_before = status.get("resourceVersion") or "", before.get("resourceVersion") or ""
    errors = []
    if revision and not _is_revision(revision):
        errors.append(
            invalid("status.resourceVersion", revision, f"resource version is not well formed: {go_json(revision)}")
        )
    conditions = status.get("conditions") or []
    errors += conditions_errors(conditions, "status.conditions")
    if revision_before and revision != revision_before:
        errors.append(invalid("status.resourceVersion", revision, "field is immutable"))
    for wrong, why in (
        (
            is_true(new, SUCCEEDED) and is_true(new, FAILED),
            "Both success and failed conditions cannot be true at the same time",
        ),
        (
            is_true(old, SUCCEEDED) and not is_true(new, SUCCEEDED),
            "Success condition cannot be set to false once it is true",
        ),
        (is_true(old, FAILED) and not is_true(new, FAILED), "Failed condition cannot be set to false once it is true"),
    ):
        if wrong:
            value = GoText(go_json([META["Condition"].encode(condition) for condition in conditions]))
            errors.append(invalid("status.conditions", value, why))
    return errors
