"""YAML files of this package: trusted, so they are loaded by PyYAML's rules, and by libyaml in a tenth of the time."""

from __future__ import annotations

from importlib.resources.abc import Traversable
from typing import Any

import yaml


def load_file(file: Traversable) -> Any:
    return yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
