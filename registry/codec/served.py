"""Whether this process serves CBOR, like kube-apiserver with its feature gate CBORServingAndStorage.

It is set once, before anything is served (`--cbor`), and is the same for all tenants of a process.
"""

from __future__ import annotations

_serves_cbor = False


def serves_cbor() -> bool:
    return _serves_cbor


def set_cbor(served: bool) -> None:
    global _serves_cbor
    _serves_cbor = served
