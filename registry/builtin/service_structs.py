"""The Go structs of Services, as tables for registry/definitions/structs/structs.py.

Follows staging/src/k8s.io/api/core/v1/types.go at v1.36.
"""

from __future__ import annotations

from registry.builtin.meta_structs import Condition
from registry.builtin.scalars import INT_OR_STRING
from registry.definitions.structs.scalars import BOOL, INT_32, STRING, string_type
from registry.definitions.structs.structs import STRINGS, Field, Map, Pointer, Slice, Struct
from registry.definitions.types import ObjectMeta

_PROTOCOL = Field("protocol", string_type("Protocol"))

_ServicePort = Struct(
    "ServicePort",
    (
        Field("name", STRING),
        _PROTOCOL,
        Field("appProtocol", Pointer(STRING)),
        Field("port", INT_32, True),
        Field("targetPort", INT_OR_STRING),
        Field("nodePort", INT_32),
    ),
)

_SessionAffinityConfig = Struct(
    "SessionAffinityConfig",
    (Field("clientIP", Pointer(Struct("ClientIPConfig", (Field("timeoutSeconds", Pointer(INT_32)),)))),),
)

ServiceSpec = Struct(
    "ServiceSpec",
    (
        Field("ports", Slice(_ServicePort)),
        Field("selector", Map(STRING)),
        Field("clusterIP", STRING),
        Field("clusterIPs", STRINGS),
        Field("type", string_type("ServiceType")),
        Field("externalIPs", STRINGS),
        Field("sessionAffinity", string_type("ServiceAffinity")),
        Field("loadBalancerIP", STRING),
        Field("loadBalancerSourceRanges", STRINGS),
        Field("externalName", STRING),
        Field("externalTrafficPolicy", string_type("ServiceExternalTrafficPolicy")),
        Field("healthCheckNodePort", INT_32),
        Field("publishNotReadyAddresses", BOOL),
        Field("sessionAffinityConfig", Pointer(_SessionAffinityConfig)),
        Field("ipFamilies", Slice(string_type("IPFamily"))),
        Field("ipFamilyPolicy", Pointer(string_type("IPFamilyPolicy"))),
        Field("allocateLoadBalancerNodePorts", Pointer(BOOL)),
        Field("loadBalancerClass", Pointer(STRING)),
        Field("internalTrafficPolicy", Pointer(string_type("ServiceInternalTrafficPolicy"))),
        Field("trafficDistribution", Pointer(STRING)),
    ),
)

_PortStatus = Struct("PortStatus", (Field("port", INT_32, True), _PROTOCOL, Field("error", Pointer(STRING))))

_LoadBalancerIngress = Struct(
    "LoadBalancerIngress",
    (
        Field("ip", STRING),
        Field("hostname", STRING),
        Field("ipMode", Pointer(string_type("LoadBalancerIPMode"))),
        Field("ports", Slice(_PortStatus)),
    ),
)

_ServiceStatus = Struct(
    "ServiceStatus",
    (
        Field("loadBalancer", Struct("LoadBalancerStatus", (Field("ingress", Slice(_LoadBalancerIngress)),)), True),
        Field("conditions", Slice(Condition)),
    ),
)

Service = Struct(
    "Service",
    (
        Field("kind", STRING),
        Field("apiVersion", STRING),
        Field("metadata", ObjectMeta, True),
        Field("spec", ServiceSpec, True),
        Field("status", _ServiceStatus, True),
    ),
)
