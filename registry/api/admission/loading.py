"""The admission configuration as a part of a tenant's catalog.

It is read together with the catalog: each write of it moves the guard of the tenant's definitions, which every commit
checks. Unchanged objects are not compiled again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from registry.admission.configuration import GROUP, RESOURCES, Admission, Compiled, compile_object
from registry.codec.stored import decode_stored
from registry.flowcontrol.evaluation import shared_aside
from registry.store.store import Store
from registry.store.types import ObjectKey, ResourceName, Tenant

_NAMES: Final = [ResourceName(f"{plural}.{GROUP}") for plural in RESOURCES]


# Larger configurations are compiled in a thread: an expression of fifty bytes takes a millisecond or two.
_SMALL_BYTES: Final = 2048

# A row as the store returns it.
_Stored = tuple[ResourceName, ObjectKey, int, str]


class Configured(NamedTuple):
    """`objects` are the compiled objects with their revisions."""

    objects: Mapping[tuple[ResourceName, ObjectKey], tuple[int, Compiled]]
    admission: Admission | None


NOTHING: Final = Configured({}, None)


async def load_admission(store: Store, tenant: Tenant, known: Configured) -> Configured:
    """Loads the present configuration; `known` is what was loaded before."""
    newest = max((revision for revision, _ in known.objects.values()), default=-1)
    objects: dict[tuple[ResourceName, ObjectKey], tuple[int, Compiled]] = {}
    changed = False
    async for rows in store.lookups.rows_of(tenant, _NAMES, newer=newest):
        new: list[_Stored] = []
        for resource, key, revision, body in rows:
            before = known.objects.get((resource, key))
            if before is not None and before[0] == revision:
                objects[resource, key] = before
            else:
                assert body is not None, "it is newer than all that is known"
                new.append((resource, key, revision, body))
        if sum(len(body) for *_, body in new) > _SMALL_BYTES:
            objects |= await shared_aside(partial(_compiled, new))
        else:
            objects |= _compiled(new)
        changed = changed or bool(new)
    if not objects:
        return NOTHING
    return Configured(objects, _together(objects)) if changed or len(objects) != len(known.objects) else known


def _compiled(rows: Sequence[_Stored]) -> dict[tuple[ResourceName, ObjectKey], tuple[int, Compiled]]:
    compiled: dict[tuple[ResourceName, ObjectKey], tuple[int, Compiled]] = {}
    for resource, key, revision, body in rows:
        obj = decode_stored(f'{{"metadata":{{"resourceVersion":"{revision}",{body}')
        compiled[resource, key] = (revision, compile_object(resource.partition(".")[0], obj))
    return compiled


def _together(objects: Mapping[tuple[ResourceName, ObjectKey], tuple[int, Compiled]]) -> Admission | None:
    by_resource: dict[str, list[Compiled]] = {}
    for (resource, _), (_, compiled) in objects.items():
        by_resource.setdefault(resource.partition(".")[0], []).append(compiled)
    return Admission.of(by_resource)
