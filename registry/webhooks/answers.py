"""What others have answered, decoded within bounds, and beside the event loop where it is large.

A text of 16 MiB may become gigabytes (`[[],[],...`) or take seconds. So the number of values is bounded before anything
is decoded, what only the slow readers can read (YAML) is bounded more strictly, and a thread does what takes longer
than a moment, in the turn of the tenant that asks: hostile answers wait for one another, not for those of others.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from registry.codec.json_decode import decode_json
from registry.codec.json_size import has_more_values
from registry.codec.model import DecodeError
from registry.codec.yaml_decode import decode_yaml
from registry.flowcontrol.evaluation import aside
from registry.webhooks.errors import CallFailed

T = TypeVar("T")

# With their keys: 1,000 for each of the 500 objects of a batch. This many lists take 45 MB and a tenth of a second.
MAX_VALUES: Final = 500_000
MAX_DEPTH: Final = 900
MAX_YAML_BYTES: Final = 64 * 1024
# Decoding this much takes about a millisecond.
_INLINE_BYTES: Final = 64 * 1024
# As much as an error quotes of what others have said.
_MAX_TEXT: Final = 4096

# For what no request waits for: one thread, so that few answers are decoded at a time.
_background: Final = ThreadPoolExecutor(1, "webhook-answers")


async def run_aside(size: int, function: Callable[[], T]) -> T:
    """The result of `function`, which handles an answer of `size` bytes, pure, and may be run in a thread."""
    if size <= _INLINE_BYTES:
        return function()
    return await aside(function, _background)


def decode_bounded_json(data: bytes, *, max_values: int = MAX_VALUES) -> Any:
    """The value of JSON within bounds. Raises DecodeError."""
    if has_more_values(data, max_values):
        raise DecodeError(f"more than {max_values} values")
    return decode_json(data, MAX_DEPTH).value


def decode_answer(data: bytes) -> Any:
    """JSON, or YAML where it is none: kube-apiserver's decoder reads both. Raises CallFailed."""
    try:
        return decode_bounded_json(data)
    except DecodeError as error:
        problem: DecodeError = error
    if len(data) <= MAX_YAML_BYTES:
        try:
            return decode_yaml(data).value
        except DecodeError as error:
            problem = error
    raise CallFailed(f"couldn't get version/kind; json parse error: {shorten(str(problem))}")


def shorten(text: str) -> str:
    """`text` in an error, up to 4096 characters of it."""
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}... ({len(text)} characters)"
