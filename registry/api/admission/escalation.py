"""Prevents privilege escalation: users cannot grant rights that they lack. Checks each write of a role or a binding.

Follows kubernetes pkg/registry/rbac/escalation_check.go, pkg/registry/rbac/*/policybased/storage.go and
pkg/registry/rbac/validation/rule.go (ConfirmNoEscalation) at v1.36.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from registry.api.errors import Qualified, forbidden, namespace_required, not_found, plain_internal, refused_key
from registry.authentication.user import User
from registry.authorization.attributes import Attributes
from registry.authorization.rbac.cover import missing_rules, missing_texts
from registry.authorization.rbac.model import GROUP, PolicyRule, RoleReference
from registry.authorization.rbac.policy import Policy, aggregate
from registry.codec.go_text import go_quote, go_quote_all
from registry.schema.field import quote_shortened
from registry.schema.names import name_is_path_segment


@dataclass(frozen=True, slots=True)
class Authority:
    """The writer of a role or binding, and their policy. `name` is the one in the URL: a POST has none."""

    policy: Policy
    user: User
    plural: str
    namespace: str
    name: str

    def check_rules(self, name: str, rules: Sequence[PolicyRule], refusal: str = "") -> None:
        """Raises a 403 unless the writer has all of `rules`, or may escalate; `refusal` replaces the text."""
        if self._may("escalate", self.plural, self.name):
            return
        missing = self._missing(rules)
        if missing:
            raise forbidden(Qualified(self.plural, GROUP), name, refusal or missing)

    def check_binding(self, name: str, role: RoleReference) -> None:
        """Raises a StatusError unless the writer has all rights of the role, or may bind it."""
        if role.kind not in ("Role", "ClusterRole"):
            raise plain_internal(f"unsupported role reference kind: {quote_shortened(role.kind)}")
        if self._may("bind", "clusterroles" if role.kind == "ClusterRole" else "roles", role.name):
            return
        bound_role = self.policy.role(role, self.namespace)
        if bound_role is None:
            if role.kind == "Role" and not self.namespace:
                raise namespace_required()
            if not role.name or (problems := name_is_path_segment(role.name)):
                raise refused_key(role.name, problems if role.name else ())
            raise not_found(Qualified(self.plural, GROUP), role.name)
        missing = self._missing(bound_role.rules)
        if missing:
            raise forbidden(Qualified(self.plural, GROUP), name, missing)

    def _may(self, verb: str, plural: str, name: str) -> bool:
        attributes = Attributes(verb, "", plural, "", GROUP, self.namespace, name)
        return self.policy.decide(self.user, attributes).allowed

    def _missing(self, rules: Sequence[PolicyRule]) -> str:
        """Describes the rights that the writer lacks; empty if there are none."""
        have, unknown = self.policy.rules_for(self.user, self.namespace)
        missing = missing_rules(have, rules)
        if not missing:
            return ""
        lines = "\n".join(missing_texts(missing))
        # The original names the resource that is written, not that of the missing role.
        problems = [f'{Qualified(self.plural, GROUP)} "{role.name}" not found' for role in unknown]
        ending = f"; resolution errors: [{aggregate(problems)}]" if problems else ""
        return (
            f"user {go_quote(self.user.name)} (groups={go_quote_all(self.user.groups)}) is attempting to grant RBAC "
            f"permissions not currently held:\n{lines}{ending}"
        )
