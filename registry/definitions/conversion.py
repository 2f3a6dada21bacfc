"""Validation of spec.conversion, the conversion strategy of a definition.

Follows validateCustomResourceConversion of apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go and
apiserver pkg/util/webhook/validation.go. The field paths are those of kube-apiserver's internal form.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable

from cryptography import x509

from registry.codec.go_text import GoText, go_json
from registry.codec.go_url import UrlError, parse_url
from registry.definitions.model import Json
from registry.schema.field import FieldError, forbidden, invalid, not_supported, required
from registry.schema.hosts import HostError, split_host_port
from registry.schema.names import dns1035_label, dns1123_subdomain

# The annotation of a definition with its conversion rules (registry/conversion/declarative).
RULES = "conversion.registry/rules"

REVIEW_VERSIONS = ("v1", "v1beta1")
_FORM = "; desired format: https://host[/path]"


def validate_conversion(
    conversion: Json | None, path: str, *, allow_invalid_ca_bundle: bool, old: Json | None = None
) -> list[FieldError]:
    """The errors of spec.conversion. `old` is the previous conversion: the host of its URL is not validated again."""
    if conversion is None:
        return []
    errors: list[FieldError] = []
    strategy = conversion.get("strategy") or ""
    if not strategy:
        errors.append(required(f"{path}.strategy"))
    elif strategy not in ("None", "Webhook"):
        errors.append(not_supported(f"{path}.strategy", strategy, ["None", "Webhook"]))
    webhook = conversion.get("webhook") or {}
    client, review_versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions")
    if strategy == "Webhook":
        if client is None:
            errors.append(required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook"))
        else:
            errors.extend(
                _validate_client(
                    client,
                    f"{path}.webhookClientConfig",
                    allow_invalid_ca_bundle,
                    webhook_urls([(old or {}).get("webhook")]),
                )
            )
        errors.extend(_validate_review_versions(review_versions or [], f"{path}.conversionReviewVersions"))
        return errors
    detail = "should not be set when strategy is not set to Webhook"
    if client is not None:
        errors.append(forbidden(f"{path}.webhookClientConfig", detail))
    if review_versions:
        errors.append(forbidden(f"{path}.conversionReviewVersions", detail))
    return errors


def has_invalid_ca_bundle(conversion: Json | None) -> bool:
    """Whether there is a CA bundle without a certificate, which keeps a definition from becoming established."""
    client = ((conversion or {}).get("webhook") or {}).get("clientConfig") or {}
    return bool(client.get("caBundle")) and _ca_bundle_error(client["caBundle"]) is not None


def _validate_client(
    client: Json, path: str, allow_invalid_ca_bundle: bool, old_urls: frozenset[str]
) -> list[FieldError]:
    errors = validate_webhook_client(client, path, old_urls)
    bundle = client.get("caBundle")
    if bundle and not allow_invalid_ca_bundle:
        why = _ca_bundle_error(bundle)
        if why is not None:
            errors.append(invalid(f"{path}.caBundle", GoText(go_json(bundle)), why))
    return errors


def validate_webhook_client(client: Json, path: str, old_urls: Collection[str]) -> list[FieldError]:
    """The errors of the URL or the service of a client. Also for admission webhooks."""
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    if url is not None:
        return validate_webhook_url(url, f"{path}.url", old_urls)
    # kube-apiserver passes name and namespace in the wrong order, so that a missing one is reported as the other.
    return validate_webhook_service(client["service"], f"{path}.service")


def webhook_urls(webhooks: Iterable[Json | None]) -> frozenset[str]:
    urls = (((webhook or {}).get("clientConfig") or {}).get("url") for webhook in webhooks)
    return frozenset(url for url in urls if isinstance(url, str))


def validate_webhook_url(text: str, path: str, old_urls: Collection[str]) -> list[FieldError]:
    """The errors of a webhook's URL: it must be https with a host and a path only. Also for admission webhooks.

    The last check, of the host's form, is our own. It is skipped for `old_urls`, so that objects stored before it
    existed can still be updated and deleted.
    """
    try:
        url = parse_url(text)
    except UrlError as error:
        return [required(path, f"url must be a valid URL: {error}{_FORM}")]
    errors = []
    if url.scheme != "https":
        errors.append(invalid(path, url.scheme, f"'https' is the only allowed URL scheme{_FORM}"))
    if not url.host:
        errors.append(invalid(path, url.host, f"host must be specified{_FORM}"))
    if url.user is not None:
        errors.append(invalid(path, url.user, "user information is not permitted in the URL"))
    if url.fragment:
        errors.append(invalid(path, url.fragment, "fragments are not permitted in the URL"))
    if query := url.query.removeprefix("?"):
        errors.append(invalid(path, query, "query parameters are not permitted in the URL"))
    if not errors and text not in old_urls:
        try:
            split_host_port(url.host)
        except HostError as error:
            host = url.host.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            errors.append(invalid(path, host, f"host {error}{_FORM}"))
    return errors


def validate_webhook_service(service: Json, path: str) -> list[FieldError]:
    """Takes each of name and namespace for the other, as kube-apiserver does (webhook.ValidateWebhookService)."""
    errors = []
    if not service.get("namespace"):
        errors.append(required(f"{path}.name"))
    if not service.get("name"):
        errors.append(required(f"{path}.namespace"))
    port = service.get("port") or 0
    if not 1 <= port <= 65535:
        errors.append(invalid(f"{path}.port", port, "port is not valid: must be between 1 and 65535, inclusive"))
    return errors + _validate_service_path(service.get("path"), f"{path}.path")


def _validate_service_path(url_path: str | None, path: str) -> list[FieldError]:
    if url_path in (None, "", "/"):
        return []
    assert url_path is not None
    if url_path == "//":
        return [invalid(path, url_path, "segment[0] may not be empty")]
    errors = []
    if not url_path.startswith("/"):
        errors.append(invalid(path, url_path, "must start with a '/'"))
    # The first character is dropped, whatever it is.
    for i, segment in enumerate(url_path[1:].removesuffix("/").split("/")):
        if not segment:
            errors.append(invalid(path, url_path, f"segment[{i}] may not be empty"))
        else:
            errors.extend(invalid(path, url_path, f"segment[{i}]: {why}") for why in dns1123_subdomain(segment))
    return errors


def review_version_names(versions: list[str], path: str) -> list[FieldError]:
    """Versions must be unique DNS labels. The caller checks that required versions are present."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for i, version in enumerate(versions):
        if version in seen:
            errors.append(invalid(f"{path}[{i}]", version, "duplicate version"))
            continue
        seen.add(version)
        errors += [invalid(f"{path}[{i}]", version, why) for why in dns1035_label(version)]
    return errors


def _validate_review_versions(versions: list[str], path: str) -> list[FieldError]:
    if not versions:
        return [required(path)]
    errors = review_version_names(versions, path)
    if not set(versions).intersection(REVIEW_VERSIONS):
        errors.append(invalid(path, versions, f"must include at least one of {', '.join(REVIEW_VERSIONS)}"))
    return errors


def _ca_bundle_error(bundle: str) -> str | None:
    """The error of a CA bundle in base64; None if it contains a PEM certificate."""
    data = base64.b64decode(bundle)
    if b"-----BEGIN CERTIFICATE-----" not in data:
        return "unable to load root certificates: unable to parse bytes as PEM block"
    try:
        x509.load_pem_x509_certificates(data)
    except ValueError:
        return "unable to load root certificates: failed to parse certificate"
    return None
