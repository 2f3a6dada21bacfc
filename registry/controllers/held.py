"""When to try again to delete what finalizers hold: a namespace, a definition or a binding waits until it is gone.

Each attempt reads all that is left. So while as many objects remain as after the last attempt, the next one comes after
a multiple of its duration: otherwise a tenant whose finalizers hold many objects, or large ones, would keep a processor
busy for ever.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from time import monotonic
from typing import Final, NamedTuple

from registry.api.options import DeleteOptions
from registry.api.served import Served
from registry.caches import LruCache
from registry.controllers.controller_client import ControllerClient

_PAUSE_FACTOR: Final = 20
_MAX_PAUSE_SECONDS: Final = 300.0
_MAX_BYTES: Final = 4 << 20
_ENTRY_BYTES: Final = 150


class HeldContent(NamedTuple):
    """What was left after an attempt: how many objects of each resource, and of each finalizer."""

    remaining: Mapping[str, int]
    finalizers: Mapping[str, int]
    fresh_until: float


class HeldContents:
    """What the last attempts of a process have left, by the uid of what waits for it."""

    def __init__(self) -> None:
        self._held: LruCache[Hashable, HeldContent] = LruCache(_MAX_BYTES, _weigh)

    def find(self, waiting: Hashable, remaining: Mapping[str, int]) -> HeldContent | None:
        """Returns what the last attempt has left. None if it is time for another one, since other objects remain now,
        or because it is long ago."""
        held = self._held.get(waiting)
        if held is None or held.remaining != remaining or monotonic() > held.fresh_until:
            return None
        return held

    def keep(
        self, waiting: Hashable, remaining: Mapping[str, int], finalizers: Mapping[str, int], *, began: float
    ) -> None:
        """Keeps what an attempt has left that `began` at this time of the monotonic clock."""
        if not remaining:
            self._held.pop(waiting)
            return
        now = monotonic()
        pause = min(_PAUSE_FACTOR * (now - began), _MAX_PAUSE_SECONDS)
        self._held.put(waiting, HeldContent(remaining, finalizers, now + pause))


async def delete_objects(client: ControllerClient, served: Served, waiting: Hashable, held: HeldContents) -> int:
    """Deletes every object of a resource, if it is time for that; returns the number of those that remain because of
    finalizers."""
    began = monotonic()
    lookups, name = client.backend.store.lookups, served.resource_name
    if known := held.find(waiting, {name: await lookups.count(client.tenant, name)}):
        return known.remaining[name]
    await client.delete_all(served, DeleteOptions())
    left = await lookups.count(client.tenant, name)
    held.keep(waiting, {name: left} if left else {}, {}, began=began)
    return left


def _weigh(held: HeldContent) -> int:
    return sum(_ENTRY_BYTES + len(name) for counts in (held.remaining, held.finalizers) for name in counts)
