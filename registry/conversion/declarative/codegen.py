"""Code generation: the steps of a lossless path (lossless.py) as the lines of one Python function.

A list converts thousands of objects, and in a chain of closures half of the time goes into calls. So the most frequent
steps are generated as lines; the others are called. No text of a definition occurs in the lines: names and values are
variables of the enclosing function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from registry.conversion.declarative.paths import STAR, Path

# Writes the code for an object in a variable, which is known to be a dictionary, at a depth of indentation.
Write = Callable[["Lines", str, int], None]

# Python allows 20 nested loops.
MAX_LOOPS: Final = 15


class Lines:
    """The lines of a function of `parameters`."""

    def __init__(self, *parameters: str) -> None:
        self._parameters = parameters
        self._lines: list[str] = []
        self._values: list[Any] = []
        self._texts: dict[str, str] = {}
        self._variables = 0

    def add(self, depth: int, *lines: str) -> None:
        self._lines += ["    " * (depth + 2) + line for line in lines]

    def value(self, value: Any) -> str:
        """The variable that holds a constant."""
        known = self._texts.get(value) if isinstance(value, str) else None
        if known is not None:
            return known
        name = f"value_{len(self._values)}"
        self._values.append(value)
        if isinstance(value, str):
            self._texts[value] = name
        return name

    def variable(self) -> str:
        self._variables += 1
        return f"variable_{self._variables}"

    def at(self, depth: int, holder: str, names: Sequence[str]) -> str:
        """The variable of the value at `names`, not a dictionary where it is missing. `holder` is a dictionary."""
        for i, name in enumerate(names):
            inner = self.variable()
            lookup = f"{holder}.get({self.value(name)})"
            self.add(depth, f"{inner} = {lookup}" + (f" if {holder}.__class__ is dict else None" if i else ""))
            holder = inner
        return holder

    def within(self, depth: int, holder: str, path: Path, write: Write) -> None:
        """Emits `write` for each dictionary that the path selects."""
        if STAR in path:
            place = path.index(STAR)
            lookup, element = self.at(depth, holder, path[:place]), self.variable()
            self.add(
                depth,
                f"for {element} in {lookup} if {lookup}.__class__ is list else {lookup}.values() "
                f"if {lookup}.__class__ is dict else ():",
            )
            rest = path[place + 1 :]
            if rest[:1] == (STAR,):  # nested lists
                self.within(depth + 1, element, rest, write)
            else:
                self.add(depth + 1, f"if {element}.__class__ is dict:")
                self.within(depth + 2, element, rest, write)
        elif path:
            lookup = self.at(depth, holder, path)
            self.add(depth, f"if {lookup}.__class__ is dict:")
            write(self, lookup, depth + 1)
        else:
            write(self, holder, depth)

    def function(self) -> Callable[..., Any]:
        outer = ", ".join(f"value_{i}" for i in range(len(self._values)))
        text = "\n".join(
            (f"def build({outer}):", f"    def run({', '.join(self._parameters)}):", *self._lines, "    return run")
        )
        scope: dict[str, Any] = {}
        exec(compile(text, "<conversion path>", "exec"), scope)  # contains no text of a definition
        run: Callable[..., Any] = scope["build"](*self._values)
        return run
