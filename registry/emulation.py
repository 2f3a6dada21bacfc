"""The version of Kubernetes that this process emulates, and whether it serves CBOR.

Both are set once, before anything is compiled or served (`--emulate-version`, `--cbor`), and are the same for all
tenants of a process, like kube-apiserver's --emulated-version. A search for `is_1_37` finds all that the version
changes; the list is in docs/emulation.md.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Emulated:
    """A version, in the forms that clients read."""

    minor: int
    git_version: str

    @property
    def name(self) -> str:
        return f"1.{self.minor}"

    @property
    def is_1_37(self) -> bool:
        return self.minor >= 37


_VERSIONS = {version.name: version for version in (Emulated(36, "v1.36.2"), Emulated(37, "v1.37.0"))}
NAMES = tuple(_VERSIONS)
DEFAULT = "1.37"

_emulated = _VERSIONS[DEFAULT]


def emulated() -> Emulated:
    return _emulated


def emulate(name: str) -> None:
    """Makes this process emulate the version `name`. Raises KeyError for a version that is not in NAMES."""
    global _emulated
    _emulated = _VERSIONS[name]


# -- CBOR (`--cbor`), like kube-apiserver with its feature gate CBORServingAndStorage
_serves_cbor = False


def serves_cbor() -> bool:
    return _serves_cbor


def set_cbor(served: bool) -> None:
    global _serves_cbor
    _serves_cbor = served
