"""The warning of a deprecated version.

Follows apiextensions-apiserver pkg/apiserver/customresource_handler.go (defaultDeprecationWarning).
"""

from __future__ import annotations

import re

from registry.definitions.model import Definition, Version

_KUBE_VERSION = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?", re.ASCII)
_STAGES = {"alpha": 0, "beta": 1, None: 2}


def deprecation_warning(definition: Definition, version: Version) -> str:
    """`g/v1beta1 Widget is deprecated; use g/v1 Widget`, or the definition's own text; "" if not deprecated."""
    if not version.deprecated:
        return ""
    if version.deprecation_warning is not None:
        return version.deprecation_warning
    group, kind = definition.group, definition.names.kind
    text = f"{group}/{version.name} {kind} is deprecated"
    better = _better(definition, version)
    return f"{text}; use {group}/{better} {kind}" if better else text


def _better(definition: Definition, version: Version) -> str:
    """The highest version that is served, not deprecated and ranked above this one; "" if there is none."""
    mine = rank(version.name)
    others = [v.name for v in definition.versions.values() if v.served and not v.deprecated and rank(v.name) > mine]
    return max(others, key=rank, default="")


def rank(name: str) -> tuple[int, int, int, str]:
    """Orders versions: GA over beta over alpha over all other names, then by number."""
    match = _KUBE_VERSION.fullmatch(name)
    if match is None:
        return (-1, 0, 0, "")
    major, stage, minor = match.groups()
    return (_STAGES[stage], int(major), int(minor or 0), "")
