"""The texts of stored objects at the served version, converted in batches if they are stored at another.

Conversions are cached by (object, revision, version), within bounds, for all requests of the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from registry.api.conversions import ConversionNeeded, Object, plan_of
from registry.api.errors import plain_internal
from registry.api.served import Served, body_of
from registry.api.singleflight import singleflight
from registry.conversion.errors import ConversionError
from registry.flowcontrol.byte_shares import HeldAnswer
from registry.flowcontrol.evaluation import Large, evaluate, large
from registry.flowcontrol.time_slice import TimeSlice
from registry.store.bounds import CHUNK_ROWS

# A list reads the next rows while it waits for the first.
_HELD_TIMES: Final = 2
T = TypeVar("T")


class Image(NamedTuple):
    """A stored state of an object. `shown` is the revision to show; `revision` the one that wrote the body."""

    uid: str
    key: str
    revision: int
    shown: int
    version: str
    schema: int
    body: str

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]


async def convert_texts(served: Served, images: Iterable[Image]) -> list[str]:
    """Returns the JSON of stored objects at the version of `served`, which has conversions. Raises TooManyRequests.

    They count as a part of the answer from now on: a webhook may keep them for half a minute.
    """
    images = list(images)
    if (answer := HeldAnswer.current()) is not None:
        size = _HELD_TIMES * sum(len(image.body) for image in images)
        await answer.hold_part(size, may_grow=len(images) >= CHUNK_ROWS)
    return await _Batch(served).texts(images)


class _Batch:
    def __init__(self, served: Served) -> None:
        assert served.conversions is not None
        self._served = served
        self._conversions = served.conversions
        self._definition = served.definition

    async def texts(self, images: Sequence[Image]) -> list[str]:
        """Returns the JSON of stored objects at the served version; converts missing ones in batches."""
        known = self._conversions.shared.cache.get
        key, target, passes = self._served.form_key, self._served.version.name, self._served.is_passthrough
        bodies: list[str | None] = []
        missing: dict[str, list[int]] = {}
        for place, image in enumerate(images):
            version = image.version
            body = image.body if passes(version, image.schema) else None
            if body is None and version != target:
                body = known((key, image.uid, image.revision, version))
            if body is None:
                missing.setdefault(version, []).append(place)
            bodies.append(body)
        for version, places in missing.items():
            converted = await self._bodies_once(version, [images[place] for place in places])
            for place, body in zip(places, converted, strict=True):
                bodies[place] = body
        head = self._served.head
        return [f'{head}{image.shown}",{body}' for image, body in zip(images, bodies, strict=True)]

    async def _bodies_once(self, version: str, images: Sequence[Image]) -> Sequence[str]:
        """Returns converted bodies. Concurrent requests, such as lists, share the call of a webhook."""
        if version == self._served.version.name or self._definition.conversion_rules:
            return await self._bodies(version, images)
        bodies: list[str] = []

        async def work() -> None:
            bodies.extend(await self._bodies(version, images))

        keys = [self._key(image) for image in images]
        await singleflight(self._conversions.shared.under_way, tuple(keys), work)
        if not bodies:  # another task has converted them
            cached = [body for body in map(self._conversions.shared.cache.get, keys) if body is not None]
            bodies = cached if len(cached) == len(keys) else await self._bodies(version, images)
        return bodies

    async def _bodies(self, version: str, images: Sequence[Image]) -> list[str]:
        if version == self._served.version.name or not self._definition.conversion_rules:
            return await self._by_objects(version, images)
        stored = self._definition.versions.get(version)
        current = stored.schema().identity if stored is not None else 0
        plan, bodies = plan_of(self._definition), list[str]()
        convert = plan.bodies(self._served.kind.name, version, self._served.version.name)
        key, keep = self._served.form_key, self._conversions.shared.cache.put
        slices = TimeSlice.current()
        for image in images:
            if slices.expired():
                await slices.yield_now()
            body = None
            if image.schema == current:
                work = partial(convert, image.name, image.uid, image.body)
                body = await evaluate(work, len(image.body), repeatable=True)
            if body is None:
                [body] = await self._by_objects(version, [image])
            else:
                keep((key, image.uid, image.revision, version), body)
            bodies.append(body)
        return bodies

    async def _by_objects(self, version: str, images: Sequence[Image]) -> list[str]:
        # A webhook may keep them for half a minute.
        async with large(Large.CONVERSION, sum(len(image.body) for image in images)):
            return await self._by_decoded_objects(version, images)

    async def _by_decoded_objects(self, version: str, images: Sequence[Image]) -> list[str]:
        objects = []
        for image in images:
            work = partial(self._served.at_storage_version, image.revision, version, image.schema, image.body)
            objects.append(await evaluate(work, len(image.body), repeatable=True))
        if version == self._served.version.name:
            return await self._prune_and_encode(objects)
        try:
            results = await self._conversions.convert_all(objects, self._served.api_version)
        except ConversionError as error:
            raise plain_internal(str(error)) from error
        bodies = await self._prune_and_encode(results)
        for image, body in zip(images, bodies, strict=True):
            self._conversions.shared.cache.put(self._key(image), body)
        return bodies

    async def _prune_and_encode(self, objects: Sequence[Object]) -> list[str]:
        schema = self._served.version.schema()

        def encode(obj: Object) -> str:
            schema.prune(obj)
            return body_of(obj)

        return [await evaluate(partial(encode, obj)) for obj in objects]

    def _key(self, image: Image) -> tuple[Any, ...]:
        return self._served.form_key, image.uid, image.revision, image.version


async def run_with_conversions(served: Served, read: Callable[[], T], size: int = 0) -> T:
    """Returns the result of `read` on so many bytes, which is run again after each conversion that it needs.

    `read` must be pure: it neither changes nor reports anything.
    """
    conversions = served.conversions
    if conversions is None:
        return await evaluate(read, size, repeatable=True)
    while True:
        try:
            return await evaluate(read, size, repeatable=True)
        except ConversionNeeded as need:
            await conversions.convert(need)
