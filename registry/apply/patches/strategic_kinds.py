"""The lists of built-in kinds that a strategic merge patch merges, and their merge keys.

Other lists are replaced as a whole. Follows the patchStrategy and patchMergeKey tags of k8s.io/api at v1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class StrategicField(NamedTuple):
    """A member of an object. `merge`: a list that is merged, of objects by `key`, else of scalars."""

    merge: bool = False
    key: str = ""
    inside: Mapping[str, StrategicField] = {}


Fields = Mapping[str, StrategicField]

_METADATA: Fields = {
    "metadata": StrategicField(
        inside={"ownerReferences": StrategicField(True, "uid"), "finalizers": StrategicField(True)}
    )
}
_CONDITIONS: Fields = {"status": StrategicField(inside={"conditions": StrategicField(True, "type")})}
_MATCH_CONDITIONS: Fields = {"matchConditions": StrategicField(True, "name")}
_WEBHOOKS: Fields = {"webhooks": StrategicField(True, "name", _MATCH_CONDITIONS)}

_KINDS: Mapping[str, Fields] = {
    "APIService": _CONDITIONS,
    "Namespace": _CONDITIONS,
    "Service": {**_CONDITIONS, "spec": StrategicField(inside={"ports": StrategicField(True, "port")})},
    "StorageVersionMigration": _CONDITIONS,
    "ServiceAccount": {"secrets": StrategicField(True, "name")},
    "ValidatingWebhookConfiguration": _WEBHOOKS,
    "MutatingWebhookConfiguration": _WEBHOOKS,
    "ValidatingAdmissionPolicy": {
        "spec": StrategicField(inside={**_MATCH_CONDITIONS, "variables": StrategicField(True, "name")})
    },
    "MutatingAdmissionPolicy": {"spec": StrategicField(inside=_MATCH_CONDITIONS)},
}


def fields_of(kind: str) -> Fields:
    """The members of a kind that are relevant to patches; every kind has metadata."""
    return {**_METADATA, **_KINDS.get(kind, {})}
