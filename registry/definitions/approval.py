"""API approval: definitions in protected groups (those of the Kubernetes community) need an approval annotation.

Follows apiextensions-apiserver pkg/apihelpers/helpers.go, pkg/controller/apiapproval and validateAPIApproval of
pkg/apis/apiextensions/validation/validation.go.
"""

from __future__ import annotations

from registry.codec.go_text import go_quote
from registry.codec.go_url import Url, UrlError, parse_request_uri
from registry.definitions.model import Json
from registry.schema.field import FieldError, invalid, required

ANNOTATION = "api-approved.kubernetes.io"
CONDITION = "KubernetesAPIApprovalPolicyConformant"

_SEE = "see https://github.com/kubernetes/enhancements/pull/1111"


def is_protected_group(group: str) -> bool:
    return any(group == g or group.endswith(f".{g}") for g in ("k8s.io", "kubernetes.io"))


def approval_state(crd: Json) -> tuple[str, str]:
    """The reason of the condition, and its message; one of Missing-, Unapproved-, Approved-, InvalidAnnotation."""
    value = ((crd.get("metadata") or {}).get("annotations") or {}).get(ANNOTATION) or ""
    if not value:
        return "MissingAnnotation", f'protected groups must have approval annotation "{ANNOTATION}", {_SEE}'
    if value.startswith("unapproved"):
        return "UnapprovedAnnotation", f"not approved: {go_quote(value)}"
    try:
        url = parse_request_uri(value)
    except UrlError:
        url = Url()
    if url.host and url.scheme:
        return "ApprovedAnnotation", f"approved in {value}"
    return "InvalidAnnotation", (
        f'protected groups must have approval annotation "{ANNOTATION}" with either a URL or '
        f'a reason starting with "unapproved", {_SEE}'
    )


def validate_approval(crd: Json, old: Json | None) -> list[FieldError]:
    """The errors of the approval annotation. On an update it is only validated if its state has changed."""
    if not is_protected_group((crd.get("spec") or {}).get("group") or ""):
        return []
    state, message = approval_state(crd)
    if old is not None and approval_state(old)[0] == state:
        return []
    path = f"metadata.annotations[{ANNOTATION}]"
    if state == "MissingAnnotation":
        return [required(path, message)]
    if state == "InvalidAnnotation":
        return [invalid(path, crd["metadata"]["annotations"][ANNOTATION], message)]
    return []


def approval_condition(crd: Json) -> tuple[str, str, str] | None:
    """Status, reason and message of the desired condition of a definition; None for a group that is not protected."""
    if not is_protected_group((crd.get("spec") or {}).get("group") or ""):
        return None
    state, message = approval_state(crd)
    return "True" if state == "ApprovedAnnotation" else "False", state, message
