"""The form of an answer: the representation that the client negotiated, applied to objects and documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from registry.api.errors import bad_request, not_acceptable, plain_internal
from registry.api.options import Query, first
from registry.api.served import Object, Served
from registry.api.tables.table import IncludeObjectError, Table, check_include_object, partial_object_metadata
from registry.codec.cbor import encode_cbor
from registry.codec.indentation import is_mostly_indentation
from registry.codec.json_encode import encode_json
from registry.codec.protobuf.envelope import encode_object
from registry.codec.stored import decode_stored
from registry.codec.yaml_encode import encode_yaml
from registry.emulation import emulated
from registry.http.negotiation import CBOR, JSON, PARTIAL, PARTIAL_LIST, PROTOBUF, TABLE, YAML, Representation, pretty
from registry.http.projection import keep

# The layouts of JSON: one line, and indented.
PRETTY = "pretty"


class Form:
    """The form of objects: the representation, and the parameters of a Table. `custom`: of custom resources."""

    def __init__(self, representation: Representation, table: Table | None, include: str, *, custom: bool) -> None:
        self.representation = representation
        self.table = table
        self.include = include
        self._custom = custom
        # A parameter that servers before 1.37 ignore.
        self._drops_owners = representation.drops_owners and emulated().is_1_37
        self.is_plain = (
            representation.transform == ""
            and representation.encoding == JSON
            and not representation.pretty
            and not self._drops_owners
            and not representation.keeps
        )
        self.cache_key = (representation, include, table.key if table is not None else None)

    def of_object(self, obj: Object, now: float, *, headers: bool = True) -> Mapping[str, Any]:
        """Returns an object in this form; for a Table, one with a single row."""
        match self.representation.transform:
            case "":
                return self.project(obj)
            case kind if kind == TABLE:
                assert self.table is not None
                row = self.table.row(obj, now, self.include, self.representation.version)
                revision = obj["metadata"].get("resourceVersion")  # an object of a dry run has none
                metadata = {"resourceVersion": revision} if revision else {}
                return self.table.document([row], metadata, self.representation.version, headers)
            case kind if kind == PARTIAL:
                return self.project(partial_object_metadata(obj, self.representation.version))
            case _ if self._custom:
                raise plain_internal("content is not a list")
            case _:
                raise not_acceptable(
                    f"you requested {PARTIAL_LIST}, but the requested object is not a list "
                    f"({go_type(obj['apiVersion'], obj['kind'])})"
                )

    def project(self, obj: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns `obj` without the fields that the client does not want."""
        if self.representation.keeps:
            return keep(obj, self.representation.keeps)
        if not self._drops_owners or "managedFields" not in (obj.get("metadata") or ()):
            return obj
        return {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k != "managedFields"}}


def form_of(representation: Representation, table: Table | None, query: Query, *, custom: bool) -> Form:
    """Returns the form of an answer; `table` is needed where it is to be one. Raises 400 for a bad includeObject."""
    include = ""
    if representation.transform == TABLE:
        try:
            include = check_include_object(first(query, "includeObject"))
        except IncludeObjectError as error:
            raise bad_request(str(error)) from error
    return Form(representation, table if representation.transform == TABLE else None, include, custom=custom)


def list_form_of(representation: Representation, served: Served, table: Table | None, query: Query) -> Form:
    """Returns the form of a list. Raises 400 for a bad includeObject, 406 for the form of a single object."""
    custom = not served.definition.builtin
    if representation.transform == PARTIAL:
        list_kind = served.definition.names.list_kind
        kind = "*unstructured.UnstructuredList" if custom else go_type(served.api_version, list_kind)
        raise not_acceptable(f"you requested {PARTIAL}, but the requested object is a list ({kind})")
    return form_of(representation, table, query, custom=custom)


def go_type(api_version: str, kind: str) -> str:
    """Returns the Go type of a built-in kind in kube-apiserver's messages: `*core.ConfigMap`, `*rbac.Role`."""
    group = api_version.rpartition("/")[0].partition(".")[0]
    return f"*{_GO_PACKAGES.get(group, group)}.{kind}"


# Groups whose types are in a package of another name. The Scale of custom resources is of the published API.
_GO_PACKAGES = {"": "core", "events": "core", "autoscaling": "v1"}


def prettify(representation: Representation, query: Query, headers: Mapping[bytes, bytes]) -> Representation:
    """Returns the representation, indented if the client requests it or is interactive."""
    if representation.encoding != JSON or representation.pretty:
        return representation
    agent = headers.get(b"user-agent", b"").decode("latin-1")
    return replace(representation, pretty=True) if pretty(first(query, "pretty"), agent) else representation


def encode_document(value: Mapping[str, Any], representation: Representation) -> bytes:
    """Encodes a document in JSON (with the newline of Go's encoder), YAML, protobuf or CBOR.

    A document so deeply nested that most of it would be indentation is sent as plain JSON, which is also YAML.
    """
    if representation.encoding == PROTOBUF:
        return encode_object(value)
    if representation.encoding == CBOR:
        return encode_cbor(value)
    plain = encode_json(value) + b"\n"
    layout = layout_of(representation)
    if layout == JSON or is_mostly_indentation(value, len(plain)):
        return plain
    if layout == YAML:
        return encode_yaml(value)
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2)
    except TypeError:  # more than 254 levels, or an integer beyond 64 bits
        return plain


def encode_list(value: Mapping[str, Any], items: Sequence[str], representation: Representation) -> bytes:
    """Encodes a document with a list of `items`, which are JSON texts."""
    if representation.encoding == JSON and not representation.pretty:
        return b'%s,"items":[%s]}\n' % (encode_json(value)[:-1], ",".join(items).encode())
    return encode_document({**value, "items": [decode_stored(text) for text in items]}, representation)


def layout_of(representation: Representation) -> str:
    """Returns JSON, PRETTY or YAML."""
    if representation.encoding == YAML:
        return YAML
    return PRETTY if representation.pretty else JSON
