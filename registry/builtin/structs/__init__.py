"""The Go structs of the built-in kinds, by group; a file `<group>_<version>.txt` declares those of its group.

codec/structs/declarations.py describes the files. They follow staging/src/k8s.io/api/<group>/<version>/types.go
at v1.36, and kube-aggregator's pkg/apis/apiregistration/v1/types.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from registry.builtin.scalars import BYTES_MAP, INT_OR_STRING, MICRO_TIME, QUANTITY
from registry.codec.structs.base import GoType
from registry.codec.structs.declarations import qualified, read_structs
from registry.codec.structs.meta import METAV1
from registry.codec.structs.structs import Struct, decode

_KNOWN: Final[Mapping[str, GoType]] = {
    **METAV1,
    "metav1.MicroTime": MICRO_TIME,
    "resource.Quantity": QUANTITY,
    "intstr.IntOrString": INT_OR_STRING,
    "map[string][]byte": BYTES_MAP,
}


def _structs(group_version: str, known: Mapping[str, GoType] = _KNOWN) -> dict[str, Struct]:
    return read_structs(__package__, f"{group_version}.txt", known)


ADMISSION_REGISTRATION: Final = _structs("admissionregistration_v1")
API_REGISTRATION: Final = _structs("apiregistration_v1")
AUTHENTICATION: Final = _structs("authentication_v1")
AUTHORIZATION: Final = _structs("authorization_v1")
AUTOSCALING: Final = _structs("autoscaling_v1")
COORDINATION: Final = _structs("coordination_v1")
CORE: Final = _structs("core_v1")
EVENTS: Final = _structs("events_v1", {**_KNOWN, **qualified("corev1", CORE)})
RBAC: Final = _structs("rbac_v1")
STORAGE_MIGRATION: Final = _structs("storagemigration_v1beta1")

_BY_GROUP: Final = {
    "": CORE,
    "admissionregistration.k8s.io": ADMISSION_REGISTRATION,
    "authentication.k8s.io": AUTHENTICATION,
    "authorization.k8s.io": AUTHORIZATION,
    "autoscaling": AUTOSCALING,
    "coordination.k8s.io": COORDINATION,
    "events.k8s.io": EVENTS,
    "rbac.authorization.k8s.io": RBAC,
    "storagemigration.k8s.io": STORAGE_MIGRATION,
}


def unknown_fields(kind: str, api_version: str, obj: Any) -> list[str]:
    """Decodes an object whose kind is not that of the request; returns its unknown fields, none if there is no struct.

    Raises StructDecodeError. The versions of a group differ in nothing that this shows.
    """
    struct = _BY_GROUP.get(api_version.rpartition("/")[0], {}).get(kind)
    return [] if struct is None else decode(struct, obj).unknown
