"""YAML files of this package: trusted, so they are loaded by PyYAML's rules, and by libyaml in a tenth of the time."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources.abc import Traversable
from typing import Any

import yaml


def load_file(file: Traversable) -> Any:
    """The one document of a file."""
    return yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)


def load_documents(file: Traversable) -> Iterator[Any]:
    documents: Iterator[Any] = yaml.load_all(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    return documents
