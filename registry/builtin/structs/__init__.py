"""The Go structs of the built-in kinds, by group; a file `<group>_<version>.txt` declares those of its group.

codec/structs/declarations.py describes the files. They follow staging/src/k8s.io/api/<group>/<version>/types.go
at v1.36, and kube-aggregator's pkg/apis/apiregistration/v1/types.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from registry.builtin.quantities import QuantityError, canonical_quantity
from registry.codec.go_text import go_quote
from registry.codec.go_time import ORDINARY_SECONDS, RFC3339, TimeError, canonical_time
from registry.codec.json_encode import encode_json_text
from registry.codec.model import NumberLiteral
from registry.codec.structs.base import DecodingContext, GoType, Link, StructDecodeError
from registry.codec.structs.declarations import qualified, read_structs
from registry.codec.structs.meta import METAV1, Time
from registry.codec.structs.scalars import INT_32, Bytes
from registry.codec.structs.structs import GoMap, Struct, decode

_RFC3339_MICRO = "2006-01-02T15:04:05.000000Z07:00"
_canonical_micro = re.compile(ORDINARY_SECONDS + r"\.\d{6}Z", re.ASCII).fullmatch
_to_seconds = re.compile(r"\d{4}-\d\d-\d\dT\d{1,2}:\d\d:\d\d", re.ASCII)
_micros = re.compile(r"[.,](\d{6})", re.ASCII)


def canonical_micro_time(text: str) -> str:
    """`2024-03-04T05:06:07.123456+02:00` gives `2024-03-04T03:06:07.123456Z`. Raises TimeError without six decimals."""
    if _canonical_micro(text):
        return text
    seconds = _to_seconds.match(text)
    if seconds is None:
        return _with_layout(text, text)
    rest = text[seconds.end() :]
    micros = _micros.match(rest)
    if micros is None:
        _with_layout(text, f"{seconds.group()}Z")  # errors before the decimals are reported first
        raise TimeError(
            f'parsing time {go_quote(text)} as {go_quote(_RFC3339_MICRO)}: cannot parse {go_quote(rest)} as ".000000"'
        )
    return f"{_with_layout(text, seconds.group() + rest[micros.end() :])[:-1]}.{micros.group(1)}Z"


def _with_layout(text: str, reduced: str) -> str:
    """The canonical time of `reduced`; errors contain the whole text and its layout."""
    try:
        return canonical_time(reduced)
    except TimeError as error:
        printed = str(error).replace(f"parsing time {go_quote(reduced)}", f"parsing time {go_quote(text)}", 1)
        raise TimeError(printed.replace(go_quote(RFC3339), go_quote(_RFC3339_MICRO), 1)) from error


class QuantityType(GoType):
    """A resource.Quantity in its canonical form; a number is accepted too, and null is zero.

    All are amounts of a ResourceList, which have no more than thousandths (SetDefaults_ResourceList).
    """

    go = "resource.Quantity"
    zero = "0"

    def decode(self, value: Any, link: Link, context: DecodingContext) -> Any:
        if isinstance(value, NumberLiteral):
            text = value.text
        else:
            text = value.strip() if type(value) is str else encode_json_text(value)
        try:
            return canonical_quantity(text, in_milli=True)
        except QuantityError as error:
            raise StructDecodeError(str(error)) from error


class _BytesOfMap(Bytes):
    """Bytes by name: null means none."""

    zero = ""


class IntOrString(GoType):
    """An intstr.IntOrString: a string or an int32."""

    go = "int32"

    def decode(self, value: Any, link: Link, context: DecodingContext) -> Any:
        if type(value) is str:
            return value
        own = DecodingContext(None)
        return own.finish(INT_32.decode(value, link, own))

    def is_empty(self, value: Any) -> bool:
        return False


# metav1.MicroTime: UTC and six decimals, or null.
MICRO_TIME = Time(canonical_micro_time)
QUANTITY = QuantityType()
BYTES_MAP = GoMap(_BytesOfMap())
INT_OR_STRING = IntOrString()


_KNOWN: Final[Mapping[str, GoType]] = {
    **METAV1,
    "metav1.MicroTime": MICRO_TIME,
    "resource.Quantity": QUANTITY,
    "intstr.IntOrString": INT_OR_STRING,
    "map[string][]byte": BYTES_MAP,
}


def _structs(group_version: str, known: Mapping[str, GoType] = _KNOWN) -> dict[str, Struct]:
    return read_structs(__package__, f"{group_version}.txt", known)


ADMISSION_REGISTRATION: Final = _structs("admissionregistration_v1")
API_REGISTRATION: Final = _structs("apiregistration_v1")
AUTHENTICATION: Final = _structs("authentication_v1")
AUTHORIZATION: Final = _structs("authorization_v1")
AUTOSCALING: Final = _structs("autoscaling_v1")
COORDINATION: Final = _structs("coordination_v1")
CORE: Final = _structs("core_v1")
EVENTS: Final = _structs("events_v1", {**_KNOWN, **qualified("corev1", CORE)})
RBAC: Final = _structs("rbac_v1")
STORAGE_MIGRATION: Final = _structs("storagemigration_v1beta1")

_BY_GROUP: Final = {
    "": CORE,
    "admissionregistration.k8s.io": ADMISSION_REGISTRATION,
    "authentication.k8s.io": AUTHENTICATION,
    "authorization.k8s.io": AUTHORIZATION,
    "autoscaling": AUTOSCALING,
    "coordination.k8s.io": COORDINATION,
    "events.k8s.io": EVENTS,
    "rbac.authorization.k8s.io": RBAC,
    "storagemigration.k8s.io": STORAGE_MIGRATION,
}


def unknown_fields(kind: str, api_version: str, obj: Any) -> list[str]:
    """Decodes an object whose kind is not that of the request; returns its unknown fields, none if there is no struct.

    Raises StructDecodeError. The versions of a group differ in nothing that this shows.
    """
    struct = _BY_GROUP.get(api_version.rpartition("/")[0], {}).get(kind)
    return [] if struct is None else decode(struct, obj).unknown
