"""The authorizer: caches the RBAC policies of the tenants that this process serves, and decides by them.

Freshness: a write by this process is effective on the next request (`invalidate`), a write by another process after
CHECK_SECONDS at the latest. A policy older than that is compared with the database before it is used again, by one
small query per tenant (the number of roles and bindings, and the newest revision among them; together they reveal every
change). So a busy tenant costs one such query a second, an idle one none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from registry.authentication.user import ADMINISTRATORS, AUTHENTICATED, User
from registry.authorization.attributes import Attributes, Decision, SubjectRules
from registry.authorization.rbac.defaults import default_entries
from registry.authorization.rbac.model import EVERYTHING, Binding
from registry.authorization.rbac.policy import Policy
from registry.authorization.rbac.stored import RESOURCES, Entries, RoleEntry, Which, entry_of, policy_of, refresh, usage
from registry.caches import LruCache
from registry.flowcontrol.evaluation import evaluate, shared_aside
from registry.store.store import Store
from registry.store.types import Tenant, TenantId

P = ParamSpec("P")
T = TypeVar("T")

# A change by another process is effective after this time at the latest.
CHECK_SECONDS: Final = 1.0
# The roles and bindings of one tenant in memory: those that do not fit grant nothing. 100,000 texts in rules take half.
TENANT_BYTES: Final = 32 * 1024 * 1024
# The policies that are cached; one with only the defaults costs little, since their entries are shared.
POLICY_BYTES: Final = 96 * 1024 * 1024
_KNOWN_BYTES: Final = 1_000
TENANTS_LIMIT: Final = 2_000
# Anything larger is decoded and compiled in a thread.
LARGE_BYTES: Final = 64 * 1024
# A subject of a binding, or an entry by itself, takes as much time as this many bytes of a role.
_SUBJECT_BYTES: Final = 10
_ENTRY_BYTES: Final = 100
# A decision takes 0.2 µs for each rule: with 2,000 of them it is made in a thread.
_STEP_BYTES: Final = 32

# The tenant whose administrators are administrators of the platform.
PLATFORM: Final = "system"

# The API group and resource of queries.
QUERIES: Final = ("query.registry", "queries")

# Any authenticated user may read the issuer's metadata, as recorded of kube-apiserver, which has no rule for it.
ISSUER: Final = "/.well-known/openid-configuration"


def user_in_tenant(user: User, tenant: str) -> User:
    """The user as the rules of a tenant see them.

    An identity of the platform, or of the tenant itself, is unchanged. A user of another tenant gets a prefixed name,
    which no identity of the tenant can have, and is not in system:authenticated: only rights granted to the prefixed
    name or groups apply. An administrator of the tenant `system` is one in every tenant.

        alice of acme, in the group dev, in globex: system:tenant:acme:alice, groups system:tenant:acme
        and system:tenant:acme:dev
    """
    home = user.tenant
    if home is None or home == tenant:
        return user
    if home == PLATFORM and user.is_administrator:
        return user
    prefix = f"system:tenant:{home}"
    return replace(user, name=f"{prefix}:{user.name}", groups=(prefix, *(f"{prefix}:{group}" for group in user.groups)))


@dataclass(slots=True)
class _KnownPolicy:
    policy: Policy
    entries: Entries
    count: int
    newest: int
    checked: float  # by the process's clock
    # What the entries take in memory, with those that are left out, in bytes.
    usage: int
    writes: int = 0


class Authorizer:
    """`clock` returns seconds, for tests."""

    def __init__(
        self, store: Store, *, check_seconds: float = CHECK_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._check_seconds = check_seconds
        self._clock = clock
        self._known: LruCache[TenantId, _KnownPolicy] = LruCache(
            POLICY_BYTES, lambda known: _KNOWN_BYTES + min(known.usage, TENANT_BYTES), evicted=self._forget_writes
        )
        # This process's writes to a tenant's roles: a policy that was read before one of them is stale.
        self._written: dict[TenantId, int] = {}
        self._checking: WeakValueDictionary[TenantId, asyncio.Lock] = WeakValueDictionary()
        self._touched: LruCache[TenantId, bool] = LruCache(TENANTS_LIMIT)
        self._default = policy_of({}, default_entries())

    @property
    def default(self) -> Policy:
        """The policy of a tenant without roles and bindings of its own."""
        return self._default

    def invalidate(self, tenant: Tenant) -> None:
        """Makes the next decision check for changes, after this process has written a role or a binding."""
        if tenant.id not in self._known and tenant.id not in self._checking:
            return  # nothing is cached, and nothing is being read
        self._written[tenant.id] = self._written.get(tenant.id, 0) + 1

    def is_first_access(self, tenant: Tenant) -> bool:
        """Whether this is the first access to the tenant's roles in this process, as far as it remembers."""
        if self._touched.get(tenant.id):
            return False
        return self._touched.put(tenant.id, True)

    async def of(self, tenant: Tenant) -> Policy:
        """The policy for decisions, at most CHECK_SECONDS old. Raises the store's errors."""
        known = self._known.get(tenant.id)
        if known is not None and self._is_fresh(tenant.id, known):
            return known.policy
        return (await self._current(tenant)).policy

    async def entries_of(self, tenant: Tenant) -> Entries:
        """The tenant's own roles and bindings, as fresh as its policy."""
        return (await self._current(tenant)).entries

    async def _current(self, tenant: Tenant) -> _KnownPolicy:
        async with self._checking.setdefault(tenant.id, asyncio.Lock()):
            known = self._known.get(tenant.id)
            if known is None or not self._is_fresh(tenant.id, known):
                known = await self._check(tenant, known)
            return known

    def _is_fresh(self, tenant: TenantId, known: _KnownPolicy) -> bool:
        return known.writes == self._written.get(tenant, 0) and self._clock() - known.checked < self._check_seconds

    async def _check(self, tenant: Tenant, known: _KnownPolicy | None) -> _KnownPolicy:
        now, writes = self._clock(), self._written.get(tenant.id, 0)
        count, newest = await self._store.lookups.newest_of(tenant, RESOURCES)
        if known is not None and (known.count, known.newest) == (count, newest):
            known.checked, known.writes = now, writes
            return self._known.put(tenant.id, known)
        fresh = (
            await self._read(tenant, known, now, writes)
            if count
            else _KnownPolicy(self._default, {}, 0, 0, now, 0, writes)
        )
        return self._known.put(tenant.id, fresh)

    def _forget_writes(self, tenant: TenantId, _: _KnownPolicy) -> None:
        self._written.pop(tenant, None)

    async def _read(self, tenant: Tenant, known: _KnownPolicy | None, now: float, writes: int) -> _KnownPolicy:
        before: Entries = known.entries if known is not None else {}
        entries: dict[Which, RoleEntry] = {}
        room = TENANT_BYTES
        async for rows in self._store.lookups.rows_of(
            tenant, RESOURCES, newer=known.newest if known is not None else 0
        ):
            size = sum(len(body) for *_, body in rows if body is not None) + _ENTRY_BYTES * len(rows)
            refreshed, room = await _beside_loop(size, refresh, before, rows, room)
            entries |= refreshed
        for (resource, key), entry in entries.items():
            if entry.value is None and entry.size <= room:  # others have been deleted since it was left out
                row, _ = await self._store.load(tenant, resource, key)
                if row is not None and row.revision == entry.revision:
                    entries[resource, key] = entry_of(resource, key, row.revision, row.body)
                    room -= entry.size
        subjects = sum(len(entry.value.subjects) for entry in entries.values() if isinstance(entry.value, Binding))
        size = _SUBJECT_BYTES * subjects + _ENTRY_BYTES * len(entries)
        return await _beside_loop(size, _known_of, entries, now, writes)

    async def room(self, tenant: Tenant) -> int:
        """How many bytes of memory the tenant's roles and bindings may still take; negative if they take too many."""
        return TENANT_BYTES - (await self._current(tenant)).usage

    async def decide(self, tenant: Tenant, user: User, attributes: Attributes) -> Decision:
        """Decides a request. `user` is the result of user_in_tenant."""
        if ADMINISTRATORS in user.groups:
            return _ALLOWED
        policy = await self.of(tenant)
        decision = _decide_at_once(policy, user, attributes)
        if decision is None:
            size = decision_size(policy, user)
            decision = await evaluate(partial(policy.decide, user, attributes), size, repeatable=True)
        return _opened(decision, user, attributes)

    def recall(self, tenant: Tenant, user: User, attributes: Attributes) -> Decision | None:
        """Decides as `decide` does, if the cached policy is fresh and the decision takes no time; otherwise None."""
        if ADMINISTRATORS in user.groups:
            return _ALLOWED
        known = self._known.get(tenant.id)
        if known is None or not self._is_fresh(tenant.id, known):
            return None
        decision = _decide_at_once(known.policy, user, attributes)
        return None if decision is None else _opened(decision, user, attributes)

    async def rules_of(self, tenant: Tenant, user: User, namespace: str) -> SubjectRules:
        """The rules that rules reviews return."""
        policy = await self.of(tenant)
        first = EVERYTHING if ADMINISTRATORS in user.groups else ()
        return await _beside_loop(decision_size(policy, user), policy.review, user, namespace, first)


def decision_size(policy: Policy, user: User) -> int:
    """How long a decision about the user may take, as the size of what takes as long to compile."""
    return len(user.groups) * _SUBJECT_BYTES + policy.steps * _STEP_BYTES


def _decide_at_once(policy: Policy, user: User, attributes: Attributes) -> Decision | None:
    """The decision, if it is cached or takes no time."""
    if decision_size(policy, user) <= LARGE_BYTES:
        return policy.decide(user, attributes)
    return policy.recall(user, attributes)


def _known_of(entries: Entries, now: float, writes: int) -> _KnownPolicy:
    newest = max((entry.revision for entry in entries.values()), default=0)
    return _KnownPolicy(
        policy_of(entries, default_entries()), entries, len(entries), newest, now, usage(entries), writes
    )


def _opened(decision: Decision, user: User, attributes: Attributes) -> Decision:
    """Allowed where every authenticated user is; else the decision."""
    if not decision.allowed and AUTHENTICATED in user.groups and _is_open(attributes):
        return _ALLOWED
    return decision


def _is_open(attributes: Attributes) -> bool:
    """Whether every authenticated user may do this without a rule: the default roles equal kube-apiserver's."""
    if attributes.path == ISSUER:
        return attributes.verb == "get"
    # A Query reads only what the user may list (registry/api/query/targets.py).
    return (attributes.verb, attributes.group, attributes.resource, attributes.subresource) == ("create", *QUERIES, "")


async def _beside_loop(size: int, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """The result of `work`, which runs in a thread if `size` exceeds LARGE_BYTES; one at a time per tenant."""
    return await shared_aside(partial(work, *arguments, **named)) if size > LARGE_BYTES else work(*arguments, **named)


_ALLOWED = Decision(True)
