"""Webhook calls: requests, retries, and error texts.

If a repetition is safe (conversions change nothing), a call is retried: once if a kept connection ended before any
answer, since it may just have been closed; and when a busy webhook (429, 5xx) says in `Retry-After` when to retry, as
client-go does.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from registry.codec.go_text import go_quote
from registry.codec.json_decode import decode_json
from registry.codec.model import DecodeError
from registry.webhooks.answers import shorten
from registry.webhooks.connection import Lost, Origin, Unreachable
from registry.webhooks.egress import EgressPolicy
from registry.webhooks.endpoint import Endpoint, bad_bundle
from registry.webhooks.errors import CallFailed, NotReached
from registry.webhooks.https import HttpsAnswer, HttpsClient, HttpsRequest, Limits
from registry.webhooks.services import Services

logger = logging.getLogger(__name__)

T = TypeVar("T")

# kube-apiserver's timeout of a conversion call, sent to the webhook as `?timeout=30s`.
TIMEOUT_SECONDS: Final = 30
# How often a webhook may ask to retry later; client-go's number.
_MOST_RETRIES: Final = 10
# The interval of warnings about unknown services.
_WARN_SECONDS: Final = 60.0
_HEADERS: Final = {"Content-Type": "application/json", "Accept": "application/json, */*"}

_REFUSALS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
# How much of a refusal's own text an error shows.
_SHOWN_BYTES = 2048
# A longer answer is not decoded: it is no Status that anybody could read, and this runs on the event loop.
_STATUS_BYTES = 64 * 1024


class WebhookClient:
    """Calls webhooks, within the limits of HttpsClient and each call's timeout."""

    def __init__(
        self,
        policy: EgressPolicy,
        services: Services,
        *,
        timeout: float = TIMEOUT_SECONDS,
        limits: Limits | None = None,
    ) -> None:
        self.services = services
        self.https = HttpsClient(policy, limits or Limits())
        self._timeout = timeout
        self._next_warning = 0.0

    def _warn_of_service(self, endpoint: Endpoint) -> None:
        """Clients get kube-apiserver's message; this tells the operator what to do, at intervals."""
        now = asyncio.get_running_loop().time()
        if now >= self._next_warning:
            self._next_warning = now + _WARN_SECONDS
            service = go_quote(endpoint.host.removesuffix(".svc"))
            logger.warning(
                "webhooks name services without a known address, such as %s: give it with --webhook-services or "
                "--webhook-service-template",
                service,
            )

    async def aclose(self) -> None:
        await self.https.aclose()

    async def call(
        self,
        tenant: int,
        endpoint: Endpoint,
        body: bytes,
        decode: Callable[[bytes], T],
        *,
        timeout_seconds: int = 0,
        repeatable: bool = True,
    ) -> T:
        """Calls for a tenant. Returns what `decode` makes of the body of a successful answer. Raises CallFailed with
        the reason in the words of Go's client, and what `decode` raises, which must be pure: it may run in a thread.

        `timeout_seconds` is sent to the webhook; 0 means that of a conversion. `repeatable` allows retries.
        """
        seconds = timeout_seconds or TIMEOUT_SECONDS
        where = f'Post "{endpoint.url}?timeout={seconds}s"'
        try:
            until = asyncio.get_running_loop().time() + (timeout_seconds or self._timeout)
            async with asyncio.timeout_at(until):
                return await self._call_endpoint(tenant, endpoint, body, decode, seconds, repeatable, until)
        except TimeoutError as error:
            raise CallFailed(f"{where}: context deadline exceeded") from error
        except Lost as error:
            raise CallFailed(f"{where}: {error}") from error
        except Unreachable as error:
            raise NotReached(f"{where}: {error}") from error

    async def _call_endpoint(
        self,
        tenant: int,
        endpoint: Endpoint,
        body: bytes,
        decode: Callable[[bytes], T],
        seconds: int,
        repeatable: bool,
        until: float,
    ) -> T:
        if endpoint.service and endpoint.place is None:
            self._warn_of_service(endpoint)
            raise Unreachable(f"service {go_quote(endpoint.service)} not found")
        origin, target = endpoint.origin(), f"{endpoint.path}?timeout={seconds}s"
        retries = _MOST_RETRIES if repeatable else 0
        while True:
            try:
                return await self._post(
                    tenant, origin, target, body, lambda answer: _result(answer, decode), repeatable
                )
            except _WebhookRefused as refused:
                pause = refused.seconds_to_wait()
                if not retries or pause is None or asyncio.get_running_loop().time() + pause >= until:
                    raise CallFailed(str(refused)) from refused
            retries -= 1
            await asyncio.sleep(pause)

    async def _post(
        self, tenant: int, origin: Origin, target: str, body: bytes, read: Callable[[HttpsAnswer], T], repeatable: bool
    ) -> T:
        request = HttpsRequest("POST", target, _HEADERS, body)
        send = partial(self.https.exchange, tenant, origin, request, read, repeatable=repeatable)
        try:
            try:
                return await send()
            except Lost as error:
                if not (repeatable and error.may_repeat):
                    raise
            return await send(new=True)
        except ssl.SSLError as error:
            # A definition's bundle is validated when it is written; that of an admission webhook is not.
            raise bad_bundle() from error


class _WebhookRefused(Exception):
    """An unsuccessful answer; the text is that of the error."""

    def __init__(self, answer: HttpsAnswer) -> None:
        super().__init__(refusal_text(answer))
        self._answer = answer

    def seconds_to_wait(self) -> int | None:
        """Returns how long a busy webhook asks to wait; None if it does not say."""
        busy = self._answer.status == 429 or self._answer.status >= 500
        text = self._answer.retry_after
        return int(text) if busy and text.isascii() and text.isdigit() and len(text) < 10 else None


def _result(answer: HttpsAnswer, decode: Callable[[bytes], T]) -> T:
    if not 200 <= answer.status <= 206:
        raise _WebhookRefused(answer)
    if not answer.data:
        raise CallFailed(
            f"0-length response with status code: {answer.status} and content type: {answer.content_type[:200]}"
        )
    return decode(answer.data)


def refusal_text(answer: HttpsAnswer) -> str:
    """Returns the message of a Status; of anything else Go's client quotes plain text."""
    own = _status_message(answer)
    if own is not None:
        return shorten(own)
    known = _REFUSALS.get(answer.status)
    if known is not None:
        return known
    text = "unknown"
    if not answer.content_type or answer.content_type.strip().lower().startswith("text/"):
        text = answer.data[:_SHOWN_BYTES].decode("utf-8", "replace").strip()
    if answer.status == 406 and text in ("", "unknown"):
        return "the server was unable to respond with a content type that the client supports"
    if answer.status in (403, 406, 415):
        return text
    if answer.status >= 500:
        return f"an error on the server ({go_quote(text)}) has prevented the request from succeeding"
    return f"the server responded with the status code {answer.status} but did not return more information"


def _status_message(answer: HttpsAnswer) -> str | None:
    """Returns the message of `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": ...}`."""
    if len(answer.data) > _STATUS_BYTES:
        return None
    try:
        status = decode_json(answer.data).value
    except DecodeError:
        return None
    if not isinstance(status, dict) or (status.get("apiVersion"), status.get("kind")) != ("v1", "Status"):
        return None
    message = status.get("message", "")
    return message if status.get("status") == "Failure" and isinstance(message, str) else None
