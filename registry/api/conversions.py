"""Conversion by webhook or by rules, for synchronous code.

Code that derives something from an object (a patch, its fields' owners, its stored form) is synchronous. If it needs a
conversion that only a webhook can do, it raises ConversionNeeded. A read is run again after the conversion
(`run_with_conversions`), a write is attempted again (verbs/driver.py), and finds it done. Definitions without a webhook
pay nothing.

Reads of many objects know in advance what they need, and convert in batches (`texts`). The results are cached by
(object, revision, version), within bounds; reads and writes of one object always convert again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from sys import getsizeof
from typing import Any, TypeVar

from registry.api.errors import StatusError, plain_internal
from registry.apply.errors import ConversionFailed
from registry.caches import LruCache
from registry.codec.json_encode import encode_canonical
from registry.codec.stored import decode_stored
from registry.conversion.converter import Converter
from registry.conversion.declarative.plan import ConversionPlan
from registry.conversion.errors import ConversionError
from registry.definitions.model import Definition, Version
from registry.flowcontrol.evaluation import evaluate
from registry.flowcontrol.time_slice import TimeSlice
from registry.store.types import TenantId

Object = dict[str, Any]
T = TypeVar("T")

# The limit on all cached conversions of a process, in bytes of memory: characters beyond Latin-1 take two or four.
CACHE_SIZE = 64 * 1024 * 1024
# The maximum number of conversions for one write: one for each version at which fields are owned, a few times.
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


class ConversionCache:
    """Caches bodies of objects at other versions than they are stored at."""

    def __init__(self) -> None:
        self._bodies: LruCache[tuple[Any, ...], str] = LruCache(CACHE_SIZE, getsizeof)
        self.get = self._bodies.get

    def put(self, key: tuple[Any, ...], body: str) -> None:
        # A large body must not evict all others.
        if getsizeof(body) <= self._bodies.capacity // 8:
            self._bodies.put(key, body)


class SharedConversions:
    """State shared by the conversions of all requests of a process, including those by rules."""

    def __init__(self, converter: Converter) -> None:
        self.converter = converter
        self.cache = ConversionCache()
        self.under_way: dict[Any, Any] = {}


class Conversions:
    """The conversions of one request, of objects of one definition. `tenant` is whose request it is."""

    def __init__(self, shared: SharedConversions, definition: Definition, tenant: TenantId) -> None:
        self.shared = shared
        self.definition = definition
        self._tenant = tenant
        self._done: dict[tuple[str, str], str | ConversionError] = {}

    def convert_object(self, obj: Object, api_version: str) -> Object:
        """Returns a new object. Raises ConversionNeeded, or a 500 if the webhook failed."""
        converted = self._done.get((api_version, encode_canonical(obj)))
        if converted is None:
            raise ConversionNeeded(obj, api_version)
        if isinstance(converted, ConversionError):
            raise plain_internal(str(converted))
        return decode_stored(converted)

    def convert_for_owners(self, obj: Object, api_version: str) -> Object:
        """Converts for managedFields. Raises ConversionFailed, which managedFields tolerate."""
        if obj.get("apiVersion") == api_version:
            return obj
        version = self._version(api_version)
        if version is None:
            raise ConversionFailed(f"request to convert CR to an invalid group/version: {api_version}")
        if self._version(obj.get("apiVersion") or "") is None:  # a patch may set it to anything: validation refuses it
            raise ConversionFailed(f"request to convert CR from an invalid group/version: {obj.get('apiVersion')}")
        try:
            converted = self.convert_object(obj, api_version)
        except StatusError as error:
            raise ConversionFailed(error.message) from error
        version.schema().prune(converted)  # a webhook may return fields that the version does not have
        return converted

    def _version(self, api_version: str) -> Version | None:
        group, _, name = api_version.rpartition("/")
        return self.definition.versions.get(name) if group == self.definition.group else None

    async def convert_all(self, objects: Sequence[Object], api_version: str) -> list[Object]:
        """Converts `objects`, which are all of one version. Raises ConversionError."""
        if not self.definition.conversion_rules:
            return await self.shared.converter.convert(self._tenant, self.definition.conversion, objects, api_version)
        plan = plan_of(self.definition)
        converted, slices = [], TimeSlice.current()
        for obj in objects:
            if slices.expired():
                await slices.yield_now()
            converted.append(await evaluate(partial(plan.convert, obj, api_version), repeatable=True))
        return converted

    async def convert(self, need: ConversionNeeded) -> None:
        if len(self._done) >= _MOST_CONVERSIONS:
            raise plain_internal("the object is owned at more versions than can be converted for one write")
        key = (need.api_version, await evaluate(partial(encode_canonical, need.obj), repeatable=True))
        try:
            [result] = await self.convert_all([need.obj], need.api_version)
            self._done[key] = await evaluate(partial(encode_canonical, result), repeatable=True)
        except ConversionError as error:
            self._done[key] = ConversionError(str(error))  # without the frames that the error refers to


def plan_of(definition: Definition) -> ConversionPlan:
    """Returns the compiled rules of a definition; compiled once, and kept with it."""
    plan: ConversionPlan | None = definition.__dict__.get("_plan")
    if plan is None:
        schemas = {name: version.schema for name, version in definition.versions.items()}
        plan = definition.__dict__["_plan"] = ConversionPlan(definition.group, definition.conversion_rules, schemas)
    return plan
