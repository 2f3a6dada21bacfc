"""`Accept: application/json;keep=spec.size+status.phase`: objects with only these fields, and their identity.

kube-apiserver has `drop=metadata.managedFields` (KEP-5958); `keep` is an extension of this server. A path through an
array keeps the field in each element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from registry.query.fields import EACH, FieldPathError, Path, parse_path

# Fields that are always kept, so that clients can name, change and watch an object.
ALWAYS: Final[tuple[Path, ...]] = (
    ("apiVersion",),
    ("kind",),
    *(("metadata", name) for name in ("name", "namespace", "uid", "resourceVersion")),
)
MAX_PATHS: Final = 50

Tree = Mapping[str, Any]


def parse_keep(text: str) -> tuple[Path, ...] | None:
    """Parses the paths of `a.b+c.d`; None if they are invalid."""
    try:
        paths = tuple(tuple(step for step in parse_path(one) if step != EACH) for one in text.split("+"))
    except FieldPathError:
        return None
    return paths if len(paths) <= MAX_PATHS else None


def keep(obj: Mapping[str, Any], paths: Sequence[Path]) -> dict[str, Any]:
    """Returns a copy of an object with the fields at the paths, and those that are always kept."""
    tree: dict[str, Any] = {}
    for path in (*ALWAYS, *paths):
        _add(tree, path)
    kept_fields: dict[str, Any] = _keep(obj, tree)
    return kept_fields


def _add(tree: dict[str, Any], path: Path) -> None:
    """Adds a path to the tree. A leaf is None: everything below it is kept."""
    for step in path[:-1]:
        below = tree.setdefault(step, {})
        if below is None:
            return
        tree = below
    tree[path[-1]] = None


def _keep(value: Any, tree: Tree) -> Any:
    if isinstance(value, list):
        return [_keep(one, tree) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: one if below is None else _keep(one, below)
        for name, below in tree.items()
        if (one := value.get(name)) is not None and (below is None or isinstance(one, dict | list))
    }
