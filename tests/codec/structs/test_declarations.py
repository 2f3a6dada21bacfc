"""Files that declare Go structs: every type is resolved, and inlined fields show their struct in errors."""

from __future__ import annotations

import pytest

from registry.builtin import structs as builtin
from registry.codec.structs import declarations
from registry.codec.structs.base import StructDecodeError
from registry.codec.structs.structs import decode, encode


@pytest.mark.parametrize(
    "body, message",
    [
        pytest.param({"webhooks": [{"name": 1}]}, "ValidatingWebhook.webhooks.name of type string", id="a field"),
        pytest.param({"webhooks": 1}, "webhooks of type []v1.ValidatingWebhook", id="a list of structs"),
        pytest.param(
            {"webhooks": [{"failurePolicy": 1}]},
            "webhooks.failurePolicy of type v1.FailurePolicyType",
            id="a named string",
        ),
        pytest.param(
            {"webhooks": [{"rules": [{"scope": 1}]}]},
            "RuleWithOperations.webhooks.rules.Rule.scope of type v1.ScopeType",
            id="a field of an inlined struct",
        ),
    ],
)
def test_errors_name_the_declared_types(body: object, message: str) -> None:
    with pytest.raises(StructDecodeError) as raised:
        decode(builtin.ADMISSION_REGISTRATION["ValidatingWebhookConfiguration"], body)
    assert str(raised.value).endswith(message)


def test_fields_without_omitempty_are_written() -> None:
    assert encode(builtin.RBAC["PolicyRule"], {}) == {"verbs": None}


def test_an_undeclared_type_is_an_error() -> None:
    with pytest.raises(LookupError, match="the type metav1"):
        declarations.read_structs(builtin.__name__, "coordination_v1.txt", {})
