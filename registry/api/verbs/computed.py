"""Creates that store nothing: the answer is computed from the object (reviews, requests for tokens).

They go through the stages of a create (pipeline.py), so admission sees them; their commit computes the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from registry.admission.attributes import CREATE
from registry.api.admission.options import write_options_json
from registry.api.answers import DocumentAnswer
from registry.api.bodies import decode_object
from registry.api.metadata import agree_on_namespace
from registry.api.options import WriteOptions, manager_of, write_options
from registry.api.request import Body, ResourceRequest
from registry.api.served import Object
from registry.api.verbs.driver import run
from registry.api.verbs.pipeline import Draft, Operation, Outcome, Start
from registry.flowcontrol.evaluation import evaluate


@dataclass(slots=True)
class ComputedOperation(Operation[DocumentAnswer]):
    """`obj` is the decoded body; the answer's status replaces its own."""

    obj: Object
    options: WriteOptions
    manager: str
    tries: int = 1
    action = CREATE

    def review_options(self, request: ResourceRequest, start: Start) -> Mapping[str, Any]:
        return write_options_json("CreateOptions", self.options)

    def merge_back(self, request: ResourceRequest, draft: Draft, mutated: Object) -> None:
        draft.new = request.served.strategy.finish(mutated)

    async def answer(self, request: ResourceRequest, outcome: Outcome) -> DocumentAnswer:
        assert outcome.obj is not None
        return DocumentAnswer(outcome.obj, 201, request.served.table)


async def compute(request: ResourceRequest, body: Body, operation: type[ComputedOperation]) -> DocumentAnswer:
    """Returns 201 with the object of the body and its status."""
    options = write_options(request.query, "CreateOptions")
    obj = await evaluate(partial(decode_object, request, body, options))
    agree_on_namespace(request, obj)
    return await run(request, operation(obj, options, manager_of(options, request.context.user_agent)))
