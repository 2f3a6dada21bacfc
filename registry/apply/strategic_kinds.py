"""The lists of built-in kinds that a strategic merge patch merges, and their merge keys.

Other lists are replaced as a whole. Follows the patchStrategy and patchMergeKey tags of k8s.io/api at v1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Field(NamedTuple):
    """A member of an object. `merge`: a list that is merged, of objects by `key`, else of scalars."""

    merge: bool = False
    key: str = ""
    inside: Mapping[str, Field] = {}


Fields = Mapping[str, Field]

_METADATA: Fields = {"metadata": Field(inside={"ownerReferences": Field(True, "uid"), "finalizers": Field(True)})}
_CONDITIONS: Fields = {"status": Field(inside={"conditions": Field(True, "type")})}
_MATCH_CONDITIONS: Fields = {"matchConditions": Field(True, "name")}
_WEBHOOKS: Fields = {"webhooks": Field(True, "name", _MATCH_CONDITIONS)}

_KINDS: Mapping[str, Fields] = {
    "APIService": _CONDITIONS,
    "Namespace": _CONDITIONS,
    "ServiceAccount": {"secrets": Field(True, "name")},
    "ValidatingWebhookConfiguration": _WEBHOOKS,
    "MutatingWebhookConfiguration": _WEBHOOKS,
    "ValidatingAdmissionPolicy": {"spec": Field(inside={**_MATCH_CONDITIONS, "variables": Field(True, "name")})},
    "MutatingAdmissionPolicy": {"spec": Field(inside=_MATCH_CONDITIONS)},
}


def fields_of(kind: str) -> Fields:
    """The members of a kind that are relevant to patches; every kind has metadata."""
    return {**_METADATA, **_KINDS.get(kind, {})}
