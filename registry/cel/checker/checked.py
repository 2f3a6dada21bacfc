"""The result of the type checker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from registry.cel.common.types import Type
from registry.cel.syntax import ast
from registry.cel.syntax.ast import Call, Expr
from registry.cel.syntax.errors import Issue
from registry.cel.syntax.parser import Parsed


class Messages(Protocol):
    """The message types that `Name{field: value}` can construct, in addition to the standard ones."""

    def type_of(self, name: str) -> Type | None: ...

    def field(self, name: str, field: str) -> Type | None: ...

    def make(self, name: str, fields: dict[str, Any]) -> Any: ...


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """A tree with its types. `root` and the annotations are complete only if there are no `issues`."""

    parsed: Parsed
    issues: tuple[Issue, ...]
    types: Mapping[int, Type]
    overloads: Mapping[int, tuple[str, ...]]
    idents: Mapping[int, str]
    messages: Messages | None = None

    @property
    def root(self) -> Expr:
        assert self.parsed.root is not None
        return self.parsed.root

    @property
    def result(self) -> Type:
        return self.types[self.root.id]

    def nodes(self) -> Iterator[Expr]:
        """Yields the nodes that are values, parents first; omits those that only spell a qualified name."""
        stack = [self.root]
        while stack:
            node = stack.pop()
            yield node
            if node.id not in self.idents:
                stack.extend(reversed(ast.children(node)))
            elif isinstance(node, Call):
                stack.extend(reversed(node.args))
