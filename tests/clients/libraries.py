"""Client libraries, imported when a test first uses them.

Each process of a run imports the tests of all folders, and runs a part of them: what these libraries take to import, a
second of processor time, is for the one that runs their tests.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import pytest


class _Library:
    """A module that is imported for the first of its names. pytest looks for `_mock_name` and `__wrapped__` in all that
    a module of tests has, for which a module of importlib's LazyLoader would be loaded."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(importlib.import_module(self._module), name)


def library(name: str) -> Any:
    """Returns what has the names of a module, or skips the importing module if it is not installed."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed", allow_module_level=True)
    return _Library(name)
