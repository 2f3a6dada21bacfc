"""docs/security.md lists each cache of the process with its bound; here they are found in the code."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BOUNDED = {"LruCache", "ExpiringCache", "lru_cache", "cache_short"}
# `| registry/schema/names.py | 8,192, 8,192 | ... |`
ROW = re.compile(r"^\| `(registry/[a-z0-9_/]+\.py)` \| ([0-9, ]+?) \|", re.MULTILINE)


def caches() -> Iterator[tuple[str, int]]:
    """File and capacity of each cache, in the order of the code."""
    for path in sorted((ROOT / "registry").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name in ("registry/caches.py", "registry/codec/text_cache.py"):
            continue
        for node in _nodes_of(path, BOUNDED):
            if isinstance(node, ast.Call) and _called(node) in BOUNDED:
                yield name, _capacity(name, node)


def _nodes_of(path: Path, names: Collection[str]) -> Iterator[ast.AST]:
    """All nodes of a file that has one of the names, and none of the others, which are most: parsing takes seconds."""
    text = path.read_text()
    return ast.walk(ast.parse(text)) if any(name in text for name in names) else iter(())


def _called(node: ast.Call) -> str:
    function = node.func.value if isinstance(node.func, ast.Subscript) else node.func
    return function.id if isinstance(function, ast.Name) else ""


def _capacity(name: str, node: ast.Call) -> int:
    """A number, a constant of its module, or the default of the parameter of that name."""
    place = 1 if _called(node) == "cache_short" else 0
    given = node.args[place] if node.args else next(k.value for k in node.keywords if k.arg in ("maxsize", "capacity"))
    module: Any = importlib.import_module(name.removesuffix(".py").replace("/", "."))
    names = {**_defaults(name, vars(module)), **vars(module)}
    found = eval(compile(ast.Expression(given), name, "eval"), names)
    assert isinstance(found, int), f"{name}: a cache without a bound"
    return found


def _defaults(name: str, constants: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for node in ast.walk(ast.parse((ROOT / name).read_text())):
        if isinstance(node, ast.FunctionDef):
            places = [*node.args.posonlyargs, *node.args.args]
            for argument, default in zip(reversed(places), reversed(node.args.defaults), strict=False):
                if isinstance(default, ast.Name | ast.Constant):
                    found[argument.arg] = constants.get(default.id) if isinstance(default, ast.Name) else default.value
    return found


def test_every_cache_is_listed_with_its_bound() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    listed = {name: sorted(int(n.replace(",", "")) for n in bounds.split(", ")) for name, bounds in ROW.findall(text)}
    found: dict[str, list[int]] = {}
    for name, capacity in caches():
        found.setdefault(name, []).append(capacity)
    assert listed == {name: sorted(capacities) for name, capacities in found.items()}


def test_caches_without_a_bound_are_of_what_the_server_itself_has() -> None:
    """`functools.cache` keeps all: only what takes no argument, or names of the server's own files and kinds."""
    allowed = (
        "registry/builtin/",
        "registry/codec/binary_fields.py",
        "registry/codec/protobuf/",
        "registry/definitions/openapi/",
        "registry/authorization/",
        "registry/api/served.py",
        "registry/api/tables/builtin.py",
    )
    for path in sorted((ROOT / "registry").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        for node in _nodes_of(path, ["cache"]):
            if isinstance(node, ast.FunctionDef) and any(
                isinstance(one, ast.Name) and one.id == "cache" for one in node.decorator_list
            ):
                assert not node.args.args or name.startswith(allowed), f"{name}: {node.name} keeps what clients send"
