"""Which name means which variable or type: the scopes that are open at a place of an expression.

Follows cel-go checker/scopes.go and the resolution of names in checker/env.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from registry.cel.checker.declarations import IDENTS
from registry.cel.common.types import Type
from registry.emulation import emulated

# How many of the scopes are global.
_GLOBAL = 2


class Scopes:
    """The open scopes, outermost first; the dict of a scope is not changed once it is pushed."""

    __slots__ = ("_scopes",)

    def __init__(self, variables: Mapping[str, Type]) -> None:
        self._scopes: list[Mapping[str, Type]] = [IDENTS, variables]  # the global ones

    def push(self, scope: Mapping[str, Type]) -> None:
        self._scopes.append(scope)

    def pop(self) -> None:
        self._scopes.pop()

    def find(self, name: str) -> Type | None:
        """Finds the innermost variable or type of a name, `a` or `a.b`; of `.a` the global one.

        cel-go 0.26 ignores the dot, and prefers a global `a.b` to the field of a local `a`.
        """
        scopes, bare = self._scopes, name.removeprefix(".")
        if emulated().is_1_37:
            first = name.partition(".")[0]
            if bare != name:
                scopes = self._scopes[:_GLOBAL]
            elif first != name and self.is_local(first):
                return None
        for scope in reversed(scopes):
            type_ = scope.get(bare)
            if type_ is not None:
                return type_
        return None

    def is_local(self, name: str) -> bool:
        return any(name in scope for scope in self._scopes[_GLOBAL:])
