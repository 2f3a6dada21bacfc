"""Decodes stored objects beside the event loop where they are large.

Any object may have megabytes, and those that the server reads for a request or in a controller too: a namespace or a
quota has as many owners and finalizers as fit. Decoding a megabyte holds the event loop for 30 ms.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from registry.api.served import Object
from registry.codec.stored import decode_metadata, decode_stored
from registry.flowcontrol.evaluation import LARGE_BYTES, aside, evaluate


async def metadata_of(body: str) -> Object:
    """Returns the metadata of a stored object, which is the same at every version.

    A long text is decoded in a thread. Between many short ones others run.
    """
    return await _decoded(partial(decode_metadata, body), body)


async def object_of(body: str) -> Object:
    """Returns a stored object without the first fields, which its body does not have: as it is stored, with the
    metadata. Decoded as by `metadata_of`."""
    return await _decoded(lambda: decode_stored('{"metadata":{' + body), body)


def _decoded(work: Callable[[], Object], body: str) -> Awaitable[Object]:
    return aside(work) if len(body) > LARGE_BYTES else evaluate(work, repeatable=True)
