"""Restricts answers to what was authorized.

A list or a watch with the field selector metadata.name=a is authorized as a request for `a` alone, so no other object
may be shown, whatever the handler. Handlers select by ResourceRequest.name, which is the authorized name. Every answer
passes through here, where objects that a handler should not have selected are withheld. That is a bug of the handler,
and logged as one.

Follows apiserver pkg/endpoints/request/requestinfo.go, where the name of the request is that of the selector.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from registry.api.answers import Answer, DocumentAnswer, Event, Events, ListAnswer, WatchAnswer
from registry.api.request import ResourceRequest
from registry.codec.stored import decode_stored
from registry.flowcontrol.evaluation import evaluate

logger = logging.getLogger(__name__)

_OF_NO_OBJECT = frozenset({"BOOKMARK", "ERROR"})


def confine(answer: Answer, request: ResourceRequest, verb: str) -> Answer:
    """Returns `answer` without objects other than the one that was authorized, if it was only one.

    Answers about an object in the path concern that object anyway. Administrators are authorized for everything.
    """
    name = request.context.authorized_name
    if not name or verb not in ("list", "watch") or request.context.user.is_administrator:
        return answer
    match answer:
        case ListAnswer():
            return replace(answer, chunks=_texts(answer.chunks, name, request), remaining=None)
        case WatchAnswer():
            return replace(answer, events=_events(answer.events, name, request))
        case DocumentAnswer():
            items = answer.body.get("items") or ()
            selected = [item for item in items if _name_in(item) == name]
            if len(selected) == len(items):
                return answer
            _log(request)
            # A continue token would disclose the name of the last item.
            metadata = {k: v for k, v in (answer.body.get("metadata") or {}).items() if k != "continue"}
            return replace(answer, body={**answer.body, "metadata": metadata, "items": selected}, table=None)
        case _:
            return answer


async def _texts(
    chunks: AsyncIterator[Sequence[str]], name: str, request: ResourceRequest
) -> AsyncIterator[Sequence[str]]:
    async for texts in chunks:
        selected = [text for text in texts if await _is_of(name, text)]
        if len(selected) < len(texts):
            _log(request)
        yield selected


async def _events(events: Events, name: str, request: ResourceRequest) -> AsyncGenerator[Sequence[Event], None]:
    async with aclosing(events):
        async for batch in events:
            selected = [e for e in batch if e.type in _OF_NO_OBJECT or await _is_of(name, e.text)]
            if len(selected) < len(batch):
                _log(request)
            yield selected
            del batch, selected  # the next may take long


async def _is_of(name: str, text: str) -> bool:
    return await evaluate(lambda: _name_in(decode_stored(text)) == name, len(text), repeatable=True)


def _name_in(item: Mapping[str, Any]) -> Any:
    """Returns the name of an object, or of an entry that contains the object or has a name itself."""
    nested = item.get("object")
    metadata = (nested if isinstance(nested, Mapping) else item).get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return item.get("name") if name is None else name


def _log(request: ResourceRequest) -> None:
    logger.error(
        "a list or watch of %s%s authorized for one name selected others; they were withheld",
        request.served.resource,
        f"/{request.subresource}" if request.subresource else "",
    )
