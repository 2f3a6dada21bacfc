"""What a request keeps when it is served again, since definitions, policies or the object have changed meanwhile.

It is evaluated as a whole against the current state. Only what would differ by chance, or has been done and cannot be
undone, stays: the object that it creates has the uid and the generated name that it had, and a webhook that has
answered is not asked the same question again. The question is the same where the whole review is (all but its own uid),
and where the configuration of the webhook has not been written since. So a change of a definition or a policy that does
not concern the request costs it a little time, and calls no webhook.
"""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

from registry.admission.review import Verdict
from registry.admission.webhooks import Webhook


class NoAnswer(NamedTuple):
    """A webhook has given no answer that can be used."""

    reason: str


Answer = Verdict | NoAnswer


class Question(NamedTuple):
    """`again` is a question of the second round of mutation: that is a call of its own, even of the same object."""

    written: tuple[str | None, str | None, int]
    again: bool
    digest: bytes

    @staticmethod
    def of(webhook: Webhook, body: bytes, uid: str, *, again: bool) -> Question:
        """`body` is the review, and `uid` the one that only this call has."""
        return Question(webhook.written, again, sha256(body.replace(uid.encode(), b"", 1)).digest())


class RetryMemo:
    """Of one request on one object."""

    __slots__ = ("answers", "name", "uid")

    def __init__(self) -> None:
        self.answers: dict[Question, Answer] = {}
        self.uid = ""
        self.name = ""
