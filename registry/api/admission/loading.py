"""The admission configuration as a part of a tenant's catalog.

It is read together with the catalog: each write of it moves the guard of the tenant's definitions, which every commit
checks. Unchanged objects are not compiled again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from registry.admission.configuration import (
    GROUP,
    RESOURCES,
    TENANT_BYTES,
    Admission,
    Compiled,
    compile_object,
    memory_size,
)
from registry.codec.stored import decode_stored
from registry.flowcontrol.evaluation import shared_aside
from registry.store.store import Store
from registry.store.types import ObjectKey, ResourceName, Tenant

_NAMES: Final = [ResourceName(f"{plural}.{GROUP}") for plural in RESOURCES]


# Larger configurations are compiled in a thread: an expression of fifty bytes takes a millisecond or two.
_SMALL_BYTES: Final = 2048

# A row as the store returns it.
_Stored = tuple[ResourceName, ObjectKey, int, str]


class _Loaded(NamedTuple):
    """`compiled` takes `size` bytes in memory; None if it is left out, as it does not fit."""

    revision: int
    compiled: Compiled | None
    size: int


_Objects = dict[tuple[ResourceName, ObjectKey], _Loaded]


class Configured(NamedTuple):
    """`objects` are the compiled objects with their revisions; `size` is what they take in memory, with those that are
    left out, in bytes."""

    objects: Mapping[tuple[ResourceName, ObjectKey], _Loaded]
    admission: Admission | None
    size: int


NOTHING: Final = Configured({}, None, 0)


async def load_admission(store: Store, tenant: Tenant, known: Configured) -> Configured:
    """Loads the present configuration, as far as it fits into TENANT_BYTES; `known` is what was loaded before."""
    newest = max((loaded.revision for loaded in known.objects.values()), default=-1)
    objects: _Objects = {}
    changed, room = False, TENANT_BYTES
    async for rows in store.lookups.rows_of(tenant, _NAMES, newer=newest):
        new: list[_Stored] = []
        for resource, key, revision, body in rows:
            before = known.objects.get((resource, key))
            if before is not None and before.revision == revision:
                objects[resource, key] = before
                room -= before.size if before.compiled is not None else 0
            else:
                assert body is not None, "it is newer than all that is known"
                new.append((resource, key, revision, body))
        compiled = await _compiled(new, room)
        objects |= compiled
        room -= sum(loaded.size for loaded in compiled.values() if loaded.compiled is not None)
        changed = changed or bool(new)
    if not objects:
        return NOTHING
    for (resource, key), loaded in objects.items():
        if loaded.compiled is None and loaded.size <= room:  # others have been deleted since it was left out
            row, _ = await store.load(tenant, resource, key)
            if row is not None:
                objects |= await _compiled([(resource, key, row.revision, row.body)], room)
                room -= loaded.size
                changed = True
    return _together(objects) if changed or len(objects) != len(known.objects) else known


async def _compiled(rows: Sequence[_Stored], room: int) -> _Objects:
    work = partial(_compile, rows, room)
    return await shared_aside(work) if sum(len(body) for *_, body in rows) > _SMALL_BYTES else work()


def _compile(rows: Sequence[_Stored], room: int) -> _Objects:
    compiled: _Objects = {}
    for resource, key, revision, body in rows:
        obj = decode_stored(f'{{"metadata":{{"resourceVersion":"{revision}",{body}')
        size = memory_size(obj)
        if size > room:
            compiled[resource, key] = _Loaded(revision, None, size)
        else:
            room -= size
            compiled[resource, key] = _Loaded(revision, compile_object(resource.partition(".")[0], obj), size)
    return compiled


def _together(objects: _Objects) -> Configured:
    by_resource: dict[str, list[Compiled]] = {}
    for (resource, _), loaded in objects.items():
        if loaded.compiled is not None:
            by_resource.setdefault(resource.partition(".")[0], []).append(loaded.compiled)
    is_incomplete = any(loaded.compiled is None for loaded in objects.values())
    size = sum(loaded.size for loaded in objects.values())
    return Configured(objects, Admission.of(by_resource, is_incomplete=is_incomplete), size)
