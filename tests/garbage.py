"""What only the garbage collector would free."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import registry
from registry.webhooks.http1 import HttpConnection

_OURS = str(Path(registry.__file__).parent)


@contextlib.contextmanager
def no_frames_are_left() -> Iterator[None]:
    """Fails if the block leaves frames of ours, which hold their variables, or connections, in reference cycles."""
    # What was there before is neither looked at nor reported: the modules of all tests, in a run of the whole suite.
    gc.freeze()
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        frames = [one for one in gc.garbage if isinstance(one, FrameType)]
        left = [f.f_code.co_qualname for f in frames if f.f_code.co_filename.startswith(_OURS)]
        left += [repr(one) for one in gc.garbage if isinstance(one, HttpConnection)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.unfreeze()
        gc.enable()
    assert left == []
