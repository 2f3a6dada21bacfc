"""The objects of rows as JSON, at the requested version."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from registry.api.conversions import VersionGone
from registry.api.converted_texts import Image, convert_texts
from registry.api.request import ResourceRequest
from registry.flowcontrol.evaluation import LARGE_BYTES, evaluate
from registry.flowcontrol.time_slice import TimeSlice
from registry.store.types import Row

# Rows whose texts are joined between two looks at the clock: their objects have at most READ_BYTES together.
ROWS_A_SLICE = 50


async def row_texts(request: ResourceRequest, rows: Sequence[Row]) -> Sequence[str]:
    """Returns the objects of rows as JSON, without those that `readable` leaves out."""
    return (await readable(request, rows))[1]


async def readable(request: ResourceRequest, rows: Sequence[Row]) -> tuple[Sequence[Row], Sequence[str]]:
    """Returns rows and their objects as JSON.

    Rows stored at a version that is gone are left out and reported in a warning, so that the others can be read.
    """
    served = request.served
    try:
        if served.conversions is None:
            slices, texts = TimeSlice.current(), list[str]()
            for start in range(0, len(rows), ROWS_A_SLICE):
                some = rows[start : start + ROWS_A_SLICE]
                stored = served.stored_texts(some)
                if stored is not None:
                    texts += stored
                else:
                    for row in some:
                        if len(row.body) > LARGE_BYTES:
                            texts.append(await evaluate(partial(served.text, row), len(row.body), repeatable=True))
                        else:
                            texts.append(served.text(row))
                        if slices.expired():
                            await slices.yield_now()
                if slices.expired():
                    await slices.yield_now()
            return rows, texts
        return rows, await convert_texts(served, map(image_of, rows))
    except VersionGone as gone:
        versions = served.definition.versions
        at_known_versions = [row for row in rows if row.version in versions]
        left_out = next(row for row in rows if row.version not in versions)
        count = len(rows) - len(at_known_versions)
        which = (
            f"1 object is left out, {left_out.key}"
            if count == 1
            else (f"{count} objects are left out, {left_out.key} first")
        )
        request.context.warnings.append(f"{which}: {gone}")
        return await readable(request, at_known_versions)


def image_of(row: Row) -> Image:
    return Image(row.uid, row.key, row.revision, row.revision, row.version, row.schema, row.body)
