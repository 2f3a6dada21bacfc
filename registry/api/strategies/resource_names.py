"""Names of the resources in quotas and limit ranges: cpu, requests.memory, count/widgets.example.com.

Follows kubernetes pkg/apis/core/helper/helpers.go and pkg/apis/core/validation/validation.go (validateResourceName).
"""

from __future__ import annotations

from registry.schema.field import FieldError, invalid
from registry.schema.names import label_key

_OBJECT_COUNTS = frozenset(
    """
    resourcequotas services replicationcontrollers secrets configmaps persistentvolumeclaims services.nodeports
    services.loadbalancers
    """.split()
)
_COMPUTE = frozenset(
    """
    cpu memory ephemeral-storage requests.cpu requests.memory requests.ephemeral-storage limits.cpu
    limits.memory limits.ephemeral-storage
    """.split()
)
_QUOTA = _OBJECT_COUNTS | _COMPUTE | {"pods", "requests.storage"}
_STANDARD = _QUOTA | {"storage"}
_OF_CONTAINERS = frozenset({"cpu", "memory", "ephemeral-storage"})
_INTEGERS = _OBJECT_COUNTS | {"pods"}
_HUGE_PAGES = ("hugepages-", "requests.hugepages-")

# The resources that each scope of a quota can restrict.
_POD_RESOURCES = frozenset({"pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"})
SCOPES = {
    **dict.fromkeys(
        "Terminating NotTerminating NotBestEffort PriorityClass CrossNamespacePodAffinity".split(), _POD_RESOURCES
    ),
    "BestEffort": frozenset({"pods"}),
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}


def qualified_name_errors(name: str, path: str) -> list[FieldError]:
    return [invalid(path, name, problem) for problem in label_key(name)]


def resource_name_errors(name: str, path: str) -> list[FieldError]:
    errors = qualified_name_errors(name, path)
    if not errors and "/" not in name and not (name in _STANDARD or name.startswith(_HUGE_PAGES)):
        errors.append(invalid(path, name, "must be a standard resource type or fully qualified"))
    return errors


def container_name_errors(name: str, path: str) -> list[FieldError]:
    errors = resource_name_errors(name, path)
    if "/" not in name:
        if name not in _OF_CONTAINERS and not name.startswith("hugepages-"):
            errors.append(invalid(path, name, "must be a standard resource for containers"))
    elif "kubernetes.io/" not in name and not _is_extended(name):
        errors.append(invalid(path, name, "doesn't follow extended resource name standard"))
    return errors


def quota_name_errors(name: str, path: str) -> list[FieldError]:
    errors = resource_name_errors(name, path)
    if "/" not in name and not is_standard_quota(name):
        errors.append(invalid(path, name, "must be a standard resource for quota"))
    return errors


def is_standard_quota(name: str) -> bool:
    return name in _QUOTA or name.startswith(_HUGE_PAGES)


def counts_whole(name: str) -> bool:
    """Whether amounts of a resource must be whole numbers."""
    return name in _INTEGERS or _is_extended(name)


def overcommits(name: str) -> bool:
    return ("/" not in name and not name.startswith("hugepages-")) or "kubernetes.io/" in name


def _is_extended(name: str) -> bool:
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return not label_key(f"requests.{name}")
