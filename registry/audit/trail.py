"""The audit trail of one request: its events, and the parts of its bodies that they include.

Middlewares report the user (`identify`), the impersonated user, and the authorizer's decision; bodies pass through
`receiving` and `sending`. At the level Metadata bodies are not recorded. Those of secrets, and of resources that return
tokens, are never recorded, whatever the policy; header fields are never recorded either.

Follows apiserver pkg/audit/request.go and pkg/endpoints/filters/audit.go.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.types import Message, Receive, Scope, Send

from registry.audit.policy import LEVEL_NAMES, AuditDecision, AuditLevel, AuditPolicy
from registry.audit.sinks import Sinks, line_of
from registry.authentication.user import User
from registry.authorization.attributes import Attributes
from registry.codec.cbor import decode_cbor
from registry.codec.json_decode import decode_json
from registry.codec.model import DecodeError, TooManyValues
from registry.codec.protobuf.envelope import decode_object
from registry.codec.yaml_decode import decode_yaml
from registry.flowcontrol.evaluation import shared_aside
from registry.flowcontrol.fair_queue import TooManyRequests
from registry.schema.formats.net import lenient_address

TENANT: Final = "tenancy.registry/tenant"
# Longer bodies are omitted: an event must not be larger than the request that it records.
BODY_LIMIT_BYTES: Final = 1 << 20
# The resources and subresources whose bodies contain secrets or tokens.
_SECRET: Final = frozenset({("", "secrets"), ("authentication.k8s.io", "tokenreviews")})
_PATCHES: Final = "patch.webhook.admission.k8s.io/"
_TOO_LONG: Final = "audit.registry/omitted"
_MAX_AGENT: Final = 1024
# Longer names are refused, and left out of the reference to the object.
_MAX_NAME: Final = 1024
# The addresses in X-Forwarded-For that are recorded, more than there are proxies in a row.
_MAX_CLAIMED: Final = 20
_STATUS: Final = (b'{"kind":"Status"', b"k8s\x00\n\x0c\n\x02v1\x12\x06Status")
# What an event without bodies counts for until it waits to be written.
_EVENT_BYTES: Final = 1024
# Longer bodies are decoded beside the event loop.
_LONG_BYTES: Final = 16 * 1024


class Trail:
    """`decision` is None until the user is known."""

    def __init__(
        self, policy: AuditPolicy, sinks: Sinks, scope: Scope, version: str, attributes: Attributes, audit_id: str
    ) -> None:
        self._policy = policy
        self._sinks = sinks
        # The tenant that the request counts for, whose share of the room its events take; and what it has of that until
        # they wait to be written.
        self._owner = ""
        self._room_bytes = 0
        self._scope = scope
        self._version = version
        self._attributes = attributes
        self._audit_id = audit_id
        self._received = _now()
        self._user: User | None = None
        self._impersonated: User | None = None
        self._constraint = ""
        self._annotations: dict[str, str] = {}
        # What the object in the body is called (Context.refer_to).
        self.reference: dict[str, str] = {}
        self._decision: AuditDecision | None = None
        self._level = AuditLevel.NONE
        self._request = _CapturedBody()
        self._answer = _CapturedBody()
        self._code = 0
        self._is_stream = attributes.verb == "watch"

    def counts_for(self, tenant: str) -> None:
        """Sets the tenant that the request counts for, not the one that it names: "" if that is not known yet."""
        self._owner = tenant

    async def identify(self, user: User, attributes: Attributes, tenant: str) -> None:
        """Records the user, the request and the tenant that it appears to address, before it is authorized."""
        self._user, self._attributes = user, attributes
        self._annotations[TENANT] = tenant
        self._decide()
        await self._emit("RequestReceived")

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of later events, which callers may add to."""
        return self._annotations

    def of_tenant(self, name: str) -> None:
        self._annotations[TENANT] = name

    def impersonates(self, user: User, constraint: str) -> None:
        self._impersonated, self._constraint = user, constraint

    def record_decision(self, allowed: bool, reason: str) -> None:
        self._annotations["authorization.k8s.io/decision"] = "allow" if allowed else "forbid"
        self._annotations["authorization.k8s.io/reason"] = reason

    def _decide(self) -> None:
        decision = self._policy.decide(self._user, self._attributes)
        attributes = self._attributes
        secret = (attributes.group, attributes.resource) in _SECRET or attributes.subresource == "token"
        self._decision = decision
        self._level = min(decision.level, AuditLevel.METADATA) if secret else decision.level

    def receiving(self, receive: Receive) -> Receive:
        async def receive_audited() -> Message:
            message = await receive()
            if self._level >= AuditLevel.REQUEST and message["type"] == "http.request":
                self._capture(self._request, message.get("body", b""))
            return message

        return receive_audited

    def sending(self, send: Send) -> Send:
        async def send_audited(message: Message) -> None:
            if message["type"] == "http.response.start":
                await self._wait_for_room()
                self._code = message["status"]
                self._answer.media_type = _header(message["headers"], b"content-type")
                self._answer.is_packed = bool(_header(message["headers"], b"content-encoding"))
                if self._is_stream and self._decision is not None:
                    await self._emit("ResponseStarted")
            elif self._keeps_answer:
                self._capture(self._answer, message.get("body", b""))
            await send(message)

        return send_audited

    async def end(self) -> None:
        """Records the end of the response; without a user, a failed authentication."""
        stage = "ResponseComplete"
        if self._decision is None:
            self._decide()
            stage = "ResponseStarted"
        await self._end_with(stage)

    async def panic(self) -> None:
        if self._decision is None:
            self._decide()
        self._code = self._code or 500
        await self._end_with("Panic")

    async def _end_with(self, stage: str) -> None:
        try:
            await self._emit(stage)
        finally:
            self._sinks.room.give_back(self._owner, self._room_bytes)
            self._room_bytes = 0

    # -- the share of what waits to be written
    async def _wait_for_room(self) -> None:
        """Waits, before the request is answered, until the tenant has room for another event. One whose user is not
        known has that of all such."""
        decision = self._decision or self._policy.decide(self._user, self._attributes)
        if decision.level is not AuditLevel.NONE:
            await self._sinks.room.take(self._owner, _EVENT_BYTES)
            self._room_bytes += _EVENT_BYTES

    def _capture(self, body: _CapturedBody, piece: bytes | memoryview) -> None:
        """Keeps a part of a body, unless the tenant has no room for it."""
        if not body.is_cut and piece:
            if self._sinks.room.try_take(self._owner, len(piece)):
                self._room_bytes += len(piece)
            else:
                body.cut()
        body.add(piece)

    @property
    def _is_failure(self) -> bool:
        return self._code >= 400

    @property
    def _keeps_answer(self) -> bool:
        """Whether the answer is needed: for its body, or because it may be a Status."""
        whole = self._level >= AuditLevel.REQUEST_RESPONSE and not self._is_stream
        return whole or self._is_failure or self._attributes.verb == "delete"

    async def _emit(self, stage: str) -> None:
        assert self._decision is not None, "the policy has been evaluated"
        if self._level is AuditLevel.NONE or stage in self._decision.omit_stages:
            return
        line = b""
        if max(self._request.length, self._answer.length) > _LONG_BYTES:
            try:
                line = await shared_aside(lambda: line_of(self._event(stage)))
            except TooManyRequests:
                self._request.cut()
                self._answer.cut()
        self._sinks.put(self._owner, line or line_of(self._event(stage)))

    def _event(self, stage: str) -> dict[str, Any]:
        scope = self._scope
        query = scope["query_string"].decode("latin-1")
        event: dict[str, Any] = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": LEVEL_NAMES[self._level],
            "auditID": self._audit_id,
            "stage": stage,
            "requestURI": (scope.get("raw_path") or scope["path"].encode()).decode("latin-1") + (query and f"?{query}"),
            "verb": self._attributes.verb,
            "user": self._user.info() if self._user else {},
        }
        if self._impersonated is not None:
            event["impersonatedUser"] = self._impersonated.info() if self._impersonated else {}
        if self._constraint:
            event["authenticationMetadata"] = {"impersonationConstraint": self._constraint}
        event["sourceIPs"] = _source_ips(scope)
        agent = _header(scope["headers"], b"user-agent")
        if agent:
            event["userAgent"] = agent if len(agent) <= _MAX_AGENT else f"{agent[:_MAX_AGENT]}...TRUNCATED"
        if self._attributes.is_resource:
            event["objectRef"] = self._object()
        if stage != "RequestReceived":
            event["responseStatus"] = self._status()
            event |= self._bodies()
        event["requestReceivedTimestamp"] = _format_time(self._received)
        event["stageTimestamp"] = _format_time(self._received if stage == "RequestReceived" else _now())
        if annotations := self._visible_annotations():
            event["annotations"] = annotations
        return event

    def _visible_annotations(self) -> dict[str, str]:
        """Returns the annotations of an event; those that quote a body only from the level Request on."""
        quotes = self._level >= AuditLevel.REQUEST
        return {k: text for k, text in self._annotations.items() if quotes or not k.startswith(_PATCHES)}

    def _object(self) -> dict[str, str]:
        """Returns the reference to the object, completed from the metadata of the object that was sent."""
        a = self._attributes
        reference = {
            "resource": a.resource,
            "namespace": a.namespace,
            "name": a.name,
            "apiGroup": a.group,
            "apiVersion": self._version,
            "subresource": a.subresource,
        }
        for name, text in self.reference.items():
            if not reference.get(name) and len(text) <= _MAX_NAME:
                reference[name] = text
        return {name: text for name, text in reference.items() if text}

    def _status(self) -> dict[str, Any]:
        status: dict[str, Any] = {"metadata": {}}
        if self._is_failure or self._answer.starts_with(_STATUS):
            answer = self._answer.decode()
            if isinstance(answer, dict) and answer.get("kind") == "Status":
                status |= {k: answer[k] for k in ("status", "message", "reason", "details") if k in answer}
        return {**status, "code": self._code}

    def _bodies(self) -> dict[str, Any]:
        bodies: dict[str, Any] = {}
        assert self._decision is not None, "the policy has been evaluated"
        media_type = _header(self._scope["headers"], b"content-type")
        self._request.media_type = media_type or "application/json"
        for name, body, level in (
            ("requestObject", self._request, AuditLevel.REQUEST),
            ("responseObject", self._answer, AuditLevel.REQUEST_RESPONSE),
        ):
            if self._level < level:
                continue
            value = body.decode()
            if body.is_cut:
                why = f"longer than {BODY_LIMIT_BYTES} bytes, has too many values, or too much waits to be written"
                self._annotations[_TOO_LONG] = f"{name} is {why}"
            if value is not None:
                bodies[name] = _without_managed_fields(value) if self._decision.omit_managed_fields else value
        return bodies


class _CapturedBody:
    """A passing body, recorded up to the limit."""

    __slots__ = ("_pieces", "is_cut", "is_packed", "length", "media_type")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.length = 0
        self.is_cut = False
        self.is_packed = False
        self.media_type = ""

    def add(self, piece: bytes | memoryview) -> None:
        self.length += len(piece)
        if self.length > BODY_LIMIT_BYTES or self.is_packed:
            self.cut()
        elif piece and not self.is_cut:
            self._pieces.append(bytes(piece))  # a list is sent as views of longer texts

    def cut(self) -> None:
        """Drops what is recorded, and records nothing more."""
        self.is_cut = True
        self._pieces.clear()

    def starts_with(self, texts: tuple[bytes, ...]) -> bool:
        return bool(self._pieces) and self._pieces[0].startswith(texts)

    def decode(self) -> Any:
        """The decoded body; None if it is in no encoding of objects, or incomplete."""
        data = b"".join(self._pieces)
        if self.is_cut or not data:
            return None
        try:
            for name, decode in _DECODERS.items():
                if name in self.media_type:
                    return decode(data)
            return None
        except DecodeError:
            return None
        except TooManyValues:
            self.is_cut = True
            return None


# By what names the encoding in a media type.
_DECODERS: Final[Mapping[str, Callable[[bytes], Any]]] = {
    "json": lambda data: decode_json(data).value,
    "yaml": lambda data: decode_yaml(data).value,
    "protobuf": decode_object,
    "cbor": lambda data: decode_cbor(data).value,
}


def _without_managed_fields(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    copy = dict(value)
    metadata = copy.get("metadata")
    if isinstance(metadata, Mapping) and "managedFields" in metadata:
        copy["metadata"] = {k: v for k, v in metadata.items() if k != "managedFields"}
    items = copy.get("items")
    if isinstance(items, list):
        copy["items"] = [_without_managed_fields(item) for item in items]
    return copy


def _source_ips(scope: Scope) -> list[str]:
    """Returns the addresses that the client claims, and last its own, the only one that is certain.

    Follows apimachinery pkg/util/net/http.go (SourceIPs).
    """
    headers, client = scope["headers"], scope.get("client")
    texts = [text.strip() for text in _header(headers, b"x-forwarded-for").split(",", _MAX_CLAIMED)[:_MAX_CLAIMED]]
    claimed = [str(address) for address in map(lenient_address, texts) if address is not None]
    real = lenient_address(_header(headers, b"x-real-ip"))
    if real is not None and str(real) not in claimed:
        claimed.append(str(real))
    return [*claimed, client[0]] if client and client[0] not in claimed[-1:] else claimed


def _header(headers: Any, wanted: bytes) -> str:
    for name, value in headers:
        if name == wanted:
            text: str = value.decode("latin-1")
            return text
    return ""


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _format_time(at: datetime.datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
