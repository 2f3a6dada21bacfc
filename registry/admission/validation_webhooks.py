"""Validation of webhook configurations.

Follows kubernetes pkg/apis/admissionregistration/validation/validation.go at v1.36. An update may keep errors that the
old configuration already has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from registry.admission.selectors import selector_errors
from registry.admission.validation_rules import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    REINVOCATION_POLICIES,
    condition_errors,
    enum_errors,
    rule_errors,
)
from registry.definitions.conversion import review_version_names, validate_webhook_client, webhook_urls
from registry.schema.field import FieldError, duplicate, invalid, required
from registry.schema.names import dns1123_subdomain

Json = Mapping[str, Any]

_NO_SIDE_EFFECTS: Final = ["None", "NoneOnDryRun"]
_REVIEWS: Final = ("v1", "v1beta1")


@dataclass(frozen=True, slots=True)
class _Leniency:
    """Checks that are skipped because the old configuration does not satisfy them either."""

    side_effects: bool = False
    reviews: bool = False
    names: bool = False
    selectors: bool = False
    conditions: bool = False
    urls: frozenset[str] = frozenset()


def webhook_configuration_errors(configuration: Json, old: Json | None = None) -> list[FieldError]:
    webhooks = configuration.get("webhooks") or []
    lenient = _leniency(webhooks, old.get("webhooks") or []) if old is not None else _Leniency()
    errors = []
    seen: set[str] = set()
    for i, webhook in enumerate(webhooks):
        path, name = f"webhooks[{i}]", webhook.get("name") or ""
        errors += _webhook_errors(webhook, path, lenient)
        versions = webhook.get("admissionReviewVersions") or []
        errors += _review_errors(versions, f"{path}.admissionReviewVersions", lenient)
        if name and not lenient.names:
            if name in seen:
                errors.append(duplicate(f"{path}.name", name))
            seen.add(name)
    return errors


def _leniency(webhooks: list[Json], old: list[Json]) -> _Leniency:
    names = [webhook.get("name") for webhook in old]
    return _Leniency(
        side_effects=any(webhook.get("sideEffects") not in _NO_SIDE_EFFECTS for webhook in old),
        reviews=any(
            versions and not set(versions) & set(_REVIEWS)
            for versions in (webhook.get("admissionReviewVersions") for webhook in old)
        ),
        names=len(set(names)) < len(names),
        selectors=any(
            selector_errors(webhook.get(name), "")
            for webhook in old
            for name in ("namespaceSelector", "objectSelector")
        ),
        conditions=len(webhooks) == len(old)
        and all(
            new.get("matchConditions") == before.get("matchConditions")
            for new, before in zip(webhooks, old, strict=True)
        ),
        urls=webhook_urls(old),
    )


def _webhook_errors(webhook: Json, path: str, lenient: _Leniency) -> list[FieldError]:
    errors = _name_errors(webhook.get("name") or "", f"{path}.name")
    for i, rule in enumerate(webhook.get("rules") or ()):
        errors += rule_errors(rule, f"{path}.rules[{i}]")
    errors += enum_errors(webhook.get("failurePolicy"), FAILURE_POLICIES, f"{path}.failurePolicy")
    errors += enum_errors(webhook.get("matchPolicy"), MATCH_POLICIES, f"{path}.matchPolicy")
    supported = ["None", "NoneOnDryRun", "Some", "Unknown"] if lenient.side_effects else _NO_SIDE_EFFECTS
    if webhook.get("sideEffects") is None:
        errors.append(required(f"{path}.sideEffects", f"must specify one of {', '.join(supported)}"))
    else:
        errors += enum_errors(webhook["sideEffects"], supported, f"{path}.sideEffects")
    timeout = webhook.get("timeoutSeconds")
    if timeout is not None and not 1 <= timeout <= 30:
        errors.append(invalid(f"{path}.timeoutSeconds", timeout, "the timeout value must be between 1 and 30 seconds"))
    for name in ("namespaceSelector", "objectSelector"):
        errors += selector_errors(webhook.get(name), f"{path}.{name}", any_value=lenient.selectors)
    errors += enum_errors(webhook.get("reinvocationPolicy"), REINVOCATION_POLICIES, f"{path}.reinvocationPolicy")
    errors += validate_webhook_client(webhook.get("clientConfig") or {}, f"{path}.clientConfig", lenient.urls)
    if not lenient.conditions:
        errors += condition_errors(webhook.get("matchConditions"), f"{path}.matchConditions", params=False)
    return errors


def _name_errors(name: str, path: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    why = dns1123_subdomain(name)
    if why:
        return [invalid(path, name, ",".join(why))]
    if name.count(".") < 2:
        return [invalid(path, name, "should be a domain with at least three segments separated by dots")]
    return []


def _review_errors(versions: list[str], path: str, lenient: _Leniency) -> list[FieldError]:
    if not versions:
        return [required(path, f"must specify one of {', '.join(_REVIEWS)}")]
    errors = review_version_names(versions, path)
    if not lenient.reviews and not set(versions) & set(_REVIEWS):
        errors.append(invalid(path, versions, f"must include at least one of {', '.join(_REVIEWS)}"))
    return errors
