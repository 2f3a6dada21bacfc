"""The order of versions: v2, v1, v1beta2, v1beta1, v1alpha1, then names that do not have this form.

Follows apimachinery pkg/version/helpers.go (CompareKubeAwareVersionStrings).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_VERSION = re.compile(r"v([0-9]+)(?:(alpha|beta)([0-9]+))?", re.ASCII)
_STABILITY = {"": 0, "beta": 1, "alpha": 2}

# Go parses the numbers as int; with a larger one the name is not a version.
_MAX_NUMBER = 2**63 - 1

Key = tuple[int, int, int, str]
# The first part of the keys of names that do not have the form of a version.
UNORDERED = 3


def priority_key(version: str) -> Key:
    """Sorts the most stable and newest first: `sorted(names, key=priority_key)`. v01 and v1 are ordered as texts."""
    match = _VERSION.fullmatch(version)
    if match is None or any(int(n) > _MAX_NUMBER for n in match.group(1, 3) if n):
        return (UNORDERED, 0, 0, version)
    return (_STABILITY[match[2] or ""], -int(match[1]), -int(match[3] or 0), version)


def by_priority(versions: Iterable[str]) -> list[str]:
    """v11 v2 v01 v1 v2beta1 v1beta1 v2alpha1 v1alpha10 v1alpha2 a1 foo v1beta."""
    return sorted(versions, key=priority_key)
