"""The two rounds of mutation: plugins are reinvoked if a later one has changed the object.

Follows apiserver pkg/admission/reinvocation.go and the reinvocation contexts of its plugins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from registry.admission.attributes import Object
from registry.apply.values import equal
from registry.flowcontrol.evaluation import evaluate


async def is_unchanged(before: Object | None, after: Object | None) -> bool:
    """Whether two states of an object are equal. Large ones are compared beside the event loop."""
    return before is after or await evaluate(partial(equal, before or {}, after or {}), repeatable=True)


@dataclass(slots=True, eq=False)
class Invocations:
    """The invoked plugins of one sort that want to be reinvoked, and the object as they left it."""

    invoked: set[Any] = field(default_factory=set)
    wanted: set[Any] = field(default_factory=set)
    output: Object | None = None

    async def require_if_changed(self, obj: Object | None) -> None:
        """In the second round, requires reinvocation if others have changed the object since."""
        if self.output is not None and not await is_unchanged(self.output, obj):
            self.require()

    def require(self) -> None:
        """Records that the object has changed since the plugins invoked so far saw it."""
        self.wanted |= self.invoked
        self.invoked = set()


@dataclass(slots=True, eq=False)
class MutationRounds:
    """Upstream's ReinvocationContext: `should_reinvoke` if something has changed the object in the first round."""

    should_reinvoke: bool = False
    is_reinvoke: bool = False  # whether this is the second round
    policies: Invocations = field(default_factory=Invocations)
    webhooks: Invocations = field(default_factory=Invocations)
