"""Names of views and columns: lower snake case, at most 63 bytes, deterministic.

A name that is too long, or taken, ends in eight characters of a digest of the whole original name. So a name depends on
the field and the names before it, never on the process or the order of requests within one definition.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Sequence
from typing import Final

from registry.codec.text_cache import cache_short
from registry.store.reporting.quoting import LONGEST, with_digest

# The name of a view leaves room for `_history_as_of`.
LONGEST_VIEW: Final = 48

# The leading columns of every view, and those of histories and child views: reserved, fields never get these names.
METADATA: Final = (
    "tenant", "namespace", "name", "uid", "labels", "annotations", "owner_references", "finalizers", "generation",
    "resource_version", "stored_version", "created_at", "created_by", "updated_at", "updated_by",
    "deletion_timestamp",
)  # fmt: skip
RESERVED: Final = frozenset({
    *METADATA, "ready", "ready_reason", "ready_since", "position", "parent_position", "revision", "operation",
    "valid_from", "valid_to", "next_revision", "user_name", "field_manager", "verb", "object",
    # System columns of PostgreSQL, which cannot be used as names.
    "tableoid", "xmin", "cmin", "xmax", "cmax", "ctid",
})  # fmt: skip

# Each run of capitals is read once, however long it is.
_ACRONYM = re.compile(r"(?<![A-Z])([A-Z]+)([A-Z][a-z])")
_WORD = re.compile(r"([a-z0-9])([A-Z])")


# The fields of a large definition have a few hundred names in thousands of paths.
@cache_short(LONGEST, 2048)
def snake(text: str) -> str:
    """`readyReplicas` gives `ready_replicas`, `HTTPRoute` `http_route`, `clusterIPs` `cluster_ips`, `a.b` `a_b`."""
    text = re.sub(r"(?<![A-Z])([A-Z]{2,}+)s(?![a-z])", lambda m: m[1].capitalize() + "s", text)
    text = _WORD.sub(r"\1_\2", _ACRONYM.sub(r"\1_\2", unicodedata.normalize("NFC", text)))
    lowered = "".join(c.lower() if c.isalnum() else "_" for c in text)
    return re.sub(r"_+", "_", lowered).strip("_")


def shorten(name: str, whole: str, longest: int = LONGEST) -> str:
    """`name` if it fits, else as much of it as fits before a digest of `whole`."""
    return name if name and len(name.encode()) <= longest else with_digest(name, whole, longest)


def column_name(path: Sequence[str], taken: Container[str]) -> str:
    """The name of a field's column: `("spec", "replicas")` gives `spec_replicas`."""
    plain = "_".join(filter(None, map(snake, path)))
    whole = "\x00".join(path)
    name = shorten(plain, whole)
    if name in taken and len(path) == 1:
        name = shorten(f"{plain}_field", whole)
    return free(plain, whole, taken) if name in taken else name


def free(name: str, whole: str, taken: Container[str]) -> str:
    """A name with a digest that is not taken: a property may have the same name as another's digested one."""
    while (candidate := with_digest(name, whole)) in taken:
        whole += "\x00again"
    return candidate


def again(name: str, whole: str, taken: Container[str]) -> str:
    """A name derived from `name` that is not taken, for another column of the same field."""
    for number in range(2, 100):
        candidate = shorten(f"{name}_{number}", whole)
        if candidate not in taken:
            return candidate
    return free(name, f"{whole}\x00again", taken)


def view_name(plural: str, group: str) -> str:
    """`crontabs` of `stable.example.com` gives `crontabs_stable_example_com`."""
    whole = f"{plural}.{group}"
    return shorten(snake(whole) or "view", whole, LONGEST_VIEW)
