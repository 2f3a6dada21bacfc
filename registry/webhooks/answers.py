"""Decodes answers of external servers within bounds, and beside the event loop if they are large.

A text of 16 MiB may become gigabytes (`[[],[],...`) or take seconds. So the number of values is bounded before anything
is decoded, input for the slow decoder (YAML) is bounded more strictly, and a thread does what takes longer than a
moment, in the tenant's turn: hostile answers wait for one another, not others for them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from registry.codec.json_decode import decode_json
from registry.codec.json_size import has_more_values
from registry.codec.model import DecodeError, TooManyValues
from registry.codec.yaml_decode import decode_yaml
from registry.flowcontrol.evaluation import aside
from registry.webhooks.errors import CallFailed

T = TypeVar("T")

# Including keys: 1,000 for each of the 500 objects of a batch. This many lists take 45 MB and a tenth of a second.
MAX_VALUES: Final = 500_000
MAX_DEPTH: Final = 900
MAX_YAML_BYTES: Final = 64 * 1024
# Decoding this much takes about a millisecond.
_INLINE_BYTES: Final = 64 * 1024
# How much of an answer an error quotes.
_MAX_TEXT: Final = 4096

# For work that no request waits for: one thread, so that one answer is decoded at a time.
_background: Final = ThreadPoolExecutor(1, "webhook-answers")


async def run_aside(size: int, function: Callable[[], T]) -> T:
    """Runs `function`, pure and handling an answer of `size` bytes, perhaps in a thread; returns its result."""
    if size <= _INLINE_BYTES:
        return function()
    return await aside(function, _background)


def decode_bounded_json(data: bytes, *, max_values: int = MAX_VALUES) -> Any:
    """Decodes JSON within bounds. Raises DecodeError."""
    if has_more_values(data, max_values):
        raise DecodeError(f"more than {max_values} values")
    try:
        return decode_json(data, MAX_DEPTH, max_values).value
    except TooManyValues as error:
        raise DecodeError(str(error)) from None


def decode_answer(data: bytes) -> Any:
    """Decodes JSON, or else YAML unless it begins as JSON: kube-apiserver's decoder reads both. Raises CallFailed."""
    try:
        return decode_bounded_json(data)
    except DecodeError as error:
        problem = str(error)
    if len(data) <= MAX_YAML_BYTES and not data.lstrip().startswith(b"{"):
        try:
            return decode_yaml(data).value
        except DecodeError as error:
            problem = str(error)
    raise CallFailed(f"couldn't get version/kind; json parse error: {shorten(problem)}")


def shorten(text: str) -> str:
    """Truncates `text` for an error to 4096 characters."""
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}... ({len(text)} characters)"
