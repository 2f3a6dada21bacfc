"""Admission by webhooks: one review, one answer, the handling of failed calls, and their audit annotations.

Follows apiserver pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go.
"""

from __future__ import annotations

import asyncio
import logging
import math
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from itertools import islice
from typing import Any, Final

from registry.admission.activation import Failed, Inputs
from registry.admission.attributes import AdmissionAttributes, Object, Resource
from registry.admission.configuration import Webhook
from registry.admission.review import (
    BadPatch,
    InvalidAnswer,
    Verdict,
    check_patch_type,
    decode_patch,
    denial,
    request_body,
    verdict,
)
from registry.api.admission.inputs import AdmissionInputs
from registry.api.admission.metrics import CALLING_ERROR, INTERNAL_ERROR, NO_ERROR, WebhookCall
from registry.api.admission.reinvocation import MutationRounds, is_unchanged
from registry.api.errors import Qualified, StatusError, bad_request, deadline_exceeded, forbidden, internal_error
from registry.api.request import ResourceRequest
from registry.api.retry_memo import Answer, NoAnswer, RetryMemo, WebhookQuestion
from registry.api.strategies.base import Context
from registry.apply.errors import ApplyError
from registry.apply.patches import json_patch
from registry.codec.go_text import type_meta_error
from registry.codec.json_decode import decode_json
from registry.codec.json_encode import encode_json_text
from registry.flowcontrol.evaluation import Large, evaluate, large, noted_size
from registry.logs import RateLimited
from registry.schema.names import label_key
from registry.tasks import gather_all
from registry.webhooks.answers import run_aside
from registry.webhooks.endpoint import endpoint_of
from registry.webhooks.errors import CallFailed

_failures: Final = RateLimited(logging.getLogger(__name__))

WEBHOOKS: Final = "webhook.admission.k8s.io/"
FAILED_OPEN: Final = "failed-open."
# Annotations of one answer that are looked at: it may have hundreds of thousands.
_MAX_ANNOTATIONS: Final = 1000
# A longer patch is left out: the audit log keeps annotations of all requests in memory until they are answered.
_MAX_PATCH_BYTES: Final = 64 * 1024


class WebhookAdmission:
    """The webhooks of a tenant for one request."""

    def __init__(self, request: ResourceRequest, inputs: AdmissionInputs) -> None:
        self._request = request
        self._inputs = inputs

    async def mutate(self, hooks: Sequence[Webhook], attributes: AdmissionAttributes, rounds: MutationRounds) -> None:
        progress, shown = rounds.webhooks, attributes.object
        if rounds.is_reinvoke:
            await progress.require_if_changed(attributes.object)
        for index, hook in enumerate(hooks):
            if rounds.is_reinvoke and hook.identity not in progress.wanted:
                # Order only affects the cost: matching is skipped for webhooks that are not called.
                continue
            resource = await self.match(hook, attributes)
            if resource is None:
                continue
            audited = AuditedCall(self._request.context, f"round_{int(rounds.is_reinvoke)}_index_{index}", hook)
            try:
                await self._mutate_by(hook, resource, attributes, audited, is_reinvoke=rounds.is_reinvoke)
            finally:
                audited.report()
            if audited.is_mutated:
                progress.require()
                rounds.should_reinvoke = True
            if hook.reinvoked:
                progress.invoked.add(hook.identity)
        if attributes.object is not shown:
            assert attributes.object is not None
            attributes.object = self._inputs.struct_of_scale(attributes.object, attributes)
        progress.output = attributes.object

    async def _mutate_by(
        self,
        hook: Webhook,
        resource: Resource,
        attributes: AdmissionAttributes,
        audited: AuditedCall,
        *,
        is_reinvoke: bool,
    ) -> None:
        answer = await self.call_hook(hook, attributes, resource, mutating=True, is_reinvoke=is_reinvoke)
        if answer is None:
            audited.fail_open()
            return
        current = await self._inputs.at(attributes.object, resource, attributes)
        try:
            operations = await run_aside(len(answer.patch), lambda: decode_patch(answer))
            if operations is None:
                return
            if current is None:
                modifies = f'admission webhook "{hook.name}" attempted to modify the object'
                raise internal_error(f"{modifies}, which is not supported for this operation")
            check_patch_type(answer)
        except BadPatch as error:
            self._fail(hook, str(error))
            audited.fail_open()
            return
        patched = await self._apply_patch(current, operations, len(answer.patch))
        audited.is_mutated = not await is_unchanged(current, patched)
        attributes.object = await self._inputs.decode(patched, resource, attributes)
        audited.report_patch(answer.patch)

    async def validate(self, hooks: Sequence[Webhook], attributes: AdmissionAttributes) -> None:
        """Calls all webhooks at once; the first refusal in their order counts."""
        matching = []
        for hook in hooks:
            resource = await self.match(hook, attributes)
            if resource is not None:
                matching.append((hook, resource))
        if len(matching) == 1:
            await self._validate_by(0, *matching[0], attributes)
            return
        await gather_all(
            self._validate_by(i, hook, resource, attributes) for i, (hook, resource) in enumerate(matching)
        )

    async def _validate_by(
        self, index: int, hook: Webhook, resource: Resource, attributes: AdmissionAttributes
    ) -> None:
        if await self.call_hook(hook, attributes, resource, mutating=False) is None:
            self._request.context.annotate(f"{FAILED_OPEN}validating.{WEBHOOKS}round_0_index_{index}", hook.name)

    async def match(self, hook: Webhook, attributes: AdmissionAttributes) -> Resource | None:
        """Returns the resource at the version for the webhook's review; None if it is not to be called."""
        resource = await self._inputs.match(hook.match, attributes)
        if resource is None or not await self._conditions_hold(hook, attributes, resource):
            return None
        return resource

    async def _conditions_hold(self, hook: Webhook, attributes: AdmissionAttributes, resource: Resource) -> bool:
        if not hook.conditions.expressions:
            return True
        inputs = Inputs(
            await self._inputs.at(attributes.object, resource, attributes),
            await self._inputs.at(attributes.old_object, resource, attributes),
            attributes.variable(resource),
            None,  # the namespace, which conditions do not see
            decisions=self._inputs.decisions,
            rounds=self._inputs.rounds,
        )
        try:
            return await self._inputs.decide(lambda: hook.conditions.hold(inputs))
        except Failed as failed:
            if not hook.fails:
                return False
            own = attributes.resource
            raise forbidden(Qualified(own.resource, own.group), attributes.name, str(failed)) from failed

    async def call_hook(
        self,
        hook: Webhook,
        attributes: AdmissionAttributes,
        resource: Resource,
        *,
        mutating: bool,
        is_reinvoke: bool = False,
    ) -> Verdict | None:
        """Returns the webhook's verdict; None if it fails open. Raises a StatusError for a denial.

        The answer to the same review in an earlier attempt of this request is reused.
        """
        call = WebhookCall(attributes.operation, mutating=mutating)
        if attributes.dry_run and hook.side_effects not in ("None", "NoneOnDryRun"):
            call.refuse(INTERNAL_ERROR, 0)
            raise bad_request(f'admission webhook "{hook.name}" does not support dry run')
        obj = await self._inputs.at(attributes.object, resource, attributes)
        old = await self._inputs.at(attributes.old_object, resource, attributes)
        uid = str(uuid.uuid4())

        def review() -> tuple[bytes, WebhookQuestion]:
            body = request_body(hook.review_version, uid, attributes, resource, obj, old)
            return body, WebhookQuestion.of(hook, body, uid, is_reinvoke=is_reinvoke)

        # A tenant may have a thousand webhooks, with a review for each.
        async with large(Large.REVIEW, noted_size()):
            body, question = await evaluate(review, repeatable=True)
            memo = self._request.context.memo or RetryMemo()
            answer = memo.answers.get(question)
            if answer is None:
                answer = await self._call_once(hook, body, uid, call, dry_run=attributes.dry_run)
                memo.answers[question] = answer
        return self._verdict(hook, answer)

    async def _call_once(self, hook: Webhook, body: bytes, uid: str, call: WebhookCall, *, dry_run: bool) -> Answer:
        """Calls the webhook and records the outcome in metrics."""
        try:
            review = await self._call(
                hook, body, lambda data: verdict(hook.review_version, uid, data, mutating=call.mutating), dry_run
            )
        except CallFailed as error:
            what = "could not get REST client" if "root certificates" in str(error) else "failed to call webhook"
            _record_failure(call, hook, HTTPStatus.SERVICE_UNAVAILABLE)
            return NoAnswer(f"{what}: {error}")
        except InvalidAnswer as error:
            _record_failure(call, hook, HTTPStatus.SERVICE_UNAVAILABLE)
            return NoAnswer(f"received invalid webhook response: {error}")
        if review.allowed:
            call.allow()
        else:
            call.refuse(NO_ERROR, _denial(hook, review).code)
        return review

    def _verdict(self, hook: Webhook, answer: Answer) -> Verdict | None:
        if isinstance(answer, NoAnswer):
            self._fail(hook, answer.reason)
            return None
        self._request.context.warnings.extend(answer.warnings)
        for key, text in islice(answer.annotations.items(), _MAX_ANNOTATIONS):
            name = f"{hook.name}/{key}"
            if not label_key(name):  # others are dropped (apiserver pkg/admission/attributes.go)
                self._request.context.annotate(name, text)
        if not answer.allowed:
            raise _denial(hook, answer)
        return answer

    async def _call(self, hook: Webhook, body: bytes, decode: Callable[[bytes], Verdict], dry_run: bool) -> Verdict:
        client = self._request.backend.webhooks
        return await client.call(
            self._request.tenant.id,
            endpoint_of(hook.client, client.services),
            body,
            decode,
            timeout_seconds=self._timeout_seconds(hook),
            repeatable=hook.is_retryable(dry_run=dry_run),
        )

    def _timeout_seconds(self, hook: Webhook) -> int:
        """Returns the webhook's timeout, or what is left of the request's if that is less, rounded up.

        Raises a StatusError (504) if nothing is left: a tenant may have a thousand webhooks that hang for 30 s each.
        """
        deadline = self._request.context.deadline
        if deadline is None:
            return hook.timeout_seconds
        left = deadline - asyncio.get_running_loop().time()
        if left <= 0:
            raise deadline_exceeded()
        return min(hook.timeout_seconds, math.ceil(left))

    def _fail(self, hook: Webhook, reason: str) -> None:
        """Raises if a failed call refuses the request; otherwise logs it."""
        text = f'failed calling webhook "{hook.name}": {reason}'
        if hook.fails:
            raise internal_error(text)
        _failures.warn(self._request.context.tenant.name, "failing open: %s", text)

    async def _apply_patch(self, obj: Object, operations: Any, size: int) -> Object:
        """Returns the object with the patch of an answer, which has `size` bytes. Raises a StatusError (500)."""
        try:
            patched = await evaluate(partial(_apply_operations, obj, operations), size, repeatable=True)
        except ApplyError as error:
            raise internal_error(str(error)) from error
        if not isinstance(patched, dict):
            raise internal_error(type_meta_error(patched) or "Object 'Kind' is missing in 'null'")
        return patched


def _apply_operations(obj: Object, operations: Any) -> Any:
    return json_patch.apply_json_patch(obj, json_patch.decode(operations, strict=False))


def _denial(hook: Webhook, review: Verdict) -> StatusError:
    status = denial(hook.name, review.status)
    details = status.get("details")
    return StatusError(
        status["code"],
        status.get("reason", ""),
        status["message"],
        details,
        details.get("retryAfterSeconds") if details else None,
        metadata=status["metadata"],
        status=status["status"],
    )


def _record_failure(call: WebhookCall, hook: Webhook, code: int) -> None:
    """Records a call without a usable answer."""
    if hook.fails:
        call.refuse(CALLING_ERROR, code)
    else:
        call.fail_open(code)


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
