"""Addresses of services that were accepted before validation was strict."""

from __future__ import annotations

from registry.api.strategies.legacy_addresses import cidr_errors, cidr_warnings, ip_errors, ip_warnings


def test_addresses_of_before_stay_valid_with_a_warning() -> None:
    """Before 1.36 new ones were accepted, too."""
    at = "spec.x"
    for text, warnings in {
        "010.1.2.3": [f'{at}: non-standard IP address "010.1.2.3" is invalid: use "10.1.2.3"'],
        "::ffff:10.1.2.3": [f'{at}: non-standard IP address "::ffff:10.1.2.3" is invalid: use "10.1.2.3"'],
    }.items():
        assert ip_errors(at, text, ()) != []
        assert ip_errors(at, text, [text]) == []
        assert list(ip_warnings(at, text)) == warnings
    for text, warnings in {
        "10.0.0.1/8": [
            f'{at}: CIDR value "10.0.0.1/8" is ambiguous in this context (should be "10.0.0.0/8" or "10.0.0.1/32"?)'
        ],
        "10.0.0.0/08": [f'{at}: non-standard CIDR value "10.0.0.0/08" is invalid: use "10.0.0.0/8"'],
        "::ffff:10.0.0.0/104": [f'{at}: non-standard CIDR value "::ffff:10.0.0.0/104" is invalid: use "10.0.0.0/8"'],
    }.items():
        assert cidr_errors(at, text) != []
        assert cidr_errors(at, text, [text]) == []
        assert list(cidr_warnings(at, text)) == warnings
