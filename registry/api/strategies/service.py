"""Services as plain data: nothing here routes to them, but clients list and describe them.

Follows pkg/apis/core/v1/defaults.go (SetDefaults_Service) and pkg/registry/core/service/strategy.go of kube-apiserver.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from registry.api.errors import Qualified
from registry.api.errors import invalid as invalid_object
from registry.api.strategies.base import Context, Object
from registry.api.strategies.builtin import StructStrategy
from registry.api.strategies.legacy_addresses import ip_warnings
from registry.api.strategies.service_addresses import address_change_errors, complete_addresses
from registry.api.strategies.service_rules import (
    change_errors,
    is_externally_accessible,
    load_balancer_errors,
    needs_health_check,
    service_errors,
    service_warnings,
)
from registry.builtin.structs import CORE
from registry.schema.field import ErrorType, FieldError, index
from registry.schema.names import NameFunction, name_is_dns_label


class ServiceStrategy(StructStrategy):
    struct = CORE["Service"]
    checks_finalizers = True
    returns_deleted_object = True
    allow_create_on_update = True
    # The servers of APIServices are checked when their services change.
    controlled = True
    # Not stored with the labels of rows: services of older releases lack them there.
    scanned_fields = ("spec.clusterIP", "spec.type")

    def part(self, subresource: str) -> StructStrategy:
        return ServiceStatusStrategy(self.definition, self.version) if subresource == "status" else self

    def name_function(self) -> NameFunction:
        return name_is_dns_label

    def decode(self, obj: Object, unknown: list[str], old: Object | None = None) -> Object:
        """Decodes a service without its empty fields, which protobuf clients send."""
        service = self.decode_struct(obj, unknown)
        if "spec" in service:  # before the schema's defaults, which an empty `protocol` has
            service["spec"] = CORE["ServiceSpec"].encode(service["spec"])
        obj = super().decode(service, unknown)
        obj["status"] = CORE["ServiceStatus"].encode(obj.get("status") or {})  # Go's struct always has one
        _default(obj)
        return obj

    def prepare_for_create(self, obj: Object, context: Context) -> None:
        super().prepare_for_create(obj, context)
        obj["status"] = {"loadBalancer": {}}
        _complete(obj, None)

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        super().prepare_for_update(new, old, context)
        new["status"] = old.get("status") or {"loadBalancer": {}}
        _keep_ports(new["spec"], old.get("spec") or {})
        _complete(new, old)
        _drop_unused(new["spec"], old.get("spec") or {})
        if new["spec"].get("type") != "LoadBalancer":
            new["status"] = {**new["status"], "loadBalancer": {}}

    def validate(self, obj: Object) -> Sequence[FieldError]:
        return [*_without_ports(super().validate(obj)), *service_errors(obj, None)]

    def warnings(self, new: Object, old: Object | None) -> Sequence[str]:
        return list(service_warnings(new))

    def validate_update(self, new: Object, old: Object, warnings: list[str]) -> Sequence[FieldError]:
        return [*_without_ports(super().validate_update(new, old, warnings)), *self.change_errors(new, old)]

    def change_errors(self, new: Object, old: Object) -> Iterable[FieldError]:
        """Validates what changes: what does not was valid under the rules of its time."""
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        if spec != before:
            yield from address_change_errors(spec, before)
            yield from change_errors(spec, before)
        if spec != before or new["metadata"].get("annotations") != old["metadata"].get("annotations"):
            yield from service_errors(new, old)


class ServiceStatusStrategy(ServiceStrategy):
    """/status: only the status can change."""

    def warnings(self, new: Object, old: Object | None) -> Sequence[str]:
        ingress = _load_balancer(new).get("ingress") or ()
        path = "status.loadBalancer.ingress"
        return [w for i, one in enumerate(ingress) for w in ip_warnings(index(path, i), one.get("ip") or "")]

    def prepare_for_create(self, obj: Object, context: Context) -> None:
        """Completes no addresses: that is a hook of the other store upstream, which a PUT to /status does not pass."""
        obj["status"] = {"loadBalancer": {}}

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        new["spec"] = old.get("spec") or {}
        new["status"] = new.get("status") or {"loadBalancer": {}}

    def change_errors(self, new: Object, old: Object) -> Iterable[FieldError]:
        return load_balancer_errors(_load_balancer(new), _load_balancer(old), new["spec"].get("type", ""))


def _load_balancer(service: Object) -> Object:
    return (service.get("status") or {}).get("loadBalancer") or {}


def _complete(new: Object, old: Object | None) -> None:
    """Completes the addresses, and drops a valid policy for what no cluster IP receives. Raises a StatusError for
    addresses that do not fit together (initIPFamilyFields)."""
    spec = new["spec"]
    if spec.get("type") == "ExternalName" and spec.get("internalTrafficPolicy") in ("Cluster", "Local"):
        del spec["internalTrafficPolicy"]
    errors = complete_addresses(new["spec"], None if old is None else old.get("spec") or {})
    if errors:
        raise invalid_object(Qualified("Service"), new["metadata"].get("name") or "", errors)


def _without_ports(errors: Sequence[FieldError]) -> list[FieldError]:
    """Drops what the schema, made for applies, says of ports that occur twice: the rules report them in their words."""
    return [e for e in errors if e.type is not ErrorType.DUPLICATE or not e.field.startswith("spec.ports[")]


def _default(obj: Object) -> None:
    """Applies the defaults that depend on other fields (SetDefaults_Service); the schema has the others."""
    spec = obj["spec"] = dict(obj.get("spec") or {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    if spec.get("sessionAffinity") == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec.get("sessionAffinity") == "ClientIP":
        config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if config.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}
    if spec.get("ports"):
        spec["ports"] = [{**port, "targetPort": port.get("targetPort") or port.get("port")} for port in spec["ports"]]
    if is_externally_accessible(spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] in ("ClusterIP", "LoadBalancer", "NodePort"):
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        if spec.get("allocateLoadBalancerNodePorts") is None:
            spec["allocateLoadBalancerNodePorts"] = True
        for ingress in ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ():
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")


def _keep_ports(spec: Object, old: Object) -> None:
    """Restores ports of nodes that a client has left out (patchAllocatedValues)."""
    if _uses_node_ports(spec) and _uses_node_ports(old):
        had = {port.get("name"): port.get("nodePort") for port in old.get("ports") or ()}
        used = {port.get("nodePort") for port in spec.get("ports") or ()}
        for port in spec.get("ports") or ():
            number = had.get(port.get("name"))
            if not port.get("nodePort") and number and number not in used:
                port["nodePort"] = number
    health = "healthCheckNodePort"
    if needs_health_check(spec) and needs_health_check(old) and not spec.get(health) and old.get(health):
        spec[health] = old[health]


def _uses_node_ports(spec: Object) -> bool:
    type_ = spec.get("type")
    return type_ == "NodePort" or (type_ == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False)


def _drop_unused(spec: Object, old: Object) -> None:
    """Drops fields that a change of the type leaves without use, unless they change too (dropTypeDependentFields)."""
    balanced = old.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer"
    for name in ("allocateLoadBalancerNodePorts", "loadBalancerClass") if balanced else ():
        if spec.get(name) == old.get(name):
            spec.pop(name, None)
    policy = "externalTrafficPolicy"
    if is_externally_accessible(old) and not is_externally_accessible(spec) and spec.get(policy) == old.get(policy):
        spec.pop(policy, None)
    health = "healthCheckNodePort"
    if needs_health_check(old) and not needs_health_check(spec) and spec.get(health) == old.get(health):
        spec.pop(health, None)
    if spec.get("type") not in _WITH_NODE_PORTS and old.get("type") in _WITH_NODE_PORTS:
        had = {port.get("nodePort") for port in old.get("ports") or ()}
        if all(port.get("nodePort") in had for port in spec.get("ports") or () if port.get("nodePort")):
            spec["ports"] = [{k: v for k, v in port.items() if k != "nodePort"} for port in spec.get("ports") or ()]


_AFFINITY_SECONDS = 10800  # DefaultClientIPServiceAffinitySeconds
_WITH_NODE_PORTS = ("LoadBalancer", "NodePort")
