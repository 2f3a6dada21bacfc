"""Ownership of the one field that is written through the scale subresource.

An update takes the field from its owners and gives it an entry of the subresource without a time; if the field had no
owner, or the replicas are 0, none is tracked. An apply is one of the object with that field alone; conflicts name it,
and the version of its owner, as in the Scale.
kube-apiserver responds 500 to an apply of a Scale that would change a custom resource (it cannot convert the Scale);
here it works as for built-in kinds.

Follows apimachinery pkg/util/managedfields/scalehandler.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from registry.apply.errors import Conflict, Conflicts, TypedError
from registry.apply.fieldsets import difference, has, single
from registry.apply.managed import Managed, Manager, Owner, encode, read_stored, updater
from registry.apply.managed_fields import FieldManager
from registry.apply.objects import Object, check_applied, display_name, entries_of, with_managed
from registry.apply.types import SCALE
from registry.apply.validate import errors_text, validate
from registry.apply.values import equal
from registry.schema.model import Json

API_VERSION = "autoscaling/v1"
KIND = "Scale"
# Of an update, in the text of a conflict; names end with a quotation mark.
_VERSION: Final = re.compile(r' using [^ "]+\Z')
_REPLICAS: Final = single(("f:spec", "f:replicas"))


def own_scale_update(
    live: Object, new: Object, replicas_paths: Mapping[str, str], manager: str, api_version: str
) -> Object:
    """`new` with its managedFields after an update or patch of the Scale by `manager`.

    `replicas_paths` is the path of the replicas in each version with a scale: `{"g/v1": ".spec.replicas"}`.
    """
    managed = read_stored(entries_of(live))
    elements = _elements(replicas_paths)
    holders = _holders(managed, elements)
    parts = _parts(replicas_paths[api_version])
    if holders and not equal(_value(live, parts), _value(new, parts)):
        for holder in holders:
            owner = managed.pop(holder)
            fields = difference(owner.fields, single(elements[owner.api_version]))
            if fields:
                managed[holder] = owner.owning(fields)
        if _value(new, parts):  # a Scale omits 0, so no manager owns it
            managed[updater(manager, api_version, "scale")] = Owner(api_version, single(elements[api_version]), None)
    return with_managed(new, managed)


def scale_entries(live: Object, replicas_paths: Mapping[str, str]) -> list[Json]:
    """The managedFields that a patch of the Scale sees: each owner of the replicas, as their owner in the Scale."""
    managed = read_stored(entries_of(live))
    holders = _holders(managed, _elements(replicas_paths))
    return encode({holder: Owner(API_VERSION, _REPLICAS, managed[holder].time) for holder in holders})


def _elements(replicas_paths: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    return {version: tuple(f"f:{part}" for part in _parts(path)) for version, path in replicas_paths.items()}


def _holders(managed: Managed, elements: Mapping[str, tuple[str, ...]]) -> list[Manager]:
    return [holder for holder, owner in managed.items() if has(owner.fields, elements.get(owner.api_version, ("",)))]


class Applier(NamedTuple):
    """Who applies, at which version, and when."""

    manager: str
    api_version: str
    now: str


def apply_scale(
    fields: FieldManager, live: Object, applied: Object, replicas_path: str, applier: Applier, *, force: bool
) -> Object:
    """The object after `applier` applies the Scale `applied`; `live` itself if nothing changes.

    `replicas_path` is the definition's path, for example `.spec.replicas`. Raises as FieldManager.apply does.
    """
    check_applied(applied, API_VERSION, KIND)
    mismatches = validate(applied, SCALE)
    if mismatches:
        raise TypedError(f"failed to create typed patch object ({display_name(applied)}): {errors_text(mismatches)}")
    spec = applied.get("spec") or {}
    parts = _parts(replicas_path)
    metadata = {"name": live["metadata"].get("name")}
    configuration: Object = {"apiVersion": applier.api_version, "kind": fields.kind, "metadata": metadata}
    if spec.get("replicas") is not None:
        inner = configuration
        for part in parts[:-1]:
            inner = inner.setdefault(part, {})
        inner[parts[-1]] = spec["replicas"]
    try:
        return fields.apply(live, configuration, *applier, force=force, subresource="scale")
    except Conflicts as error:
        raise Conflicts(
            [
                Conflict(_VERSION.sub(f" using {API_VERSION}", conflict.manager), conflict.path, ".spec.replicas")
                for conflict in error.conflicts
            ]
        ) from error


def _parts(path: str) -> list[str]:
    return [part for part in path.split(".") if part]


def _value(value: Json, parts: list[str]) -> Json:
    for part in parts:
        value = value.get(part) if isinstance(value, dict) else None
    return value
