"""The Go structs that kinds of all groups share: object metadata, selectors, conditions, options of a delete.

Follows apimachinery pkg/apis/meta/v1/types.go at v1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from registry.codec.go_time import TimeError, canonical_time
from registry.codec.structs.base import DecodingContext, GoType, Link, StructDecodeError, mismatch
from registry.codec.structs.declarations import qualified, read_structs
from registry.codec.structs.scalars import RawExtension

ZERO_TIME: Final = "0001-01-01T00:00:00Z"
# Kinds that every scheme knows in any version, always as v1 (pkg/apis/meta/v1/register.go).
UNVERSIONED: Final = frozenset({"Status", "APIVersions", "APIGroup", "APIGroupList", "APIResourceList"})


class Time(GoType):
    """A metav1.Time: RFC 3339 in UTC with whole seconds. `canonical` converts other forms of time.

    The zero time is encoded as null, and so decoded as absent.
    """

    go = "string"
    by_reference = True

    def __init__(self, canonical: Callable[[str], str] = canonical_time) -> None:
        self._canonical = canonical

    def decode(self, value: Any, link: Link, context: DecodingContext) -> Any:
        if type(value) is not str:
            raise mismatch(value, link, self.go)
        try:
            time = self._canonical(value)
        except TimeError as error:
            raise StructDecodeError(str(error)) from error
        return None if time in (ZERO_TIME, "0001-01-01T00:00:00.000000Z") else time


TIME: Final = Time()

META = read_structs(__package__, "meta_v1.txt", {"Time": TIME, "FieldsV1": RawExtension("v1.FieldsV1")})
# The same for the declarations of other packages.
METAV1: Final[Mapping[str, GoType]] = {"metav1.Time": TIME, **qualified("metav1", META)}
