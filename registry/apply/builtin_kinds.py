"""Ownership rules of built-in kinds: members that are always present, and the fields that a subresource resets.

In Go a built-in object is a struct: `spec: {}` or `status.acceptedNames` exist before any client sets them, so no
manager ever adds them, and no entry has a `.` for them. Follows the struct tags of k8s.io/api at v1.36 and the
GetResetFields of the kinds' strategies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from registry.apply.fieldsets import FieldSet

_SPEC: dict[str, Any] = {"spec": {}}
_SPEC_AND_STATUS: dict[str, Any] = {"spec": {}, "status": {}}
_NAMES = {"plural": "", "kind": ""}
_ROLE_REF = {"roleRef": {"apiGroup": "", "kind": "", "name": ""}}
_REVIEW: dict[str, Any] = {"spec": {}, "status": {"allowed": False}}

# By kind; Event stands for both of its groups.
ZERO: Mapping[str, dict[str, Any]] = {
    "APIService": {"spec": {"groupPriorityMinimum": 0, "versionPriority": 0}, "status": {}},
    "ClusterRole": {"rules": None},
    "ClusterRoleBinding": _ROLE_REF,
    "CustomResourceDefinition": {
        "spec": {"group": "", "names": _NAMES, "scope": "", "versions": None},
        "status": {"conditions": None, "acceptedNames": _NAMES, "storedVersions": None},
    },
    "Event": {
        "involvedObject": {},
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
        "regarding": {},
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
    },
    "Lease": _SPEC,
    "LimitRange": {"spec": {"limits": None}},
    "LocalSubjectAccessReview": _REVIEW,
    "MutatingAdmissionPolicy": _SPEC,
    "MutatingAdmissionPolicyBinding": _SPEC,
    "Namespace": _SPEC_AND_STATUS,
    "ResourceQuota": _SPEC_AND_STATUS,
    "Role": {"rules": None},
    "RoleBinding": _ROLE_REF,
    "SelfSubjectAccessReview": _REVIEW,
    "SelfSubjectReview": {"status": {"userInfo": {}}},
    "SelfSubjectRulesReview": {
        "spec": {},
        "status": {"resourceRules": None, "nonResourceRules": None, "incomplete": False},
    },
    "Service": {"spec": {}, "status": {"loadBalancer": {}}},
    "StorageVersionMigration": {"spec": {"resource": {"group": "", "resource": ""}}, "status": {}},
    "SubjectAccessReview": _REVIEW,
    "TokenRequest": {
        "spec": {"audiences": None, "boundObjectRef": None},
        "status": {"token": "", "expirationTimestamp": None},
    },
    "TokenReview": {"spec": {}, "status": {"user": {}}},
    "ValidatingAdmissionPolicy": _SPEC_AND_STATUS,
    "ValidatingAdmissionPolicyBinding": _SPEC,
}

_STATUS: FieldSet = {"f:status": {}}
_NOT_STATUS: FieldSet = {"f:metadata": {}, "f:spec": {}}
_SPEC_ONLY: FieldSet = {"f:spec": {}}

# Their status can be written together with labels and annotations.
_STATUS_WITH_METADATA = frozenset({"CustomResourceDefinition", "Namespace", "ResourceQuota", "Service"})
_WITH_STATUS = _STATUS_WITH_METADATA | {"APIService", "StorageVersionMigration", "ValidatingAdmissionPolicy"}


def builtin_resets(kind: str, subresource: str) -> FieldSet:
    """The fields of a kind that a write through a subresource leaves unchanged."""
    if kind not in _WITH_STATUS:
        return {}
    if subresource == "status":
        return _SPEC_ONLY if kind in _STATUS_WITH_METADATA else _NOT_STATUS
    return _STATUS


def with_zeros(value: dict[str, Any], zeros: Mapping[str, Any]) -> dict[str, Any]:
    """`value` with the members that its Go struct always has; `value` itself if it has them all."""
    result = value
    for name, zero in zeros.items():
        part = value.get(name)
        if part is None:
            filled = zero
        elif type(zero) is dict and type(part) is dict:
            filled = with_zeros(part, zero)
        else:
            continue
        if filled is not part or name not in value:
            if result is value:
                result = dict(value)
            result[name] = filled
    return result
