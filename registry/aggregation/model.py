"""The servers of a tenant's APIServices, by the group version that each serves.

Follows kube-aggregator pkg/apis/apiregistration/v1/helper/helpers.go; the priorities of local groups follow kubernetes
pkg/controlplane/apiserver/aggregator.go (DefaultGenericAPIServicePriorities) and
pkg/controlplane/controller/crdregistration/crdregistration_controller.go.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from registry.definitions.conditions import find, is_true
from registry.definitions.priority import Key, priority_key

GROUP: Final = "apiregistration.k8s.io"
PLURAL: Final = "apiservices"
AVAILABLE: Final = "Available"
# The maximum number of APIServices with a service in a tenant; the first by name are used.
SERVERS_LIMIT: Final = 200
_DEFAULT_PORT: Final = 443


@dataclass(frozen=True, slots=True)
class ServiceReference:
    namespace: str
    name: str
    port: int

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}:{self.port}"


@dataclass(frozen=True, slots=True)
class APIServer:
    """A group version that another server serves. `ca` is in PEM, "" for the system's roots.

    `uid`, `revision` and `available` are those of the stored APIService; servers with the same spec are equal.
    """

    group: str
    version: str
    service: ServiceReference
    ca: str
    insecure: bool
    group_priority: int
    version_priority: int
    uid: str = field(compare=False, default="")
    available: bool = field(compare=False, default=False)
    revision: int = field(compare=False, default=0)

    @property
    def name(self) -> str:
        return f"{self.version}.{self.group}"

    @property
    def path(self) -> str:
        """The path of its resources: `/apis/metrics.example.com/v1`, or `/api/v1` for the core group."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def order(self) -> tuple[int, Key]:
        """Sorts the versions of one group, the preferred one first."""
        return version_order(self.version_priority, self.version)


class Aggregated:
    """The servers of one tenant. Replaced as a whole."""

    def __init__(self, servers: Iterable[APIServer]) -> None:
        self.servers: Mapping[tuple[str, str], APIServer] = {(s.group, s.version): s for s in servers}

    def __bool__(self) -> bool:
        return bool(self.servers)

    def find(self, group: str, version: str) -> APIServer | None:
        """The server of a group version. The server of the core group serves all of /api."""
        return self.servers.get((group, version)) or (None if group else self.servers.get(("", "v1")))


NOTHING_AGGREGATED: Final = Aggregated(())


def api_server(obj: Mapping[str, Any], revision: int = 0) -> APIServer | None:
    """The server of an APIService; None for a local one, and for the APIService group, which is always served here."""
    spec = obj.get("spec") or {}
    service = spec.get("service")
    if service is None or spec.get("group") == GROUP:
        return None
    return APIServer(
        spec.get("group") or "",
        spec["version"],
        ServiceReference(service["namespace"], service["name"], service.get("port") or _DEFAULT_PORT),
        _pem(spec.get("caBundle") or ""),
        bool(spec.get("insecureSkipTLSVerify")),
        spec["groupPriorityMinimum"],
        spec["versionPriority"],
        obj["metadata"].get("uid") or "",
        _was_available(obj),
        revision,
    )


def _was_available(obj: Mapping[str, Any]) -> bool:
    """Whether the stored condition is True, unless it dates from before there was a service."""
    return is_true(obj, AVAILABLE) and (find(obj, AVAILABLE) or {}).get("reason") != "Local"


def _pem(bundle: str) -> str:
    return base64.b64decode(bundle).decode("ascii", "replace").replace("\ufffd", "?")


# -- the priorities of local groups and versions in discovery, relative to those of APIServices
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
