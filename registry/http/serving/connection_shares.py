"""The open connections of a process, shared between tenants.

A tenant may have as many connections as are still free: alone half of the limit; with n others that want as many,
1/(n+2) of it. Connections on which no credential has been accepted yet belong to no tenant, and may be half as many as
are free. So a flood always leaves room for a new client.

A TLS connection that has ever sent or received much at once keeps larger buffers, and counts as two; one whose client
does not read counts as many as what waits for it takes. So the limit bounds the memory of all of them.

A connection beyond a share replaces others of the same share that have no request in progress. These are looked for in
a circle, a few at a time (the clock algorithm of page replacement). If all of them have one, a tenant's new connection
is refused; of those without a credential the next one is closed, as requests that last for ever could otherwise keep
everyone out.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from prometheus_client import Counter, Gauge

CONNECTIONS: Final = Gauge("registry_open_connections", "Connections that are open, in their TLS handshake or after.")
REPLACED: Final = Counter(
    "registry_connections_replaced", "Connections closed in favour of others, for their tenant, or nobody, had many."
)

# The connections whose credential is not known yet.
UNKNOWN: Final = ""
# They may be at most the free connections divided by this.
_UNKNOWN_PART: Final = 2
# How many connections that have a request are passed over in the search for one that has none.
_LOOKS: Final = 16
# What an idle TLS connection takes; with larger buffers twice as much.
IDLE_BYTES: Final = 40 * 1024


def no_request() -> bool:
    return False


def _nothing() -> None:
    pass


class ConnectionShares:
    """Invariant: `count` slots have been opened and have not ended."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0
        # What they count as, of all and by tenant; and the slots by tenant, those first that are looked at first.
        self.units = 0
        self._units: dict[str, int] = {}
        self._slots: dict[str, OrderedDict[ConnectionSlot, None]] = {}

    def open(self) -> ConnectionSlot | None:
        """Returns a slot for a new connection, of no tenant; None if the process has no room."""
        if UNKNOWN in self._slots:
            self._make_room(UNKNOWN, 1, even_busy=True)
        if self.units >= self.limit:
            return None
        slot = ConnectionSlot(self)
        self._add(slot)
        return slot

    def move(self, slot: ConnectionSlot, tenant: str) -> bool:
        """Counts the connection for another tenant. Returns False, and changes nothing, if the tenant has no room."""
        if tenant in self._slots and not self._make_room(tenant, slot.units, even_busy=False, moved=slot.units):
            return False
        self.remove(slot)
        slot.tenant = tenant
        self._add(slot)
        return True

    def resize(self, slot: ConnectionSlot, units: int) -> bool:
        """Counts a connection as `units` from now on. Returns whether its tenant has room for that."""
        more = units - slot.units
        slot.units = units
        self._change(slot.tenant, more)
        return more < 0 or self._make_room(slot.tenant, 0, even_busy=False, spared=slot)

    def remove(self, slot: ConnectionSlot) -> None:
        slots = self._slots[slot.tenant]
        del slots[slot]
        if not slots:
            del self._slots[slot.tenant]
        self._change(slot.tenant, -slot.units)
        self._set_count(self.count - 1)

    def _add(self, slot: ConnectionSlot) -> None:
        self._slots.setdefault(slot.tenant, OrderedDict())[slot] = None
        self._change(slot.tenant, slot.units)
        self._set_count(self.count + 1)

    def _change(self, tenant: str, units: int) -> None:
        self.units += units
        left = self._units.pop(tenant, 0) + units
        if left:
            self._units[tenant] = left

    def _set_count(self, count: int) -> None:
        self.count = count
        CONNECTIONS.set(count)

    def _has_room(self, tenant: str, more: int, moved: int) -> bool:
        """`moved` are those of `more` that are counted for all already."""
        free = self.limit - self.units - (more - moved)
        wanted = self._units.get(tenant, 0) + more
        return wanted * (_UNKNOWN_PART if tenant == UNKNOWN else 1) <= free

    def _make_room(
        self, tenant: str, more: int, *, even_busy: bool, moved: int = 0, spared: ConnectionSlot | None = None
    ) -> bool:
        """Closes connections of the tenant, but the one that is to be spared, until it has room for more. Returns False
        if it has not, since those that were looked at have requests."""
        slots = self._slots[tenant]
        looks = min(_LOOKS, len(slots))
        while slots and not self._has_room(tenant, more, moved):
            slot = next(iter(slots))
            if slot is not spared and not slot.has_request():
                self._replace(slot)
            elif looks:
                looks -= 1
                slots.move_to_end(slot)
            elif even_busy:
                self._replace(slot)
            else:
                return False
        return True

    def _replace(self, slot: ConnectionSlot) -> None:
        close = slot.close
        slot.end()
        REPLACED.inc()
        close()


class ConnectionSlot:
    """What one connection counts as, until `end`.

    Its connection attaches itself: `has_request` is whether a request is not answered, `close` closes it at once.
    """

    __slots__ = ("_shares", "_small_units", "_waiting_bytes", "close", "has_request", "tenant", "units")

    def __init__(self, shares: ConnectionShares) -> None:
        self._shares: ConnectionShares | None = shares
        self.units = self._small_units = 1
        self._waiting_bytes = 0
        self.tenant = UNKNOWN
        self.attach(no_request, _nothing)

    def attach(self, has_request: Callable[[], bool], close: Callable[[], None]) -> None:
        """Takes over who answers for the connection: first its TLS handshake, then its protocol."""
        self.has_request, self.close = has_request, close

    def count_for(self, tenant: str) -> bool:
        """Counts the connection for the tenant whose credential was accepted. Returns False, and changes nothing, if
        the tenant has no room."""
        return self._shares is None or tenant in (UNKNOWN, self.tenant) or self._shares.move(self, tenant)

    def keep_buffers(self) -> bool:
        """Counts larger buffers, until the end. Returns whether there is room for them."""
        self._small_units = 2
        return self._count()

    def keep_waiting(self, count: int) -> bool:
        """Counts so many bytes that wait for the client, or those that have waited if they were more. Returns whether
        there is room for them."""
        self._waiting_bytes = max(count, self._waiting_bytes)
        return self._count()

    def free_waiting(self) -> None:
        """The client has read everything."""
        if self._waiting_bytes:
            self._waiting_bytes = 0
            self._count()

    def _count(self) -> bool:
        units = self._small_units + self._waiting_bytes // IDLE_BYTES
        return units == self.units or self._shares is None or self._shares.resize(self, units)

    def end(self) -> None:
        """Ends the slot, if it has not ended, and drops what refers to the connection."""
        shares, self._shares = self._shares, None
        if shares is not None:
            shares.remove(self)
        self.attach(no_request, _nothing)
