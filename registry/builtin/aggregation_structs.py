"""The Go structs of apiregistration.k8s.io, as tables for registry/definitions/structs/structs.py.

Follows staging/src/k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/types.go at v1.36.
"""

from __future__ import annotations

from registry.definitions.structs.scalars import BOOL, BYTES, INT_32, STRING, Scalar
from registry.definitions.structs.structs import Field, Pointer, Slice, Struct
from registry.definitions.types import TIME, ObjectMeta

_ServiceReference = Struct(
    "ServiceReference", (Field("namespace", STRING), Field("name", STRING), Field("port", Pointer(INT_32)))
)

_APIServiceSpec = Struct(
    "APIServiceSpec",
    (
        Field("service", Pointer(_ServiceReference)),
        Field("group", STRING),
        Field("version", STRING),
        Field("insecureSkipTLSVerify", BOOL),
        Field("caBundle", BYTES),
        Field("groupPriorityMinimum", INT_32, True),
        Field("versionPriority", INT_32, True),
    ),
)

_APIServiceCondition = Struct(
    "APIServiceCondition",
    (
        Field("type", Scalar("v1.APIServiceConditionType", str, ""), True),
        Field("status", Scalar("v1.ConditionStatus", str, ""), True),
        Field("lastTransitionTime", TIME, True),
        Field("reason", STRING),
        Field("message", STRING),
    ),
)

APIService = Struct(
    "APIService",
    (
        Field("kind", STRING),
        Field("apiVersion", STRING),
        Field("metadata", ObjectMeta, True),
        Field("spec", _APIServiceSpec, True),
        Field("status", Struct("APIServiceStatus", (Field("conditions", Slice(_APIServiceCondition)),)), True),
    ),
)
