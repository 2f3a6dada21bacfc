"""The Go structs of the built-in kinds, by group; a file `<group>_<version>.txt` declares those of its group.

codec/structs/declarations.py describes the files. They follow staging/src/k8s.io/api/<group>/<version>/types.go
at v1.36, and kube-aggregator's pkg/apis/apiregistration/v1/types.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from registry.builtin.scalars import BYTES_MAP, INT_OR_STRING, MICRO_TIME, QUANTITY
from registry.codec.structs.base import GoType
from registry.codec.structs.declarations import qualified, read_structs
from registry.codec.structs.meta import METAV1
from registry.codec.structs.structs import Struct

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
