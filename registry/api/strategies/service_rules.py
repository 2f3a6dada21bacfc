"""Validation of Services, as far as it needs no network: ports, types, names, addresses.

Follows pkg/apis/core/validation/validation.go (validateService) of kube-apiserver.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from registry.api.strategies.legacy_addresses import (
    cidr_errors,
    cidr_warnings,
    endpoint_ip_errors,
    ip_errors,
    ip_warnings,
    is_ip,
)
from registry.api.strategies.service_addresses import address_errors, is_headless
from registry.codec.go_text import GoText, go_json
from registry.schema.field import FieldError, duplicate, forbidden, index, invalid, not_supported, required
from registry.schema.names import dns1123_label, dns1123_subdomain, label_key
from registry.schema.objectmeta.rules import label_errors

_Object = Mapping[str, Any]

_EXTERNAL_NAME: Final = "ExternalName"
_LOAD_BALANCER: Final = "LoadBalancer"
_TYPES: Final = ["ClusterIP", _EXTERNAL_NAME, _LOAD_BALANCER, "NodePort"]
_IP_MODES: Final = ["Proxy", "VIP"]
_PROTOCOLS: Final = ["SCTP", "TCP", "UDP"]
_AFFINITIES: Final = ["ClientIP", "None"]
_TRAFFIC: Final = ["Cluster", "Local"]
_DISTRIBUTIONS: Final = ["PreferClose", "PreferSameZone", "PreferSameNode"]
_OF_LOAD_BALANCERS: Final = "may only be used when `type` is 'LoadBalancer'"
_NOT_OF_EXTERNAL_NAMES: Final = "may not be set for ExternalName services"
_PORT_RANGE: Final = "must be between 1 and 65535, inclusive"
_MAX_AFFINITY_SECONDS: Final = 86400


def service_errors(service: _Object, old: _Object | None) -> Iterator[FieldError]:
    """Yields the errors of a defaulted Service without its metadata, in kube-apiserver's order."""
    annotations, spec = service["metadata"].get("annotations") or {}, service.get("spec") or {}
    before = (old or {}).get("spec") or {}
    hints, mode = annotations.get(_TOPOLOGY_HINTS), annotations.get(_TOPOLOGY_MODE)
    if hints is not None and mode is not None and hints != mode:
        detail = f"must match annotations[{_TOPOLOGY_HINTS}] when both are specified"
        yield invalid(f"metadata.annotations[{_TOPOLOGY_MODE}]", mode, detail)
    yield from _spec_errors(spec, before)
    balanced = spec.get("type") == _LOAD_BALANCER
    yield from _source_range_errors(service, old, balanced=balanced)
    if spec.get("allocateLoadBalancerNodePorts") is not None and not balanced:
        yield forbidden("spec.allocateLoadBalancerNodePorts", _OF_LOAD_BALANCERS)
    yield from _class_errors(spec, {})
    yield from _traffic_errors(spec)


def change_errors(spec: _Object, old: _Object) -> Iterator[FieldError]:
    """Yields the errors of changes of a Service that was a load balancer before."""
    yield from _class_errors(spec, old)
    port = "healthCheckNodePort"
    if needs_health_check(spec) and needs_health_check(old) and spec.get(port) != old.get(port):
        yield forbidden(f"spec.{port}", "field is immutable")


def _spec_errors(spec: _Object, before: _Object) -> Iterator[FieldError]:
    ports: Sequence[_Object] = spec.get("ports") or ()
    type_ = spec.get("type", "")
    headless = is_headless(spec)
    if not ports and not headless and type_ != _EXTERNAL_NAME:
        yield required("spec.ports")
    if headless and type_ in (_LOAD_BALANCER, "NodePort"):
        yield invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {type_} services")
    if type_ == _EXTERNAL_NAME:
        yield from _external_name_errors(spec)
    names: set[str] = set()
    for place, port in enumerate(ports):
        yield from _port_errors(port, index("spec.ports", place), names, has_name=len(ports) > 1)
    yield from label_errors(spec.get("selector") or {}, "spec.selector")
    yield from _affinity_errors(spec)
    yield from address_errors(spec, before)
    for place, address in enumerate(spec.get("externalIPs") or ()):
        yield from endpoint_ip_errors(index("spec.externalIPs", place), address, before.get("externalIPs") or ())
    if type_ not in _TYPES:
        yield not_supported("spec.type", type_, _TYPES) if type_ else required("spec.type")
    if type_ == "ClusterIP":
        for place, port in enumerate(ports):
            if port.get("nodePort"):
                yield forbidden(f"{index('spec.ports', place)}.nodePort", "may not be used when `type` is 'ClusterIP'")
    yield from _duplicates(ports)


def _source_range_errors(service: _Object, old: _Object | None, *, balanced: bool) -> Iterator[FieldError]:
    """Yields the errors of the source ranges: those of the annotation, if the spec has none."""
    ranges, had = (((one or {}).get("spec") or {}).get("loadBalancerSourceRanges") or [] for one in (service, old))
    text, before = (
        (((one or {}).get("metadata") or {}).get("annotations") or {}).get(_RANGES) for one in (service, old)
    )
    path = "spec.LoadBalancerSourceRanges" if ranges else f"metadata.annotations[{_RANGES}]"
    if not ranges and text is None:
        return
    if not balanced:
        yield forbidden(path, _OF_LOAD_BALANCERS)
    valid = {one.strip() for one in had}
    for place, one in enumerate(ranges):
        yield from cidr_errors(index(path, place), one.strip(), valid)
    if not ranges and text and text.strip() and text != before:
        for one in text.strip().split(","):
            yield from cidr_errors(path, one.strip())


def _class_errors(spec: _Object, old: _Object) -> Iterator[FieldError]:
    """Yields the errors of loadBalancerClass: of its form, and of a change while the type is LoadBalancer."""
    path, name = "spec.loadBalancerClass", spec.get("loadBalancerClass")
    balanced = spec.get("type") == _LOAD_BALANCER
    if balanced and old.get("type") == _LOAD_BALANCER and name != old.get("loadBalancerClass"):
        yield invalid(path, name, "may not change once set")
    if name is None:
        return
    if not balanced:
        yield forbidden(path, _OF_LOAD_BALANCERS)
        return
    for problem in label_key(name):
        yield invalid(path, name, problem)


def load_balancer_errors(status: _Object, before: _Object, type_: str) -> Iterator[FieldError]:
    """Yields the errors of `status.loadBalancer` (ValidateLoadBalancerStatus)."""
    path = "status.loadBalancer.ingress"
    entries: Sequence[_Object] = status.get("ingress") or ()
    if entries and type_ != _LOAD_BALANCER:
        yield forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")
        return
    had = {one.get("ip") for one in before.get("ingress") or ()}
    for place, entry in enumerate(entries):
        at, ip, mode, name = index(path, place), entry.get("ip"), entry.get("ipMode"), entry.get("hostname")
        if ip:
            yield from ip_errors(f"{at}.ip", ip, had)
        if mode is None and ip:
            yield required(f"{at}.ipMode", "must be specified when `ip` is set")
        elif mode is not None and not ip:
            yield forbidden(f"{at}.ipMode", "may not be specified when `ip` is not set")
        elif mode is not None and mode not in _IP_MODES:
            yield not_supported(f"{at}.ipMode", mode, _IP_MODES)
        for problem in dns1123_subdomain(name) if name else ():
            yield invalid(f"{at}.hostname", name, problem)
        if name and is_ip(name):
            yield invalid(f"{at}.hostname", name, "must be a DNS name, not an IP address")


def is_externally_accessible(spec: _Object) -> bool:
    """Follows pkg/api/v1/service/util.go (ExternallyAccessible)."""
    type_ = spec.get("type")
    return type_ in ("LoadBalancer", "NodePort") or (type_ == "ClusterIP" and bool(spec.get("externalIPs")))


def _traffic_errors(spec: _Object) -> Iterator[FieldError]:
    external, internal = spec.get("externalTrafficPolicy") or "", spec.get("internalTrafficPolicy")
    if not is_externally_accessible(spec):
        if external:
            detail = "may only be set for externally-accessible services"
            yield invalid("spec.externalTrafficPolicy", external, detail)
    elif external not in _TRAFFIC:
        yield not_supported("spec.externalTrafficPolicy", external, _TRAFFIC)
    port = spec.get("healthCheckNodePort")
    if port and not needs_health_check(spec):
        detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield invalid("spec.healthCheckNodePort", port, detail)
    elif port and not _is_port(port):
        yield invalid("spec.healthCheckNodePort", port, _PORT_RANGE)
    if internal is not None and internal not in _TRAFFIC:
        yield not_supported("spec.internalTrafficPolicy", internal, _TRAFFIC)
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        yield not_supported("spec.trafficDistribution", distribution, _DISTRIBUTIONS)


def needs_health_check(spec: _Object) -> bool:
    return spec.get("type") == _LOAD_BALANCER and spec.get("externalTrafficPolicy") == "Local"


def _external_name_errors(spec: _Object) -> Iterator[FieldError]:
    for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(name) or (name == "ipFamilyPolicy" and spec.get(name) is not None):
            yield forbidden(f"spec.{name}", _NOT_OF_EXTERNAL_NAMES)
    name = (spec.get("externalName") or "").removesuffix(".")
    if not name:
        yield required("spec.externalName")
    for problem in dns1123_subdomain(name) if name else ():
        yield invalid("spec.externalName", name, problem)


def _port_errors(port: _Object, path: str, names: set[str], *, has_name: bool) -> Iterator[FieldError]:
    name = port.get("name") or ""
    if name:
        for problem in dns1123_label(name):
            yield invalid(f"{path}.name", name, problem)
        if name in names:
            yield duplicate(f"{path}.name", name)
        names.add(name)
    elif has_name:
        yield required(f"{path}.name")
    number = port.get("port") or 0
    if not _is_port(number):
        yield invalid(f"{path}.port", number, _PORT_RANGE)
    protocol = port.get("protocol") or ""
    if protocol not in _PROTOCOLS:
        yield not_supported(f"{path}.protocol", protocol, _PROTOCOLS) if protocol else required(f"{path}.protocol")
    target = port.get("targetPort") or 0
    for problem in _target_problems(target):
        yield invalid(f"{path}.targetPort", target, problem)
    protocol_name = port.get("appProtocol")
    for problem in label_key(protocol_name) if protocol_name is not None else ():
        yield invalid(f"{path}.appProtocol", protocol_name, problem)


def _is_port(number: int) -> bool:
    return 1 <= number <= 65535


def _target_problems(target: int | str) -> Iterator[str]:
    if isinstance(target, str):
        yield from _port_name_problems(target)
    elif not _is_port(target):
        yield _PORT_RANGE


def _port_name_problems(name: str) -> Iterator[str]:
    """Follows apimachinery pkg/util/validation (IsValidPortName)."""
    if len(name) > 15:
        yield "must be no more than 15 characters"
    if not re.fullmatch(r"[-a-z0-9]+", name):
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not re.search(r"[a-z]", name):
        yield "must contain at least one letter (a-z)"
    if "--" in name:
        yield "must not contain consecutive hyphens"
    if name.startswith("-") or name.endswith("-"):
        yield "must not begin or end with a hyphen"


def _affinity_errors(spec: _Object) -> Iterator[FieldError]:
    path = "spec.sessionAffinity"
    affinity, config = spec.get("sessionAffinity") or "", spec.get("sessionAffinityConfig")
    if affinity not in _AFFINITIES:
        yield not_supported(path, affinity, _AFFINITIES) if affinity else required(path)
    if affinity == "None" and config is not None:
        yield forbidden(f"{path}Config", "must not be set when session affinity is None")
    if affinity == "ClientIP":
        seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds")
        if seconds is not None and not 0 < seconds <= _MAX_AFFINITY_SECONDS:
            yield invalid(
                f"{path}Config.clientIP.timeoutSeconds",
                seconds,
                f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}",
            )


def _duplicates(ports: Sequence[_Object]) -> Iterator[FieldError]:
    """Yields node ports that two ports of one protocol use, and ports that occur twice."""
    seen: set[tuple[str, int]] = set()
    for place, port in enumerate(ports):
        number = port.get("nodePort")
        if not number:
            continue
        pair = (port.get("protocol") or "", number)
        if pair in seen:
            yield duplicate(f"{index('spec.ports', place)}.nodePort", number)
        seen.add(pair)
    seen.clear()
    for place, port in enumerate(ports):
        pair = protocol, number = port.get("protocol") or "", port.get("port") or 0
        if pair in seen:
            quoted = f'"Protocol":{go_json(protocol)},"AppProtocol":null,"Port":{number}'  # of Go's internal struct
            yield duplicate(index("spec.ports", place), GoText(f'{{"Name":"",{quoted},"TargetPort":0,"NodePort":0}}'))
        seen.add(pair)


def service_warnings(service: _Object) -> Iterator[str]:
    """Yields the warnings of a valid Service (GetWarningsForService)."""
    spec = service.get("spec") or {}
    if _TOPOLOGY_HINTS in (service["metadata"].get("annotations") or {}):
        yield f"annotation {_TOPOLOGY_HINTS} is deprecated, please use {_TOPOLOGY_MODE} instead"
    headless, external = is_headless(spec), spec.get("externalIPs") or []
    if not headless:
        yield from _address_warnings("spec.clusterIPs", spec.get("clusterIPs") or [])
    if headless and spec.get("loadBalancerIP"):
        yield "spec.loadBalancerIP is ignored for headless services"
    if headless and external:
        yield "spec.externalIPs is ignored for headless services"
    if headless and spec.get("sessionAffinity") != "None":
        yield "spec.SessionAffinity is ignored for headless services"
    yield from _address_warnings("spec.externalIPs", external)
    is_name = spec.get("type") == _EXTERNAL_NAME
    if external and not headless and not is_name:
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    yield from ip_warnings("spec.loadBalancerIP", spec.get("loadBalancerIP") or "")
    for place, text in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        yield from cidr_warnings(index("spec.loadBalancerSourceRanges", place), text)
    if external and is_name:
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    if spec.get("externalName") and not is_name:
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _address_warnings(path: str, addresses: Sequence[str]) -> Iterator[str]:
    for place, address in enumerate(addresses):
        yield from ip_warnings(index(path, place), address)


_TOPOLOGY_HINTS: Final = "service.kubernetes.io/topology-aware-hints"
_TOPOLOGY_MODE: Final = "service.kubernetes.io/topology-mode"
_RANGES: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"
