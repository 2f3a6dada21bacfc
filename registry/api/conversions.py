"""Conversion by webhook or by rules, under code that does not wait.

What is made of an object (a patch, its fields' owners, its stored form) is plain synchronous code, and stays so: where
it comes to need a conversion that only a webhook can do, it raises ConversionNeeded. A read is then run again once the
conversion has been done (`run_with_conversions`), a write is attempted again (verbs/driver.py), and finds it done.
Definitions without a webhook pay nothing.

Reads of many objects know beforehand what they need, and ask for it in batches (`texts`). What they get is kept by
(object, revision, version), within bounds; reads and writes of one object always convert again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from sys import getsizeof
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from registry.api.errors import StatusError, plain_internal
from registry.api.singleflight import singleflight
from registry.apply.errors import ConversionFailed
from registry.caches import LruCache
from registry.codec.json_encode import encode_canonical
from registry.codec.stored import decode_stored
from registry.conversion.converter import Converter
from registry.conversion.declarative.plan import Plan
from registry.conversion.errors import ConversionError
from registry.definitions.model import Definition
from registry.flowcontrol.evaluation import evaluate
from registry.flowcontrol.time_slice import TimeSlice

if TYPE_CHECKING:
    from registry.api.served import Served

Object = dict[str, Any]
T = TypeVar("T")

# All that is kept of conversions in a process, in bytes of memory: characters beyond Latin-1 take two or four.
CACHE_SIZE = 64 * 1024 * 1024
# Conversions that one write may come to need: one for each version that somebody owns fields at, a few times.
_MOST_CONVERSIONS = 200


class ConversionNeeded(Exception):
    """`obj` is needed at `api_version`, and has not been converted yet."""

    def __init__(self, obj: Object, api_version: str) -> None:
        super().__init__(f"an object is needed at {api_version}")
        self.obj = obj
        self.api_version = api_version


class VersionGone(StatusError):
    """The object is stored at a version that the definition no longer has."""

    def __init__(self, api_version: str) -> None:
        version = api_version.rpartition("/")[2]
        super().__init__(
            500,
            "",
            f"request to convert CR from an invalid group/version: {api_version}: the definition "
            f"has no version {version} any more; add it to spec.versions again (served: false is enough), "
            "and write the object at another version before you remove it",
        )


class Image(NamedTuple):
    """A state of an object as it is stored. `shown` is the revision to show; `revision` that which the body is of."""

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


class ConversionCache:
    """Bodies of objects at other versions than they are stored at."""

    def __init__(self, size: int = CACHE_SIZE) -> None:
        self._bodies: LruCache[tuple[Any, ...], str] = LruCache(size, getsizeof)
        self.get = self._bodies.get

    def put(self, key: tuple[Any, ...], body: str) -> None:
        # One large body does not drive out all the others.
        if getsizeof(body) <= self._bodies.capacity // 8:
            self._bodies.put(key, body)


class SharedConversions:
    """What the conversions of all requests of a process share, those by rules too."""

    def __init__(self, converter: Converter) -> None:
        self.converter = converter
        self.cache = ConversionCache()
        self.under_way: dict[Any, Any] = {}


class Conversions:
    """The conversions of one request, of objects of one definition."""

    def __init__(self, shared: SharedConversions, definition: Definition) -> None:
        self._shared = shared
        self._definition = definition
        self._done: dict[tuple[str, str], str | ConversionError] = {}

    def convert_object(self, obj: Object, api_version: str) -> Object:
        """A new object; raises ConversionNeeded, or a 500 where the webhook failed."""
        found = self._done.get((api_version, encode_canonical(obj)))
        if found is None:
            raise ConversionNeeded(obj, api_version)
        if isinstance(found, ConversionError):
            raise plain_internal(str(found))
        return decode_stored(found)

    def convert_for_owners(self, obj: Object, api_version: str) -> Object:
        """For managedFields, which can do without where the webhook fails."""
        if obj.get("apiVersion") == api_version:
            return obj
        if api_version.rpartition("/")[2] not in self._definition.versions:
            raise ConversionFailed(f"request to convert CR to an invalid group/version: {api_version}")
        try:
            return self.convert_object(obj, api_version)
        except StatusError as error:
            raise ConversionFailed(error.message) from error

    async def _convert_all(self, objects: Sequence[Object], api_version: str) -> list[Object]:
        """`objects`, which are all of one version, at another. Raises ConversionError."""
        if not self._definition.conversion_rules:
            return await self._shared.converter.convert(self._definition.conversion, objects, api_version)
        plan = plan_of(self._definition)
        converted, slices = [], TimeSlice.current()
        for obj in objects:
            if slices.expired():
                await slices.yield_now()
            converted.append(await evaluate(partial(plan.convert, obj, api_version), repeatable=True))
        return converted

    async def convert(self, need: ConversionNeeded) -> None:
        if len(self._done) >= _MOST_CONVERSIONS:
            raise plain_internal("the object is owned at more versions than can be converted for one write")
        key = (need.api_version, encode_canonical(need.obj))
        try:
            [result] = await self._convert_all([need.obj], need.api_version)
            self._done[key] = encode_canonical(result)
        except ConversionError as error:
            self._done[key] = error

    async def texts(self, served: Served, images: Iterable[Image]) -> list[str]:
        """The JSON of stored objects at the version of `served`; what is not known is asked for in batches."""
        images = list(images)
        known = self._shared.cache.get
        key, target, passes = served.form_key, served.version.name, served.is_passthrough
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
            found = await self._bodies_once(served, version, [images[place] for place in places])
            for place, body in zip(places, found, strict=True):
                bodies[place] = body
        head = served.head
        return [f'{head}{image.shown}",{body}' for image, body in zip(images, bodies, strict=True)]

    async def _bodies_once(self, served: Served, version: str, images: Sequence[Image]) -> Sequence[str]:
        """Where a webhook has to be asked: by one of those who want the same at the same time, such as lists."""
        if version == served.version.name or self._definition.conversion_rules:
            return await self._bodies(served, version, images)
        found: list[str] = []

        async def work() -> None:
            found.extend(await self._bodies(served, version, images))

        keys = [_key(served, image) for image in images]
        await singleflight(self._shared.under_way, tuple(keys), work)
        if not found:  # another has asked
            kept = [body for body in map(self._shared.cache.get, keys) if body is not None]
            found = kept if len(kept) == len(keys) else await self._bodies(served, version, images)
        return found

    async def _bodies(self, served: Served, version: str, images: Sequence[Image]) -> list[str]:
        if version == served.version.name or not self._definition.conversion_rules:
            return await self._by_objects(served, version, images)
        stored = self._definition.versions.get(version)
        current = stored.schema().identity if stored is not None else 0
        bodies, convert = [], plan_of(self._definition).bodies(served.kind.name, version, served.version.name)
        key, keep = served.form_key, self._shared.cache.put
        slices = TimeSlice.current()
        for image in images:
            if slices.expired():
                await slices.yield_now()
            body = None
            if image.schema == current:
                work = partial(convert, image.name, image.uid, image.body)
                body = await evaluate(work, len(image.body), repeatable=True)
            if body is None:
                [body] = await self._by_objects(served, version, [image])
            else:
                keep((key, image.uid, image.revision, version), body)
            bodies.append(body)
        return bodies

    async def _by_objects(self, served: Served, version: str, images: Sequence[Image]) -> list[str]:
        objects = []
        for image in images:
            work = partial(served.at_storage_version, image.revision, version, image.schema, image.body)
            objects.append(await evaluate(work, len(image.body), repeatable=True))
        if version == served.version.name:
            return await self._pruned(served, objects)
        try:
            results = await self._convert_all(objects, served.api_version)
        except ConversionError as error:
            raise plain_internal(str(error)) from error
        bodies = await self._pruned(served, results)
        for image, body in zip(images, bodies, strict=True):
            self._shared.cache.put(_key(served, image), body)
        return bodies

    @staticmethod
    async def _pruned(served: Served, objects: Sequence[Object]) -> list[str]:
        return [await evaluate(partial(served.pruned_body, obj)) for obj in objects]


def plan_of(definition: Definition) -> Plan:
    """The rules of a definition, compiled; made once, and kept with it."""
    found: Plan | None = definition.__dict__.get("_plan")
    if found is None:
        schemas = {name: version.schema for name, version in definition.versions.items()}
        found = definition.__dict__["_plan"] = Plan(definition.group, definition.conversion_rules, schemas)
    return found


def _key(served: Served, image: Image) -> tuple[Any, ...]:
    return served.form_key, image.uid, image.revision, image.version


async def run_with_conversions(served: Served, read: Callable[[], T]) -> T:
    """What `read` returns once every conversion that it needs has been done. It is run again after each, so it must
    be pure: it neither changes nor reports anything."""
    conversions = served.conversions
    if conversions is None:
        return await evaluate(read, repeatable=True)
    while True:
        try:
            return await evaluate(read, repeatable=True)
        except ConversionNeeded as need:
            await conversions.convert(need)
