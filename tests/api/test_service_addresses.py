"""Addresses of Services: validation of long lists takes linear time."""

from __future__ import annotations

from registry.api.strategies.service_addresses import address_errors


class _Counted(str):
    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        _Counted.comparisons += 1
        return str.__eq__(self, other)


def test_address_families_are_compared_in_linear_time() -> None:
    families = [_Counted(f"family {i}") for i in range(1000)] * 2
    errors = list(address_errors({"type": "ClusterIP", "ipFamilies": families}, None))
    assert [error.type.name for error in errors] == ["NOT_SUPPORTED"] * 1000 + ["NOT_SUPPORTED", "DUPLICATE"] * 1000
    assert _Counted.comparisons < 20_000
