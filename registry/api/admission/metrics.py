"""Metrics of admission, under kube-apiserver's names.

Its labels `name`, `policy` and `policy_binding` are omitted: tenants choose these names, so the number of series would
be unbounded, and every reader of metrics would learn about tenants. Codes without a name in HTTP count as 600.

Follows apiserver pkg/admission/metrics/metrics.go and pkg/admission/plugin/policy/validating/metrics/metrics.go.
"""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

DURATIONS: Final = Histogram(
    "apiserver_admission_webhook_admission_duration_seconds",
    "Time that admission webhooks took to answer.",
    ["type", "operation", "rejected"],
    buckets=(0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0),
)
REQUESTS: Final = Counter(
    "apiserver_admission_webhook_request",
    "Requests that admission webhooks were called for.",
    ["type", "operation", "code", "rejected"],
)
# Both are counters, but the client library would append `_total` to a counter's name.
REJECTIONS: Final = Gauge(
    "apiserver_admission_webhook_rejection_count",
    "Requests that were refused by a webhook (no_error), or because it could not be called.",
    ["type", "operation", "error_type", "rejection_code"],
)
FAIL_OPEN: Final = Gauge(
    "apiserver_admission_webhook_fail_open_count", "Calls of webhooks that failed and refused nothing.", ["type"]
)
CHECKS: Final = Counter(
    "apiserver_validating_admission_policy_check",
    "Expressions of validating policies that did not hold, by what their bindings made of it.",
    ["error_type", "enforcement_action"],
)

NO_ERROR: Final = "no_error"
CALLING_ERROR: Final = "calling_webhook_error"
INTERNAL_ERROR: Final = "apiserver_internal_error"

_CODES: Final = frozenset(status.value for status in HTTPStatus)


class WebhookCall:
    """A call of a webhook, timed from its construction. Its outcome is recorded once."""

    def __init__(self, operation: str, *, mutating: bool) -> None:
        self.mutating = mutating
        self.type = "admit" if mutating else "validating"
        self._operation = operation
        self._started = time.perf_counter()

    def allow(self) -> None:
        self._observe(200, rejected=False)

    def refuse(self, error_type: str, code: int) -> None:
        """`code` is the webhook's, or describes the failure of the call; 0 if no call was made."""
        REJECTIONS.labels(self.type, self._operation, error_type, _bounded_code(code)).inc()
        self._observe(code, rejected=True)

    def fail_open(self, code: int) -> None:
        FAIL_OPEN.labels(self.type).inc()
        self._observe(code, rejected=False)

    def _observe(self, code: int, *, rejected: bool) -> None:
        label = "true" if rejected else "false"
        REQUESTS.labels(self.type, self._operation, _bounded_code(code), label).inc()
        DURATIONS.labels(self.type, self._operation, label).observe(time.perf_counter() - self._started)


def _bounded_code(code: int) -> str:
    return str(code if code == 0 or code in _CODES else 600)
