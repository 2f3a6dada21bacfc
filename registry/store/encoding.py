"""How user-supplied texts are encoded in columns and parameters: one index for all tenants, valid for PostgreSQL."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Final

from registry.codec.json_encode import encode_json_text
from registry.store.types import Contents, TenantId

# In characters of at most four bytes; with prefix and key the element must stay below 2.7 kB.
MAX_LABEL: Final = 512
# Of a bigint.
_LAST_REVISION: Final = (1 << 63) - 1


def label_prefix(tenant: TenantId, resource: str) -> str:
    """Returns the prefix of each element of the labels column, which lets one index serve all tenants and resources."""
    return f"{tenant}/{resource}/"


def owner_element(tenant: TenantId, uid: str) -> str:
    return f"{tenant}/{storable(uid)}"


def storable(text: str) -> str:
    """Replaces U+0000 and lone surrogates, which PostgreSQL rejects; only for values used in lookups."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")


def storable_revision(revision: int | None) -> int | None:
    """Returns the revision, or PostgreSQL's largest one if it is higher: for clients they have no sign. Both are in the
    future."""
    return None if revision is None else min(revision, _LAST_REVISION)


def label_element(label: str) -> str:
    """Returns the column's form of a label `key=value`. A long value is replaced by its digest: GIN limits items to 2.7
    kB.

    Label values have at most 63 characters, but a selectable field may have any text.
    """
    label = storable(label)
    if len(label) <= MAX_LABEL:
        return label
    key, _, value = label.partition("=")
    return f"{key}=sha256:{hashlib.sha256(value.encode()).hexdigest()}"


def label_elements(labels: Sequence[str]) -> Sequence[str]:
    """Returns the column's form of each, in a millisecond for tens of thousands."""
    joined = "".join(labels)
    if joined.isascii() and "\x00" not in joined and max(map(len, labels), default=0) <= MAX_LABEL:
        return labels
    return [label_element(label) for label in labels]


def stored_value(key: str, value: str) -> str:
    """Returns the value that `StoredLabels` has for a label."""
    return label_element(f"{key}={value}")[len(storable(key)) + 1 :]


def contents_json(contents: Contents) -> str:
    """Returns the JSON that `registry_in_use` reads."""
    if contents.resource is not None:
        return encode_json_text({"resource": contents.resource})
    return encode_json_text({"prefix": contents.prefix, "except": contents.excepted})


_BEGINNING = '{"metadata":{"facets":'


def strip_document(document: str | None) -> str | None:
    """Reduces a report document to its indexed fields, so that the object can still be found; None for any other shape.

    For one that PostgreSQL rejects: jsonb accepts less than JSON does, and a report must not fail a write.

    `{"metadata":{"facets":{"any":true},"name":"a"},"spec":{..}}` gives `{"metadata":{"facets":{"any":true}}}`.
    """
    if document is None or not document.startswith(_BEGINNING):
        return None
    try:
        _, end = json.JSONDecoder().raw_decode(document, len(_BEGINNING))
    except ValueError:
        return None
    return document[:end] + "}}"
