"""The automatic APIServices of group versions served here, and reconciliation of the stored ones.

    desired              stored without the label   label "onstart"          label "true"
    not                  stays                      deleted at the start     deleted
    built in (onstart)   stays                      updated at the start     updated at the start
    defined (true)       stays                      updated                  updated

Missing ones are created: built-in ones at startup, those of definitions at any time. Pure. Follows
kube-aggregator pkg/controllers/autoregister/autoregister_controller.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

from registry.aggregation.model import GROUP, local_priority
from registry.caches import LruCache
from registry.definitions.model import Definition

Json = dict[str, Any]

LABEL: Final = "kube-aggregator.kubernetes.io/automanaged"
_TENANTS: Final = 10_000
ON_START, ALWAYS = "onstart", "true"


class ReconciledServices(NamedTuple):
    """What a tenant's APIServices were last compared with: its definitions, and its APIServices up to a revision."""

    definitions_serial: int
    revision: int


class Written:
    """What this process has reconciled, by tenant."""

    def __init__(self) -> None:
        self.reconciled: LruCache[int, ReconciledServices] = LruCache(_TENANTS)
        self.locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()


class APIServiceChanges(NamedTuple):
    """`update` has the desired specs and labels of stored objects."""

    create: list[Json]
    update: dict[str, Json]
    delete: list[str]


def desired(definitions: Iterable[Definition]) -> dict[str, Json]:
    """The desired APIServices by name: one for each group version served here, except that of APIServices itself."""
    services: dict[str, Json] = {}
    for definition in definitions:
        if (definition.builtin and definition.group == GROUP) or not definition.established:
            continue
        for version in definition.versions.values():
            name = f"{version.name}.{definition.group}"
            if version.served and (definition.builtin or name not in services):
                services[name] = _api_service(definition.group, version.name, builtin=definition.builtin)
    return services


def _api_service(group: str, version: str, *, builtin: bool) -> Json:
    of_group, of_version = local_priority(group, version, builtin=builtin)
    spec: Json = {"version": version, "groupPriorityMinimum": of_group, "versionPriority": of_version}
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "APIService",
        "metadata": {"name": f"{version}.{group}", "labels": {LABEL: ON_START if builtin else ALWAYS}},
        "spec": {"group": group, **spec} if group else spec,
    }


def changes(wanted: Mapping[str, Json], stored: Mapping[str, Json], *, at_start: bool) -> APIServiceChanges:
    """The changes to `stored`, the APIServices of a tenant by name."""
    difference = APIServiceChanges([], {}, [])
    for name, obj in wanted.items():
        managed = _label(obj)
        if name not in stored:
            if at_start or managed == ALWAYS:
                difference.create.append(obj)
        elif _label(stored[name]) and (at_start or managed == ALWAYS) and _differs(stored[name], obj):
            difference.update[name] = obj
    for name, obj in stored.items():
        if name not in wanted and (_label(obj) == ALWAYS or (at_start and _label(obj) == ON_START)):
            difference.delete.append(name)
    return difference


def _label(obj: Json) -> str:
    label = (obj["metadata"].get("labels") or {}).get(LABEL) or ""
    return label if label in (ON_START, ALWAYS) else ""


def _differs(stored: Json, wanted: Json) -> bool:
    return stored.get("spec") != wanted["spec"] or _label(stored) != _label(wanted)
