"""The errors of the store. No exception of psycopg's passes this boundary.

StoreError
├── AlreadyExists        a create found an object
├── NotFound             an update or delete found none
├── RevisionConflict     the object is not at the expected revision
├── InUse                a write that requires that other objects do not exist found some
├── GuardsChanged        the definitions or namespaces changed since the write was validated: validate it again
├── RevisionExpired      the requested revision is below the retained history
├── RevisionInFuture     the requested revision has not been assigned yet
├── IndexNotReady        a declared index is not complete (yet) at the requested revision
├── QueryTooLarge        a query over an index would read for too long
├── TooManyBytes         all objects of a resource are needed at once, and are too large together
├── TenantNotFound
├── TenantExists
├── TenantSuspended      the tenant accepts no writes for now
├── QuotaExceeded        the write would exceed a limit of its tenant
├── TenancyRefused       a tenant object asks for a change that is not possible
├── SharingRefused       a write conflicts with what tenants share
├── Unreadable           stored data is damaged, or encrypted by a key that this server does not have
├── Unstorable           PostgreSQL rejects the statement: it will fail again
│   └── ValueRefused     because of a value: U+0000, a number that is too large, a key that is too long
└── Unavailable          PostgreSQL is away, read-only, full or too slow; nothing was written
    ├── Closed           this process is ending
    └── Uncertain        the connection broke during a commit: it may or may not have been written
"""

from __future__ import annotations

from registry.store.types import Guards, ResourceName, Row


class StoreError(Exception):
    """The base of all errors that a caller of the store must expect."""


class AlreadyExists(StoreError):
    def __init__(self, current: Row) -> None:
        super().__init__(f"{current.resource} {current.key} exists")
        self.current = current


class NotFound(StoreError):
    pass


class RevisionConflict(StoreError):
    def __init__(self, current: Row) -> None:
        super().__init__(f"{current.resource} {current.key} is at revision {current.revision}")
        self.current = current


class InUse(StoreError):
    pass


class GuardsChanged(StoreError):
    def __init__(self, guards: Guards) -> None:
        super().__init__("definitions or namespaces changed")
        self.guards = guards


class RevisionExpired(StoreError):
    """`compact_revision` (etcd's term) is the lowest revision from which the log is complete; `current` the newest."""

    def __init__(self, revision: int, compact_revision: int, current: int) -> None:
        super().__init__(f"revision {revision} is below {compact_revision}")
        self.revision = revision
        self.compact_revision = compact_revision
        self.current = current


class IndexNotReady(StoreError):
    """`since` is the revision from which the index is complete; None while it is being built."""

    def __init__(self, since: int | None) -> None:
        super().__init__("the index is not complete")
        self.since = since


class QueryTooLarge(StoreError):
    pass


class TooManyBytes(StoreError):
    """All objects of a resource are needed at once, and they are too large together."""

    def __init__(self, resource: ResourceName) -> None:
        super().__init__(f"all {resource} are needed")
        self.resource = resource


class RevisionInFuture(StoreError):
    def __init__(self, revision: int, current: int) -> None:
        super().__init__(f"revision {revision} is above {current}")
        self.revision = revision
        self.current = current


class TenantNotFound(StoreError):
    pass


class TenantExists(StoreError):
    pass


class TenantSuspended(StoreError):
    pass


class QuotaExceeded(StoreError):
    """`what` is objects, bytes, definitions or namespaces; `requested` is how many more the write needs."""

    def __init__(self, what: str, requested: int, used: int, limit: int) -> None:
        super().__init__(f"{what}: {requested} more than {used} is over {limit}")
        self.what = what
        self.requested = requested
        self.used = used
        self.limit = limit


class TenancyRefused(StoreError):
    """`reason` is parent, cycle, depth, schema, ending, children or provides; `name` the other tenant concerned,
    or ""."""

    def __init__(self, reason: str, name: str = "") -> None:
        super().__init__(f"{reason} {name}")
        self.reason = reason
        self.name = name


class SharingRefused(StoreError):
    """`reason` is moved, taken, bound or stored; `detail` the resource, the number of tenants, or the version."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason} {detail}")
        self.reason = reason
        self.detail = detail


class Unstorable(StoreError):
    """The request can't be stored with these values, now or later; nothing was written."""


class ValueRefused(Unstorable):
    pass


class Unreadable(StoreError):
    """Stored data is damaged, or encrypted by a key that this server does not have."""


class Unavailable(StoreError):
    """Retrying later can help. `retry_after_seconds` is a hint for the client."""

    retry_after_seconds = 1


class Closed(Unavailable):
    pass


class Uncertain(Unavailable):
    pass
