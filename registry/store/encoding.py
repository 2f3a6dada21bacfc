"""How texts of users stand in columns and arguments, so that one index serves all tenants and PostgreSQL takes them."""

from __future__ import annotations

import hashlib
from typing import Final

from registry.codec.json_encode import encode_json_text
from registry.store.types import Contents, TenantId

# In characters; four bytes each, with key and prefix before it, must stay below 2.7 kB.
MAX_LABEL: Final = 512


def label_prefix(tenant: TenantId, resource: str) -> str:
    """What stands before each element of the labels column, to make one index serve all tenants and resources."""
    return f"{tenant}/{resource}/"


def owner_element(tenant: TenantId, uid: str) -> str:
    return f"{tenant}/{storable(uid)}"


def storable(text: str) -> str:
    """PostgreSQL knows neither U+0000 nor lone surrogates; in what is only looked up by, a mark stands for them."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")


def label_element(label: str) -> str:
    """A label `key=value` as the column holds it: a long value by its digest, for GIN takes no more than 2.7 kB.

    Label values have 63 characters at most, but a selectable field may have any text.
    """
    label = storable(label)
    if len(label) <= MAX_LABEL:
        return label
    key, _, value = label.partition("=")
    return f"{key}=sha256:{hashlib.sha256(value.encode()).hexdigest()}"


def contents_json(contents: Contents) -> str:
    """As `registry_in_use` reads it."""
    if contents.resource is not None:
        return encode_json_text({"resource": contents.resource})
    return encode_json_text({"prefix": contents.prefix, "except": contents.excepted})
