"""A tenant's compiled admission configuration: policies with their bindings, and webhooks, in the order of use.

Each object is compiled once per revision; `Admission.of` combines the compiled objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from registry.admission.environment import Scope
from registry.admission.policies import MutatingPolicy, PolicyBinding, ValidatingPolicy, conditions_of
from registry.admission.rules import Match
from registry.emulation import emulated

_DEFAULT_TIMEOUT_SECONDS: Final = 10
_KNOWN_REVIEWS: Final = ("v1", "v1beta1")


class Webhook:
    """`identity` distinguishes webhooks of the same name in two configurations; `written` also distinguishes revisions
    of the configuration."""

    def __init__(self, configuration: Mapping[str, Any], position: int, webhook: Mapping[str, Any]) -> None:
        """`configuration` is the metadata of the webhook's configuration."""
        self.name: str = webhook.get("name") or ""
        self.identity: tuple[str, int] = (configuration["name"], position)
        self.written = (configuration.get("uid"), configuration.get("resourceVersion"), position)
        self.client: Mapping[str, Any] = webhook.get("clientConfig") or {}
        self.fails = (webhook.get("failurePolicy") or "Fail") != "Ignore"
        self.match = Match(webhook, rules="rules", empty_matches=False)
        self.conditions = conditions_of(webhook.get("matchConditions"), Scope())
        self.timeout_seconds: int = webhook.get("timeoutSeconds") or _DEFAULT_TIMEOUT_SECONDS
        self.side_effects: str = webhook.get("sideEffects") or ""
        self.reinvoked = webhook.get("reinvocationPolicy") == "IfNeeded"
        versions = webhook.get("admissionReviewVersions") or ()
        self.review_version = next((v for v in versions if v in _KNOWN_REVIEWS), "v1")

    def is_retryable(self, *, dry_run: bool) -> bool:
        """Whether a call whose response was lost may be repeated: the webhook has no side effects."""
        return self.side_effects == "None" or dry_run


def webhooks_of(configuration: Mapping[str, Any]) -> tuple[Webhook, ...]:
    metadata = configuration["metadata"]
    return tuple(Webhook(metadata, i, webhook) for i, webhook in enumerate(configuration.get("webhooks") or ()))


Object = Mapping[str, Any]

GROUP = "admissionregistration.k8s.io"
VALIDATING_POLICIES = "validatingadmissionpolicies"
VALIDATING_BINDINGS = "validatingadmissionpolicybindings"
MUTATING_POLICIES = "mutatingadmissionpolicies"
MUTATING_BINDINGS = "mutatingadmissionpolicybindings"
VALIDATING_WEBHOOKS = "validatingwebhookconfigurations"
MUTATING_WEBHOOKS = "mutatingwebhookconfigurations"
RESOURCES = (
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    MUTATING_WEBHOOKS,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
    VALIDATING_WEBHOOKS,
)
_POLICIES = frozenset((VALIDATING_POLICIES, VALIDATING_BINDINGS, MUTATING_POLICIES, MUTATING_BINDINGS))

# What the configuration of a tenant may take in memory, in bytes: half of it holds 100,000 texts in rules, or
# expressions of 270,000 letters.
TENANT_BYTES = 32 * 1024 * 1024
_VALUE_BYTES, _LETTER_BYTES = 150, 60
_EXPRESSIONS = frozenset({"expression", "messageExpression", "valueExpression"})

# The compiled form of one object of a resource.
Compiled = ValidatingPolicy | MutatingPolicy | PolicyBinding | tuple[Webhook, ...]


def compile_object(resource: str, obj: Object) -> Compiled:
    """`resource` is one of RESOURCES; the object was validated when it was written."""
    match resource:
        case "validatingadmissionpolicies":
            return ValidatingPolicy(obj)
        case "mutatingadmissionpolicies":
            return MutatingPolicy(obj)
        case "validatingwebhookconfigurations" | "mutatingwebhookconfigurations":
            return webhooks_of(obj)
        case _:
            return PolicyBinding(obj)


def memory_size(obj: Any) -> int:
    """The approximate size in memory of an object of the configuration once it is compiled, in bytes."""
    if isinstance(obj, dict):
        return _VALUE_BYTES + sum(
            _LETTER_BYTES * len(value) if key in _EXPRESSIONS and isinstance(value, str) else memory_size(value)
            for key, value in obj.items()
            if key not in ("metadata", "status")
        )
    if isinstance(obj, list):
        return _VALUE_BYTES + sum(map(memory_size, obj))
    return _VALUE_BYTES + (len(obj) if isinstance(obj, str) else 0)


@dataclass(frozen=True, slots=True)
class Admission:
    """Policies come with their bindings; a policy without one has no effect. `is_incomplete`: some are left out, as
    they exceed TENANT_BYTES, so that nothing can be admitted."""

    mutating_policies: tuple[tuple[MutatingPolicy, tuple[PolicyBinding, ...]], ...] = ()
    mutating_webhooks: tuple[Webhook, ...] = ()
    validating_policies: tuple[tuple[ValidatingPolicy, tuple[PolicyBinding, ...]], ...] = ()
    validating_webhooks: tuple[Webhook, ...] = ()
    is_incomplete: bool = False

    @staticmethod
    def of(objects: Mapping[str, Iterable[Compiled]], *, is_incomplete: bool = False) -> Admission | None:
        """Combines compiled objects by resource, each sorted by name; None where nothing is in force."""
        admission = Admission(
            _bound(objects, MUTATING_POLICIES, MUTATING_BINDINGS, MutatingPolicy),
            _hooks(objects, MUTATING_WEBHOOKS),
            _bound(objects, VALIDATING_POLICIES, VALIDATING_BINDINGS, ValidatingPolicy),
            _hooks(objects, VALIDATING_WEBHOOKS),
            is_incomplete,
        )
        return admission if admission.mutates or admission.validates or is_incomplete else None

    @property
    def mutates(self) -> bool:
        return bool(self.mutating_policies or self.mutating_webhooks)

    @property
    def calls_webhooks(self) -> bool:
        return bool(self.mutating_webhooks or self.validating_webhooks)

    @property
    def validates(self) -> bool:
        return bool(self.validating_policies or self.validating_webhooks)


def _bound(objects: Mapping[str, Iterable[Compiled]], policies: str, bindings: str, kind: type[Any]) -> Any:
    by_policy: dict[str, list[PolicyBinding]] = {}
    for binding in objects.get(bindings, ()):
        assert isinstance(binding, PolicyBinding)
        by_policy.setdefault(binding.policy, []).append(binding)
    return tuple(
        (policy, tuple(by_policy[policy.name]))
        for policy in objects.get(policies, ())
        if isinstance(policy, kind) and policy.name in by_policy
    )


def _hooks(objects: Mapping[str, Iterable[Compiled]], resource: str) -> tuple[Webhook, ...]:
    return tuple(hook for hooks in objects.get(resource, ()) if isinstance(hooks, tuple) for hook in hooks)


# Reviews, to which policies do not apply, and from 1.37 on webhooks neither (kubernetes
# pkg/kubeapiserver/admission/exclusion/resources.go; the gate ExcludeAdmissionWebhookVirtualResources).
_REVIEWS = frozenset(
    {
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    }
)
# The kind of this server that is created to read (docs/aggregates.md).
_QUERIES = ("query.registry", "queries")


def policies_apply(group: str, resource: str) -> bool:
    """Policies do not apply to policies and their bindings, or one that rejects everything could not be repaired.

    Nor do they apply to reviews, so that a policy cannot keep other servers from authenticating and authorizing.
    """
    if group == GROUP:
        return resource not in _POLICIES
    return (group, resource) not in _REVIEWS and (group, resource) != _QUERIES


def webhooks_apply(group: str, resource: str) -> bool:
    """Webhooks are not called for any object of the admission configuration, nor for queries; from 1.37 on, nor for
    reviews.
    """
    if group == GROUP:
        return resource not in RESOURCES
    if (group, resource) in _REVIEWS:
        return not emulated().is_1_37
    return (group, resource) != _QUERIES
