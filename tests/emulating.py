"""Tests of the version of Kubernetes that is not the default: a pytest plugin.

Recorded exchanges, official suites and kube-apiserver beside which a server runs are of 1.36.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

import pytest

from registry import emulation
from registry.cel.rules import expressions
from registry.cel.rules.rules import compile_rules
from registry.definitions import schemas
from registry.schema import compiled

# Arguments of `registry serve` for a server that is compared with 1.36.
AS_1_36: Final = ("--emulate-version", "1.36")


@contextlib.contextmanager
def emulating(name: str) -> Iterator[None]:
    """Emulates another version in this process. A server has one version, and keeps what it has compiled for it."""
    emulation.emulate(name)
    _forget()
    try:
        yield
    finally:
        emulation.emulate(emulation.DEFAULT)
        _forget()


def _forget() -> None:
    expressions._cached_parse.cache_clear()
    compile_rules.cache_clear()
    schemas._GOOD.clear()
    compiled._CACHE.clear()


@pytest.fixture
def as_1_36() -> Iterator[None]:
    with emulating("1.36"):
        yield
