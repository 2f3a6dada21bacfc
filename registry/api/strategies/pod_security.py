"""The labels of namespaces for Pod Security, whose values kube-apiserver validates. There are no pods to apply them to.

Follows pod-security-admission admission/admission.go (ValidateNamespace) and api/helpers.go (PolicyToEvaluate).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from registry.schema.field import FieldError, invalid

_PREFIX: Final = "pod-security.kubernetes.io/"
_MODES: Final = ("enforce", "audit", "warn")
_LEVELS: Final = ("privileged", "baseline", "restricted")
_VERSION: Final = re.compile(r"v1\.(0|[1-9][0-9]{0,18})", re.ASCII)
_MAX_MINOR: Final = (1 << 63) - 1


def label_errors(labels: Mapping[str, str] | None) -> list[FieldError]:
    """Returns an error for each level or version that does not exist."""
    errors = []
    for mode in _MODES:
        level, version = (f"{_PREFIX}{mode}{ending}" for ending in ("", "-version"))
        if labels and level in labels and labels[level] not in _LEVELS:
            errors.append(invalid(f"metadata.labels[{level}]", labels[level], f"must be one of {', '.join(_LEVELS)}"))
        if labels and version in labels and not _is_version(labels[version]):
            errors.append(invalid(f"metadata.labels[{version}]", labels[version], 'must be "latest" or "v1.x"'))
    return errors


def _is_version(text: str) -> bool:
    match = _VERSION.fullmatch(text)
    return text == "latest" or (match is not None and int(match[1]) <= _MAX_MINOR)
