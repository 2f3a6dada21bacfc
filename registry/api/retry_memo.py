"""State that a request keeps when it is retried, as definitions, policies or the object have changed meanwhile.

The request is re-evaluated as a whole. Only what would differ by chance, or has been done and cannot be undone, is
kept: a created object keeps its uid and its generated name, and a webhook is not called twice for the same review. A
question is the same if the whole review is (except its own uid), and the configuration of the webhook has not been
written since. So a change of a definition or a policy that does not concern the request costs it a little time, and
calls no webhook.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from registry.admission.configuration import Webhook
from registry.admission.review import Verdict


class NoAnswer(NamedTuple):
    """A webhook has returned no usable answer."""

    reason: str


Answer = Verdict | NoAnswer


class WebhookQuestion(NamedTuple):
    """`is_reinvoke` marks the second round of mutation, which is a separate call even for the same object."""

    written: tuple[str | None, str | None, int]
    is_reinvoke: bool
    digest: bytes

    @staticmethod
    def of(webhook: Webhook, body: bytes, uid: str, *, is_reinvoke: bool) -> WebhookQuestion:
        """Returns the question of a call; `body` is the review, and `uid` its uid, unique for each call."""
        return WebhookQuestion(webhook.written, is_reinvoke, sha256(body.replace(uid.encode(), b"", 1)).digest())


@dataclass(slots=True, eq=False)
class RetryMemo:
    """The memo of one request on one object. `has_prefix`: the object to create has a generateName."""

    answers: dict[WebhookQuestion, Answer] = field(default_factory=dict)
    uid: str = ""
    name: str = ""
    has_prefix: bool = False
