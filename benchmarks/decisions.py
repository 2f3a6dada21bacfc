"""The time of an RBAC decision in a tenant with a thousand roles and bindings.

    python -m benchmarks.decisions

Prints microseconds. A decision should take microseconds whatever else the tenant contains, so only ten of the thousand
bindings are the user's own.
"""

from __future__ import annotations

import timeit

from registry.authentication.user import AUTHENTICATED, User
from registry.authorization.attributes import Attributes
from registry.authorization.rbac.defaults import default_entries
from registry.authorization.rbac.model import Binding, PolicyRule, RoleReference, Subject
from registry.authorization.rbac.policy import DECISIONS, CompiledRole, Policy
from registry.authorization.rbac.stored import RoleEntry, policy_of
from registry.store.types import ObjectKey, ResourceName

ROLES = 1_000
TEAMS = 100
ASKER = User("jane", ("team-7", AUTHENTICATED))
ROLES_RESOURCE = ResourceName("clusterroles.rbac.authorization.k8s.io")
BINDINGS_RESOURCE = ResourceName("clusterrolebindings.rbac.authorization.k8s.io")


def entries() -> dict[tuple[ResourceName, ObjectKey], RoleEntry]:
    found = dict(default_entries())
    for number in range(ROLES):
        name = f"role-{number}"
        rules = [
            PolicyRule(("get", "list", "watch"), (f"group-{number}.example.com",), ("widgets", "gadgets/status")),
            PolicyRule(("update", "patch"), (f"group-{number}.example.com",), ("widgets",), ("one", "two")),
        ]
        subject = Subject("Group", f"team-{number % TEAMS}")
        found[ROLES_RESOURCE, ObjectKey(name)] = RoleEntry(number, CompiledRole(rules), 0)
        bound = Binding(name, "", RoleReference("ClusterRole", name), (subject,))
        found[BINDINGS_RESOURCE, ObjectKey(name)] = RoleEntry(number, bound, 0)
    return found


def question(number: int, verb: str = "get") -> Attributes:
    return Attributes(verb, "", "widgets", "", f"group-{number}.example.com", "default", "one")


def decide_uncached(policy: Policy, asked: Attributes) -> None:
    DECISIONS.clear()
    policy.decide(ASKER, asked)


def microseconds(what: str, run: object, number: int = 20_000) -> None:
    assert callable(run)
    print(f"{min(timeit.repeat(run, number=number, repeat=5)) / number * 1e6:10.2f}  {what}")


def main() -> None:
    stored = entries()
    policy = policy_of(stored, {})
    allowed, denied = question(907), question(908)
    assert policy.decide(ASKER, allowed).allowed
    assert not policy.decide(ASKER, denied).allowed
    microseconds("a decision that has been made before", lambda: policy.decide(ASKER, allowed))
    microseconds("a new decision: allowed by the last of ten bindings", lambda: decide_uncached(policy, allowed))
    microseconds("a new decision: denied", lambda: decide_uncached(policy, denied))
    microseconds(f"compiling the policy of {ROLES} roles and bindings", lambda: policy_of(stored, {}), number=10)


if __name__ == "__main__":
    main()
