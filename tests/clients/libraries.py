"""Client libraries, imported when a test first uses them.

Each process of a run imports the tests of all folders, and runs a part of them: what these libraries take to import, a
second of processor time, is for the one that runs their tests.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest


def library(name: str) -> ModuleType:
    """Returns a module that loads at the first use of an attribute; skips the importing module if it is not installed."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        pytest.skip(f"{name} is not installed", allow_module_level=True)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
