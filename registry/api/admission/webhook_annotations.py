"""The audit annotations of calls of mutating webhooks.

Follows apiserver pkg/admission/plugin/webhook/mutating/dispatcher.go (webhookAnnotator).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from registry.admission.webhooks import Webhook
from registry.api.strategies.base import Context
from registry.codec.json_decode import decode_json
from registry.codec.json_encode import encode_json_text

WEBHOOKS: Final = "webhook.admission.k8s.io/"
FAILED_OPEN: Final = "failed-open."
# A longer patch is left out: the audit log keeps annotations of all requests in memory until they are answered.
_MAX_PATCH_BYTES: Final = 64 * 1024


@dataclass(slots=True)
class AuditedCall:
    """One call; `place` is `round_0_index_2`: the round of mutation, and the position among the tenant's webhooks."""

    context: Context
    place: str
    hook: Webhook
    is_mutated: bool = False

    def report(self) -> None:
        """Annotates that the webhook was called, and whether it changed the object."""
        self._annotate("mutation.", {"mutated": self.is_mutated})

    def fail_open(self) -> None:
        self.context.annotate(f"{FAILED_OPEN}mutation.{WEBHOOKS}{self.place}", self.hook.name)

    def report_patch(self, patch: bytes) -> None:
        """Annotates the patch, which is logged from the level Request on (registry/audit/trail.py)."""
        if self.context.annotations is None:
            return
        shown = {"patch": decode_json(patch).value} if len(patch) <= _MAX_PATCH_BYTES else {}
        self._annotate("patch.", {**shown, "patchType": "JSONPatch"})

    def _annotate(self, kind: str, members: dict[str, Any]) -> None:
        if self.context.annotations is not None:
            text = encode_json_text({"configuration": self.hook.identity[0], "webhook": self.hook.name, **members})
            self.context.annotate(f"{kind}{WEBHOOKS}{self.place}", text)
