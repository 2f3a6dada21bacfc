"""The addresses of Services: how clusterIP, clusterIPs and the IP families are completed and validated.

There is no network, so no address is allocated and every family counts as configured; what is given is kept, and is as
immutable as in kube-apiserver.

Follows pkg/registry/core/service/storage/{alloc,storage}.go and pkg/apis/core/validation/validation.go
(ValidateServiceClusterIPsRelatedFields) of kube-apiserver.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any, Final

from registry.schema.field import FieldError, duplicate, index, invalid, not_supported, required

_Spec = Mapping[str, Any]

NONE: Final = "None"
_EXTERNAL_NAME: Final = "ExternalName"
_FAMILIES: Final = ["IPv4", "IPv6"]
_POLICIES: Final = ["PreferDualStack", "RequireDualStack", "SingleStack"]
_IPS: Final = "spec.clusterIPs"
_NOT_AN_IP: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_FIXED: Final = "may not change once set"


def is_headless(spec: _Spec) -> bool:
    return spec.get("clusterIPs") == [NONE]


def complete_addresses(spec: dict[str, Any], old: _Spec | None) -> None:
    """Completes the addresses of a new or changed spec in place. `old` is the spec before a change.

    `{"clusterIP": "None", "selector": {"a": "b"}}` gets `clusterIPs: [None]`, `ipFamilies: [IPv4]` and
    `ipFamilyPolicy: SingleStack`.
    """
    if old is None:
        _complete_plural(spec)
    else:
        _drop_with_type(spec, old)
        _keep_addresses(spec, old)
        _follow_singular(spec, old)
    if spec.get("type") != _EXTERNAL_NAME:
        _complete_families(spec, old or {})


def _complete_plural(spec: dict[str, Any]) -> None:
    """Sets clusterIPs for clients that only know clusterIP (normalizeClusterIPs)."""
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]


def _drop_with_type(spec: dict[str, Any], old: _Spec) -> None:
    """Drops addresses that a change to ExternalName leaves without use (dropTypeDependentFields)."""
    if spec.get("type") != _EXTERNAL_NAME or old.get("type") == _EXTERNAL_NAME:
        return
    if all(spec.get(name) == old.get(name) for name in ("clusterIP", "clusterIPs")):
        spec.pop("clusterIP", None)
        spec.pop("clusterIPs", None)
    for name in ("ipFamilies", "ipFamilyPolicy"):
        if spec.get(name) == old.get(name):
            spec.pop(name, None)


def _keep_addresses(spec: dict[str, Any], old: _Spec) -> None:
    """Restores addresses that a client has left out (patchAllocatedValues)."""
    if _EXTERNAL_NAME in (spec.get("type"), old.get("type")):
        return
    if not spec.get("clusterIP") and old.get("clusterIP"):
        spec["clusterIP"] = old["clusterIP"]
    if not spec.get("clusterIPs") and old.get("clusterIPs") and spec.get("clusterIP") == old.get("clusterIP"):
        spec["clusterIPs"] = old["clusterIPs"]


def _follow_singular(spec: dict[str, Any], old: _Spec) -> None:
    """Makes clusterIPs follow a change of clusterIP alone (normalizeClusterIPs)."""
    if spec.get("clusterIP") == old.get("clusterIP") or (spec.get("clusterIPs") or []) != (old.get("clusterIPs") or []):
        return
    if spec.get("clusterIP"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    else:
        spec.pop("clusterIPs", None)


def _complete_families(spec: dict[str, Any], old: _Spec) -> None:
    """Sets ipFamilyPolicy and ipFamilies (initIPFamilyFields), as where IPv4 is the default family."""
    bare = spec.get("clusterIP") == NONE and not spec.get("selector")
    policy = spec.get("ipFamilyPolicy")
    if policy is None:
        policy = old.get("ipFamilyPolicy") or ("RequireDualStack" if bare else "SingleStack")
    spec["ipFamilyPolicy"] = policy
    families = list(spec.get("ipFamilies") or ())
    if policy == "SingleStack" and families == old.get("ipFamilies"):
        families = families[:1]
    if policy == "SingleStack" and spec.get("clusterIPs") and spec["clusterIPs"] == old.get("clusterIPs"):
        spec["clusterIPs"] = spec["clusterIPs"][:1]
    addresses = spec.get("clusterIPs") or ()
    if addresses and addresses[0] != NONE:
        families += [_family(address) for address in addresses[len(families) :]]
    families = families or ["IPv4"]
    if len(families) == 1 and (policy == "RequireDualStack" or (bare and policy != "SingleStack")):
        families += [family for family in _FAMILIES if family not in families][:1]
    spec["ipFamilies"] = families


def _family(address: str) -> str:
    return "IPv6" if ":" in address else "IPv4"


def address_errors(spec: _Spec) -> Iterator[FieldError]:
    """Yields the errors of clusterIP, clusterIPs, ipFamilies and ipFamilyPolicy of a completed spec."""
    if spec.get("type") == _EXTERNAL_NAME:
        return
    single, addresses = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    if single and not addresses:
        yield required(_IPS)
    elif single and addresses[0] != single:
        yield invalid(_IPS, addresses, "first value must match `clusterIP`")
    elif addresses and not single:
        yield invalid(_IPS, addresses, "must be empty when `clusterIP` is not specified")
    families = spec.get("ipFamilies") or []
    seen: set[str] = set()
    for place, family in enumerate(families):
        if family not in _FAMILIES:
            yield not_supported(index("spec.ipFamilies", place), family, _FAMILIES)
        if family in seen:
            yield duplicate(index("spec.ipFamilies", place), family)
        seen.add(family)
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _POLICIES:
        yield not_supported("spec.ipFamilyPolicy", policy, _POLICIES)
    yield from _list_errors(addresses, families)


def several_addresses_errors(spec: _Spec) -> Iterator[FieldError]:
    """Yields what an otherwise valid spec of one stack has two of (initIPFamilyFields)."""
    policy = spec.get("ipFamilyPolicy")
    if policy != "SingleStack" or spec.get("type") == _EXTERNAL_NAME:
        return
    if len(spec.get("clusterIPs") or []) == 2:
        yield _several("cluster IPs", policy)
    if len(spec.get("ipFamilies") or []) == 2:
        yield _several("IP families", policy)


def _several(what: str, policy: str) -> FieldError:
    detail = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
    return invalid("spec.ipFamilyPolicy", policy, detail)


def _list_errors(addresses: list[str], families: list[str]) -> Iterator[FieldError]:
    if addresses[:1] == [NONE]:
        if len(addresses) > 1:
            yield invalid(_IPS, addresses, "'None' must be the first and only value")
        return
    wrong = [place for place, address in enumerate(addresses) if not is_ip(address)]
    for place in wrong:
        yield not_an_ip(index(_IPS, place), addresses[place])
    if len(addresses) > 2:
        yield invalid(_IPS, addresses, "may only hold up to 2 values")
    if wrong:
        return
    actual = [_family(address) for address in addresses]
    if len(set(actual)) < len(actual):
        yield invalid(_IPS, addresses, "may specify no more than one IP for each IP family")
    for place, (address, family, wanted) in enumerate(zip(addresses, actual, families, strict=False)):
        if family != wanted:
            article = "an" if wanted in _FAMILIES else "a"
            detail = f"expected {article} {wanted} value as indicated by `ipFamilies[{place}]`"
            yield invalid(index(_IPS, place), address, detail)


def is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def address_warning(path: str, address: str) -> str:
    """Returns the warning of an IPv6 address in another form than RFC 5952's, "" without one (GetWarningsForIP)."""
    if ":" not in address or not is_ip(address) or (canonical := str(ipaddress.ip_address(address))) == address:
        return ""
    return f'{path}: IPv6 address "{address}" should be in RFC 5952 canonical format ("{canonical}")'


def not_an_ip(path: str, text: str) -> FieldError:
    return invalid(path, text, _NOT_AN_IP)


def address_change_errors(new: _Spec, old: _Spec) -> Iterator[FieldError]:
    """Yields the errors of changed addresses and families, of which the first ones never change.

    Follows validateUpgradeDowngradeClusterIPs and validateUpgradeDowngradeIPFamilies.
    """
    if _EXTERNAL_NAME in (new.get("type"), old.get("type")) or (is_headless(new) and is_headless(old)):
        return
    yield from _change_errors(new, old)
    families, had = new.get("ipFamilies") or [], old.get("ipFamilies") or []
    if is_headless(new) == is_headless(old) and families and had and families[0] != had[0]:
        yield invalid("spec.ipFamilies[0]", families, _FIXED)


def _change_errors(new: _Spec, old: _Spec) -> Iterator[FieldError]:
    now, before = new.get("clusterIPs") or [], old.get("clusterIPs") or []
    path = index(_IPS, 0)
    if len(now) == len(before):
        for place, address in enumerate(before):
            if now[place] != address:
                yield invalid(index(_IPS, place), now, _FIXED)
        return
    if not now:
        yield invalid(path, now, "primary clusterIP can not be unset")
    elif before and now[0] != before[0]:
        yield invalid(path, now, _FIXED)
    if len(now) == 1 and len(before) > 1 and new.get("ipFamilyPolicy") != "SingleStack":
        detail = "must be set to 'SingleStack' when releasing the secondary clusterIP"
        yield invalid("spec.ipFamilyPolicy", new.get("ipFamilyPolicy"), detail)
