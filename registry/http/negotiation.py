"""Content negotiation: from Accept, Content-Type and `pretty` to the encodings of the body and of the answer.

Pure: takes texts, returns a Representation or an error with its text. The rules of which transformation goes with which
encoding are kube-apiserver's; custom resources are served in protobuf as PartialObjectMetadata only.

Follows apiserver pkg/endpoints/handlers/negotiation/negotiate.go, pkg/endpoints/handlers/rest.go and patch.go, and the
header syntax of munnerz/goautoneg and Go's mime.ParseMediaType.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from registry.api.verbs.patch import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from registry.emulation import serves_cbor, set_cbor
from registry.http.projection import parse_keep
from registry.query.fields import Path

JSON: Final = "json"
YAML: Final = "yaml"
PROTOBUF: Final = "protobuf"
CBOR: Final = "cbor"

MEDIA_TYPES: Final = {
    JSON: "application/json",
    YAML: "application/yaml",
    PROTOBUF: "application/vnd.kubernetes.protobuf",
    CBOR: "application/cbor",
}
# The media type of a watch in CBOR: one item after the other.
CBOR_SEQUENCE: Final = "application/cbor-seq"
_ENCODINGS: Final = {media_type: encoding for encoding, media_type in MEDIA_TYPES.items()}

APPLY_PATCH: Final = "application/apply-patch+yaml"
APPLY_PATCH_CBOR: Final = "application/apply-patch+cbor"

TABLE: Final = "Table"
PARTIAL: Final = "PartialObjectMetadata"
PARTIAL_LIST: Final = "PartialObjectMetadataList"

_AGGREGATED_LIST: Final = "APIGroupDiscoveryList"


def serve_cbor(served: bool) -> None:
    """Sets whether this process serves CBOR. Called once, before anything is served (`--cbor`)."""
    set_cbor(served)
    _known.cache_clear()


def _types() -> Mapping[str, str]:
    return MEDIA_TYPES if serves_cbor() else {e: t for e, t in MEDIA_TYPES.items() if e != CBOR}


def _all_types(*, cbor: bool = True) -> str:
    return ", ".join(t for e, t in _types().items() if cbor or e != CBOR)


def _stream_types() -> str:
    streams = {e: f"{t};stream=watch" for e, t in _types().items() if e != YAML}
    if CBOR in streams:
        streams[CBOR] = CBOR_SEQUENCE
    return ", ".join(streams.values())


class NotAcceptable(ValueError):
    """406, reason NotAcceptable; `str()` is the message."""


class UnsupportedMediaType(ValueError):
    """415, reason UnsupportedMediaType; `str()` is the message."""


@dataclass(frozen=True, slots=True)
class Representation:
    """The requested form of an answer.

    `transform` is empty, Table, PartialObjectMetadata or its list, of meta.k8s.io/`version`; for discovery
    APIGroupDiscoveryList of apidiscovery.k8s.io. `pretty` requests indented JSON, `drops_owners` objects without
    metadata.managedFields (KEP-5958), `keeps` only these fields (projection.py).
    """

    encoding: str = JSON
    transform: str = ""
    version: str = ""
    pretty: bool = False
    drops_owners: bool = False
    keeps: tuple[Path, ...] = ()

    @property
    def media_type(self) -> str:
        return MEDIA_TYPES[self.encoding]


# --- answers


def negotiate(
    accept: str, *, builtin: bool = False, protobuf: bool = False, collection: bool = False, table: bool = True
) -> Representation:
    """Returns the representation of an object or a list. An empty header means JSON.

    `protobuf` is for kinds that have a message; without `table` there is no Table of them. Raises NotAcceptable, worded
    for built-in kinds if `builtin`, and for the route of their lists and watches if `collection`.
    """
    offer = _UNTABLED if not table else _MESSAGE if protobuf else _RESOURCE
    representation = _represent(accept, offer)
    if representation is None or (builtin and not _reaches_route(accept, collection=collection)):
        raise _not_acceptable(accept, builtin, collection=collection)
    return representation


def require_stream(representation: Representation) -> None:
    """Raises NotAcceptable unless the representation of a list can be that of a watch: YAML cannot be streamed.

    As in kube-apiserver, PartialObjectMetadataList is accepted, although no event has this form (watch_stream.py).
    """
    if representation.encoding == YAML:
        raise NotAcceptable(f"only the following media types are accepted: {_stream_types()}")


def negotiate_plain(accept: str) -> Representation:
    """Returns the representation of a document that is neither an object nor a list: a history, usage figures."""
    representation = _represent(accept, _PLAIN)
    if representation is None:
        raise NotAcceptable(f"only the following media types are accepted: {MEDIA_TYPES[JSON]}, {MEDIA_TYPES[YAML]}")
    return representation


def negotiate_discovery(
    accept: str, *, aggregated: bool, builtin_resources: bool = False, fixed: bool = False
) -> Representation:
    """Returns the representation of a discovery document; if it can be `aggregated` (/api and /apis), of version v2.

    A clause for the aggregated form comes before all others (apiserver pkg/endpoints/discovery/aggregated).

    `fixed` says that kube-apiserver has a route of its own for it: /api, and the resources of built-in versions.

    Only the lists of built-in resources are available in CBOR, which client-go's discovery client cannot read:
    kube-apiserver encodes the other documents with codecs that have no CBOR.
    """
    representation = _represent(accept, _AGGREGATED) if aggregated else None
    if representation is None:
        representation = _represent(accept, _UNTRANSFORMED if builtin_resources else _WITHOUT_CBOR)
    if representation is None or (fixed and not _reaches_route(accept, cbor=builtin_resources)):
        raise _not_acceptable(accept, builtin=fixed, cbor=builtin_resources)
    return representation


def require_type(accept: str, media_type: str) -> None:
    """Raises NotAcceptable unless the header accepts the only form of a document, by its name or as `*/*`."""
    if accept and _named(accept).isdisjoint((media_type, "*/*")):
        raise NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {media_type}")


def negotiate_types(accept: str, media_types: Sequence[str]) -> str | None:
    """Returns the first of `media_types` that the best clause matches; None if no clause matches any.

    Ignores parameters of clauses. Follows kube-openapi pkg/handler3/handler.go.
    """
    for clause in _clauses(accept or "*/*"):
        for media_type in media_types:
            main, _, sub = media_type.partition("/")
            if clause.type in (main, "*") and clause.subtype in (sub, "*"):
                return media_type
    return None


def _reaches_route(accept: str, *, collection: bool = False, cbor: bool = True) -> bool:
    """Whether a fixed path of kube-apiserver accepts the header: it knows `*/*`, not `application/*` or `*`."""
    plain = (*_all_types(cbor=cbor).split(", "), "*/*", *([CBOR_SEQUENCE] if collection and serves_cbor() else []))
    return not accept or not _named(accept).isdisjoint(plain)


def _named(accept: str) -> frozenset[str]:
    """The media types in a header as go-restful reads it, which ignores parameters."""
    parts = accept.split(",") if len(accept) <= LIMIT else ()
    return frozenset([part.partition(";")[0].strip(" ") for part in parts])


def _not_acceptable(accept: str, builtin: bool, *, collection: bool = False, cbor: bool = True) -> NotAcceptable:
    """Fixed paths in kube-apiserver check the plain media types first, with another message.

    The routes of lists, which serve watches too, name the types of streams (apiserver pkg/endpoints/installer.go).
    """
    named = _all_types(cbor=cbor)
    if builtin and not _reaches_route(accept, collection=collection, cbor=cbor):
        types = f"{named}, {_stream_types()}" if collection else named
        return NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {types}")
    return NotAcceptable(f"only the following media types are accepted: {named}")


def error_representation(accept: str, *, cbor: bool = True) -> Representation:
    """Returns the representation of a Status: the best of the clauses without a transformation, else indented JSON.

    Follows apiserver pkg/endpoints/handlers/responsewriters/writers.go (WriteObjectNegotiated).
    """
    representation = _represent(accept, _UNTRANSFORMED if cbor else _WITHOUT_CBOR)
    return representation if representation is not None else Representation(pretty=True)


# Longer headers are ignored: kubectl's longest Accept has some 200 bytes.
LIMIT: Final = 4 * 1024

# Headers of real clients are few and short; longer ones are not cached.
_MAX_CACHED_LENGTH: Final = 1024


class _Target(NamedTuple):
    """The parameters `as`, `g` and `v` of a clause."""

    kind: str
    group: str
    version: str


@dataclass(frozen=True, slots=True, eq=False)
class _Offer:
    """The encodings that are served without a transformation, and the kinds of transformations.

    Follows the EndpointRestrictions of apiserver.
    """

    encodings: Collection[str]
    kinds: Collection[str] = ()
    # Whether `sv=v1` may name the version of the server's own types.
    has_version: bool = False

    def allows(self, encoding: str, target: _Target | None) -> bool:
        if target is None:
            return encoding in self.encodings
        if target.kind not in self.kinds:
            return False
        if target.kind == _AGGREGATED_LIST:
            return encoding != CBOR and target[1:] == ("apidiscovery.k8s.io", "v2")
        if target.group != "meta.k8s.io" or target.version not in ("v1", "v1beta1"):
            return False
        return target.kind != TABLE or encoding in (JSON, YAML)


_RESOURCE: Final = _Offer((JSON, YAML, CBOR), (TABLE, PARTIAL, PARTIAL_LIST), True)
_MESSAGE: Final = _Offer((JSON, YAML, PROTOBUF, CBOR), (TABLE, PARTIAL, PARTIAL_LIST), True)
_UNTABLED: Final = _Offer((JSON, YAML, PROTOBUF, CBOR), (PARTIAL, PARTIAL_LIST), True)
_UNTRANSFORMED: Final = _Offer((JSON, YAML, PROTOBUF, CBOR))
_WITHOUT_CBOR: Final = _Offer((JSON, YAML, PROTOBUF))
_AGGREGATED: Final = _Offer((), (_AGGREGATED_LIST,))
_PLAIN: Final = _Offer((JSON, YAML))


def _represent(accept: str, offer: _Offer) -> Representation | None:
    return (_known if len(accept) <= _MAX_CACHED_LENGTH else _negotiate)(accept, offer)


class _Clause(NamedTuple):
    """One alternative of an Accept header."""

    type: str
    subtype: str
    quality: float
    params: Mapping[str, str]

    def precedes(self, other: _Clause) -> bool:
        return (
            self.quality > other.quality
            or (self.type != "*" and other.type == "*")
            or (self.subtype != "*" and other.subtype == "*")
        )

    def matches(self, media_type: str) -> bool:
        main, _, sub = media_type.partition("/")
        return (self.type == main and self.subtype in (sub, "*")) or (self.type == "*" and self.subtype == "*")


def _negotiate(accept: str, offer: _Offer) -> Representation | None:
    if not accept:
        return Representation()
    for clause in _clauses(accept):
        for encoding, media_type in _types().items():
            if clause.matches(media_type):
                representation = _transform(clause.params, encoding, offer)
                if representation is not None:
                    return representation
    return None


_known = lru_cache(2048)(_negotiate)


def _transform(params: Mapping[str, str], encoding: str, offer: _Offer) -> Representation | None:
    """Returns the representation for the parameters; None if it is not available in this encoding."""
    target = None
    if not params.keys().isdisjoint(("as", "g", "v")):
        target = _Target(params.get("as", ""), params.get("g", ""), params.get("v", ""))
    stream, server_version = params.get("stream", ""), params.get("sv", "")
    if stream and (stream != "watch" or encoding == YAML):
        return None
    if server_version and not (offer.has_version and server_version == "v1"):
        return None
    if not offer.allows(encoding, target):
        return None
    pretty = params.get("pretty") == "1"
    drops_owners = encoding == JSON and _drops(params.get("drop", ""))
    keeps = parse_keep(params["keep"]) if "keep" in params and encoding != PROTOBUF else ()
    if keeps is None:
        return None
    kind, version = (target.kind, target.version) if target else ("", "")
    return Representation(encoding, kind, version, pretty, drops_owners, keeps)


def _drops(text: str) -> bool:
    """Whether `metadata.managedFields` is among the fields to drop, `a+b`.

    Other fields are not dropped; a list with a duplicate is invalid.
    """
    fields = text.split("+")
    return "metadata.managedFields" in fields and len(set(fields)) == len(fields)


_MAX_INSERTED: Final = 12


def _clauses(accept: str) -> list[_Clause]:
    """Returns clauses in the order of goautoneg: by quality, wildcards last; none if the header is too long.

    Its comparison is no order (a clause without a wildcard precedes one with it, whatever their qualities), so
    that the result is that of Go's insertion sort, which it uses up to a dozen.
    """
    if len(accept) > LIMIT:
        return []
    clauses = [clause for part in accept.split(",") if (clause := _clause(part)) is not None]
    if len(clauses) > _MAX_INSERTED:
        return sorted(clauses, key=lambda clause: (-clause.quality, clause.type == "*", clause.subtype == "*"))
    ordered: list[_Clause] = []
    for clause in clauses:
        position = len(ordered)
        while position > 0 and clause.precedes(ordered[position - 1]):
            position -= 1
        ordered.insert(position, clause)
    return ordered


def _clause(text: str) -> _Clause | None:
    media_range, *sections = text.strip().split(";")
    parts = media_range.split("/")
    if len(parts) == 1 and parts[0].strip() == "*":
        parts.append("*")
    if len(parts) != 2:
        return None
    quality, params = 1.0, {}
    for section in sections:
        name, _, rest = section.partition("=")
        value, _, more = rest.partition("=")
        if not rest or more:
            continue  # goautoneg ignores a parameter without a value, or with two
        name, value = name.strip(), value.strip()
        if name == "q":
            quality = float(value) if _QUALITY.match(value) else 0.0
        elif name:
            params[name] = value
    return _Clause(parts[0].strip(), parts[1].strip(), quality, params)


_QUALITY = re.compile(r"[0-9]{0,9}\.?[0-9]{1,9}\Z")

_HUMANS = ("curl", "Wget", "Mozilla/5.0")
_TRUE = ("1", "t", "T", "true", "TRUE", "True")


def pretty(parameter: str, user_agent: str) -> bool:
    """Whether to indent JSON: by the `pretty` parameter of the query, else for interactive clients."""
    return parameter in _TRUE if parameter else user_agent.startswith(_HUMANS)


# --- bodies


_UNSUPPORTED: Final = "415: Unsupported Media Type"


def body_encoding(content_type: str, *, protobuf: bool = False) -> str:
    """Returns the encoding of the body of a create, an update or a delete; no header means JSON.

    `protobuf` says that the kind has a message. Raises UnsupportedMediaType.
    """
    if content_type in ("", "application/json"):
        return JSON
    encoding = _ENCODINGS.get(_media_type(content_type) or "")
    if encoding is None or encoding not in _types() or (encoding == PROTOBUF and not protobuf):
        raise UnsupportedMediaType(_unknown_format(_all_types()))
    return encoding


def require_body_type(content_type: str, media_types: Collection[str]) -> None:
    """Raises UnsupportedMediaType unless a GET's content type is one that the route takes; none is needed.

    Follows go-restful's route.go: any of a list of types counts, and its parameters do not.
    """
    types = [text.partition(";")[0].strip(" ") for text in content_type.split(",")]
    if content_type and not any(media_type in media_types for media_type in types):
        raise UnsupportedMediaType(_UNSUPPORTED)


def is_protobuf(content_type: str) -> bool:
    return _ENCODINGS.get(_media_type(content_type) or "") == PROTOBUF


def patch_type(content_type: str, *, builtin: bool = False) -> str:
    """Returns the media type of a patch, without parameters. Only built-in kinds take strategic merge patches."""
    media_type = content_type.partition(";")[0]
    if media_type in (JSON_PATCH, MERGE_PATCH, APPLY_PATCH) or (builtin and media_type == STRATEGIC_MERGE_PATCH):
        return media_type
    if serves_cbor() and media_type == APPLY_PATCH_CBOR:
        return media_type
    if builtin:
        raise UnsupportedMediaType(_UNSUPPORTED)
    types = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH, *([APPLY_PATCH_CBOR] if serves_cbor() else [])]
    raise UnsupportedMediaType(_unknown_format(", ".join(types)))


def _unknown_format(types: str) -> str:
    return f"the body of the request was in an unknown format - accepted media types include: {types}"


_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_CONTENT_TYPE = re.compile(rf"\s*({_TOKEN}/{_TOKEN})\s*(?=;|\Z)")
_PARAMETER = re.compile(rf"\s*;\s*({_TOKEN})\s*=\s*(?:{_TOKEN}|\"(?:[^\"\\\r\n]|\\.)*\")")
_TRAILING = re.compile(r"\s*(?:;\s*)?\Z")


def _media_type(content_type: str) -> str | None:
    """Returns the type in lower case; None if the header is malformed or too long."""
    match = _CONTENT_TYPE.match(content_type) if len(content_type) <= LIMIT else None
    if match is None:
        return None
    position, names = match.end(), set()
    while (parameter := _PARAMETER.match(content_type, position)) is not None:
        if parameter[1].lower() in names:
            return None
        names.add(parameter[1].lower())
        position = parameter.end()
    return match[1].lower() if _TRAILING.match(content_type, position) else None
