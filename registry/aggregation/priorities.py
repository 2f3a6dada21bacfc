"""The priorities of local groups and versions in discovery, relative to those of APIServices.

Follows kubernetes pkg/controlplane/apiserver/aggregator.go (DefaultGenericAPIServicePriorities) and
pkg/controlplane/controller/crdregistration/crdregistration_controller.go.
"""

from __future__ import annotations

from typing import Final

from registry.definitions.priority import Key, priority_key

# By group and version.
_BUILTIN: Final = {
    ("apiregistration.k8s.io", "v1"): (20001, 1),
    ("", "v1"): (18000, 1),
    ("events.k8s.io", "v1"): (17750, 15),
    ("authentication.k8s.io", "v1"): (17700, 15),
    ("authorization.k8s.io", "v1"): (17600, 15),
    ("rbac.authorization.k8s.io", "v1"): (17000, 15),
    ("apiextensions.k8s.io", "v1"): (16700, 15),
    ("apiextensions.k8s.io", "v1beta1"): (16700, 9),
    ("admissionregistration.k8s.io", "v1"): (16700, 15),
    ("coordination.k8s.io", "v1"): (16500, 15),
    ("storagemigration.k8s.io", "v1"): (15800, 15),
    ("storagemigration.k8s.io", "v1beta1"): (15800, 9),
}
_OTHER_BUILTIN: Final = (15000, 9)
_DEFINED: Final = (1000, 100)


def local_priority(group: str, version: str, *, builtin: bool) -> tuple[int, int]:
    """The priorities of the group and of the version."""
    if not builtin:
        return _DEFINED
    return _BUILTIN.get((group, version), _OTHER_BUILTIN)


def version_order(priority: int, version: str) -> tuple[int, Key]:
    """Sorts the versions of a group, the preferred one first."""
    return (-priority, priority_key(version))
