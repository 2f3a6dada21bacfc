"""Compiled webhooks: which client to call, for which requests, with which timeout and failure policy.

Follows apiserver pkg/admission/plugin/webhook/{accessors,generic/webhook}.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from registry.admission.environment import Scope
from registry.admission.policies import conditions_of
from registry.admission.rules import Match

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
