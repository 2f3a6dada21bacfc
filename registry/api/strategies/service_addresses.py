"""The addresses of Services: how clusterIP, clusterIPs and the IP families are completed and validated.

There is no network, so no address is allocated and every family counts as configured; what is given is kept, and is as
immutable as in kube-apiserver.

Follows pkg/registry/core/service/storage/{alloc,storage}.go and pkg/apis/core/validation/validation.go
(ValidateServiceClusterIPsRelatedFields) of kube-apiserver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from registry.api.strategies.legacy_addresses import ip_errors, is_ipv6
from registry.schema.field import FieldError, duplicate, index, invalid, not_supported, required

_Spec = Mapping[str, Any]

NONE: Final = "None"
_EXTERNAL_NAME: Final = "ExternalName"
_FAMILIES: Final = ["IPv4", "IPv6"]
_SINGLE, _PREFER, _REQUIRE = "SingleStack", "PreferDualStack", "RequireDualStack"
_POLICIES: Final = [_PREFER, _REQUIRE, _SINGLE]
_IPS: Final = "spec.clusterIPs"
_POLICY: Final = "spec.ipFamilyPolicy"
_FIXED: Final = "may not change once set"


def is_headless(spec: _Spec) -> bool:
    return spec.get("clusterIPs") == [NONE]


def complete_addresses(spec: dict[str, Any], old: _Spec | None) -> list[FieldError]:
    """Completes the addresses of a new or changed spec in place. `old` is the spec before a change.

    `{"clusterIP": "None", "selector": {"a": "b"}}` gets `clusterIPs: [None]`, `ipFamilies: [IPv4]` and
    `ipFamilyPolicy: SingleStack`. Returns the errors of addresses that do not fit together, which are reported alone.
    """
    if old is None:
        _complete_plural(spec)
    else:
        _keep_addresses(spec, old)
        _follow_singular(spec, old)
    errors = [] if spec.get("type") == _EXTERNAL_NAME else _complete_families(spec, old)
    if old is not None and not errors:
        _drop_with_type(spec, old)
    return errors


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
    for name in ("clusterIP", "clusterIPs"):
        if not spec.get(name) and old.get(name):
            spec[name] = old[name]


def _follow_singular(spec: dict[str, Any], old: _Spec) -> None:
    """Makes clusterIPs follow a change of clusterIP alone (normalizeClusterIPs)."""
    if spec.get("clusterIP") == old.get("clusterIP"):
        if not spec.get("clusterIPs") and old.get("clusterIPs"):
            spec["clusterIPs"] = old["clusterIPs"]
    elif (spec.get("clusterIPs") or []) == (old.get("clusterIPs") or []):
        if spec.get("clusterIP"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        else:
            spec.pop("clusterIPs", None)


def _complete_families(spec: dict[str, Any], old: _Spec | None) -> list[FieldError]:
    """Sets ipFamilyPolicy and ipFamilies (initIPFamilyFields), as where IPv4 is the default family."""
    if old is not None and _keeps_both_if_possible(spec, old):
        return []
    bare = spec.get("clusterIP") == NONE and not spec.get("selector")
    policy = spec.get("ipFamilyPolicy")
    if policy is None:
        policy = (old or {}).get("ipFamilyPolicy") or (_REQUIRE if bare else _SINGLE)
    spec["ipFamilyPolicy"] = policy
    errors = list(address_errors(spec, old)) or list(_stack_errors(spec, old))
    if errors:
        return errors
    families, addresses = list(spec.get("ipFamilies") or ()), spec.get("clusterIPs") or ()
    if addresses and addresses[0] != NONE:
        families += [_family(address) for address in addresses[len(families) :]]
    families = families or _FAMILIES[:1]
    if len(families) == 1 and (policy == _REQUIRE or (bare and policy != _SINGLE)):
        families += [family for family in _FAMILIES if family not in families]
    spec["ipFamilies"] = families
    return []


def _keeps_both_if_possible(spec: _Spec, old: _Spec) -> bool:
    """Whether nothing changes of addresses with PreferDualStack (isMatchingPreferDualStackClusterIPFields)."""
    same = all((spec.get(name) or []) == (old.get(name) or []) for name in ("type", "clusterIPs", "ipFamilies"))
    return same and spec.get("ipFamilyPolicy") == _PREFER and old.get("ipFamilyPolicy") in (None, _PREFER)


def _stack_errors(spec: dict[str, Any], old: _Spec | None) -> Iterator[FieldError]:
    """Yields the errors of a policy that does not fit the numbers of addresses and families.

    One stack instead of two releases the second address and family, if nothing else changes.
    """
    policy = spec["ipFamilyPolicy"]
    for name, what, whole in (("clusterIPs", "cluster IP", "cluster IPs"), ("ipFamilies", "IP family", "IP families")):
        values, before = spec.get(name) or [], (old or {}).get(name) or []
        if policy == _SINGLE and old is not None and values == before and len(values) > 1:
            spec[name] = values = values[:1]
        if policy != _SINGLE and values and len(values) < len(before):
            yield invalid(_POLICY, policy, f"must be '{_SINGLE}' to release the secondary {what}")
        if policy == _SINGLE and len(values) == 2:
            detail = f"must be '{_REQUIRE}' or '{_PREFER}' when multiple {whole} are specified"
            yield invalid(_POLICY, policy, detail)


def _family(address: str) -> str:
    return _FAMILIES[is_ipv6(address)]


def address_errors(spec: _Spec, old: _Spec | None) -> Iterator[FieldError]:
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
        yield not_supported(_POLICY, policy, _POLICIES)
    yield from _list_errors(addresses, families, (old or {}).get("clusterIPs") or [])


def _list_errors(addresses: list[str], families: list[str], before: list[str]) -> Iterator[FieldError]:
    wrong = False
    for place, address in enumerate(addresses):
        if place == 0 and address == NONE:
            if len(addresses) > 1:
                wrong = True
                yield invalid(_IPS, addresses, "'None' must be the first and only value")
            continue
        for error in ip_errors(index(_IPS, place), address, before):
            wrong = True
            yield error
    if len(addresses) > 2:
        yield invalid(_IPS, addresses, "may only hold up to 2 values")
    if wrong or addresses == [NONE]:
        return
    actual = [_family(address) for address in addresses]
    if len(set(actual)) < len(actual):
        yield invalid(_IPS, addresses, "may specify no more than one IP for each IP family")
    for place, (address, family, wanted) in enumerate(zip(addresses, actual, families, strict=False)):
        if wanted in _FAMILIES and family != wanted:
            detail = f"expected an {wanted} value as indicated by `ipFamilies[{place}]`"
            yield invalid(index(_IPS, place), address, detail)


def address_change_errors(new: _Spec, old: _Spec) -> Iterator[FieldError]:
    """Yields the errors of changed addresses and families, of which the first ones never change.

    Follows validateUpgradeDowngradeClusterIPs and validateUpgradeDowngradeIPFamilies.
    """
    if _EXTERNAL_NAME in (new.get("type"), old.get("type")) or (is_headless(new) and is_headless(old)):
        return
    yield from _change_errors(new, old)
    if not is_headless(new) and not is_headless(old):
        yield from _family_change_errors(new, old)


def _family_change_errors(new: _Spec, old: _Spec) -> Iterator[FieldError]:
    families, had = new.get("ipFamilies") or [], old.get("ipFamilies") or []
    path = index("spec.ipFamilies", 0)
    if len(families) == len(had):
        yield from (invalid(path, families, _FIXED) for now, before in zip(families, had, strict=True) if now != before)
        return
    if families and had and families[0] != had[0]:
        yield invalid(path, new.get("clusterIPs"), _FIXED)
    if len(families) == 1 and len(had) > 1 and new.get("ipFamilyPolicy") != _SINGLE:
        detail = f"must be set to '{_SINGLE}' when releasing the secondary ipFamily"
        yield invalid(_POLICY, new.get("ipFamilyPolicy"), detail)


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
    if len(now) == 1 and len(before) > 1 and new.get("ipFamilyPolicy") != _SINGLE:
        detail = f"must be set to '{_SINGLE}' when releasing the secondary clusterIP"
        yield invalid(_POLICY, new.get("ipFamilyPolicy"), detail)
