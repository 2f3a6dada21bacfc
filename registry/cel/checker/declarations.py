"""The functions and names that rules of Kubernetes 1.36 may use: overloads with argument and result types.

`FUNCTIONS["size"]` is a Function with one Overload for each of `size(list)`, `list.size()` and so on. Overload ids are
those of cel-go and of Kubernetes' libraries; the interpreter and the cost estimation are keyed by them. `IDENTS` are
the names of types that an expression may use as values, as in `type(x) == int`.

A table is written as one line for each overload: `id: (arguments) -> result`, or `id: target.(arguments) -> result` for
members; A, B, K, T, V are type parameters.

Follows cel-go common/stdlib/standard.go, cel/library.go and ext, and apiserver pkg/cel/library, as combined by
apiserver pkg/cel/environment/base.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from registry.cel.common import types
from registry.cel.common.types import Type, list_of, map_of, optional_of, param, struct, type_of
from registry.emulation import emulated


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One signature. A member's first argument is its target. `parameters` are names of type parameters."""

    id: str
    function: str
    arguments: tuple[Type, ...]
    result: Type
    member: bool
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """All overloads of a name, in the order of declaration."""

    name: str
    overloads: tuple[Overload, ...]
    by_shape: Mapping[tuple[bool, int], tuple[Overload, ...]]  # by (member, number of arguments with the target)


_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_SUMMABLE = ("int", "uint", "double", "duration")

_OPERATORS = """
_?_:_
    conditional: (bool, A, A) -> A
_&&_
    logical_and: (bool, bool) -> bool
_||_
    logical_or: (bool, bool) -> bool
!_
    logical_not: (bool) -> bool
@not_strictly_false
    not_strictly_false: (bool) -> bool
_==_
    equals: (A, A) -> bool
_!=_
    not_equals: (A, A) -> bool
_+_
    add_bytes: (bytes, bytes) -> bytes
    add_double: (double, double) -> double
    add_duration_duration: (duration, duration) -> duration
    add_duration_timestamp: (duration, timestamp) -> timestamp
    add_timestamp_duration: (timestamp, duration) -> timestamp
    add_int64: (int, int) -> int
    add_list: (list(A), list(A)) -> list(A)
    add_string: (string, string) -> string
    add_uint64: (uint, uint) -> uint
_/_
    divide_double: (double, double) -> double
    divide_int64: (int, int) -> int
    divide_uint64: (uint, uint) -> uint
_%_
    modulo_int64: (int, int) -> int
    modulo_uint64: (uint, uint) -> uint
_*_
    multiply_double: (double, double) -> double
    multiply_int64: (int, int) -> int
    multiply_uint64: (uint, uint) -> uint
-_
    negate_double: (double) -> double
    negate_int64: (int) -> int
_-_
    subtract_double: (double, double) -> double
    subtract_duration_duration: (duration, duration) -> duration
    subtract_int64: (int, int) -> int
    subtract_timestamp_duration: (timestamp, duration) -> timestamp
    subtract_timestamp_timestamp: (timestamp, timestamp) -> duration
    subtract_uint64: (uint, uint) -> uint
_[_]
    index_list: (list(A), int) -> A
    index_map: (map(A, B), A) -> B
    optional_list_index_int: (optional(list(V)), int) -> optional(V)
    optional_map_index_value: (optional(map(K, V)), K) -> optional(V)
_[?_]
    list_optindex_optional_int: (list(V), int) -> optional(V)
    optional_list_optindex_optional_int: (optional(list(V)), int) -> optional(V)
    map_optindex_optional_value: (map(K, V), K) -> optional(V)
    optional_map_optindex_optional_value: (optional(map(K, V)), K) -> optional(V)
_?._
    select_optional_field: (dyn, string) -> optional(V)
@in
    in_list: (A, list(A)) -> bool
    in_map: (A, map(A, B)) -> bool
"""

_STANDARD = """
size
    size_bytes: (bytes) -> int
    bytes_size: bytes.() -> int
    size_list: (list(A)) -> int
    list_size: list(A).() -> int
    size_map: (map(A, B)) -> int
    map_size: map(A, B).() -> int
    size_string: (string) -> int
    string_size: string.() -> int
type
    type: (A) -> type(A)
bool
    bool_to_bool: (bool) -> bool
    string_to_bool: (string) -> bool
bytes
    bytes_to_bytes: (bytes) -> bytes
    string_to_bytes: (string) -> bytes
double
    double_to_double: (double) -> double
    int64_to_double: (int) -> double
    string_to_double: (string) -> double
    uint64_to_double: (uint) -> double
duration
    duration_to_duration: (duration) -> duration
    int64_to_duration: (int) -> duration
    string_to_duration: (string) -> duration
dyn
    to_dyn: (A) -> dyn
int
    int64_to_int64: (int) -> int
    double_to_int64: (double) -> int
    duration_to_int64: (duration) -> int
    string_to_int64: (string) -> int
    timestamp_to_int64: (timestamp) -> int
    uint64_to_int64: (uint) -> int
string
    string_to_string: (string) -> string
    bool_to_string: (bool) -> string
    bytes_to_string: (bytes) -> string
    double_to_string: (double) -> string
    duration_to_string: (duration) -> string
    int64_to_string: (int) -> string
    timestamp_to_string: (timestamp) -> string
    uint64_to_string: (uint) -> string
timestamp
    timestamp_to_timestamp: (timestamp) -> timestamp
    int64_to_timestamp: (int) -> timestamp
    string_to_timestamp: (string) -> timestamp
uint
    uint64_to_uint64: (uint) -> uint
    double_to_uint64: (double) -> uint
    int64_to_uint64: (int) -> uint
    string_to_uint64: (string) -> uint
contains
    contains_string: string.(string) -> bool
endsWith
    ends_with_string: string.(string) -> bool
startsWith
    starts_with_string: string.(string) -> bool
matches
    matches: (string, string) -> bool
    matches_string: string.(string) -> bool
getFullYear
    timestamp_to_year: timestamp.() -> int
    timestamp_to_year_with_tz: timestamp.(string) -> int
getMonth
    timestamp_to_month: timestamp.() -> int
    timestamp_to_month_with_tz: timestamp.(string) -> int
getDayOfYear
    timestamp_to_day_of_year: timestamp.() -> int
    timestamp_to_day_of_year_with_tz: timestamp.(string) -> int
getDayOfMonth
    timestamp_to_day_of_month: timestamp.() -> int
    timestamp_to_day_of_month_with_tz: timestamp.(string) -> int
getDate
    timestamp_to_day_of_month_1_based: timestamp.() -> int
    timestamp_to_day_of_month_1_based_with_tz: timestamp.(string) -> int
getDayOfWeek
    timestamp_to_day_of_week: timestamp.() -> int
    timestamp_to_day_of_week_with_tz: timestamp.(string) -> int
getHours
    timestamp_to_hours: timestamp.() -> int
    timestamp_to_hours_with_tz: timestamp.(string) -> int
    duration_to_hours: duration.() -> int
getMinutes
    timestamp_to_minutes: timestamp.() -> int
    timestamp_to_minutes_with_tz: timestamp.(string) -> int
    duration_to_minutes: duration.() -> int
getSeconds
    timestamp_to_seconds: timestamp.() -> int
    timestamp_to_seconds_tz: timestamp.(string) -> int
    duration_to_seconds: duration.() -> int
getMilliseconds
    timestamp_to_milliseconds: timestamp.() -> int
    timestamp_to_milliseconds_with_tz: timestamp.(string) -> int
    duration_to_milliseconds: duration.() -> int
"""

_LIBRARIES = """
optional.of
    optional_of: (V) -> optional(V)
optional.ofNonZeroValue
    optional_ofNonZeroValue: (V) -> optional(V)
optional.none
    optional_none: () -> optional(V)
value
    optional_value: optional(V).() -> V
hasValue
    optional_hasValue: optional(V).() -> bool
or
    optional_or_optional: optional(V).(optional(V)) -> optional(V)
orValue
    optional_orValue_value: optional(V).(V) -> V
last
    list_last: list(V).() -> optional(V)
first
    list_first: list(V).() -> optional(V)
optional.unwrap
    optional_unwrap: (list(optional(V))) -> list(V)
unwrapOpt
    optional_unwrapOpt: list(optional(V)).() -> list(V)
indexOf
    list_a_index_of_int: list(A).(A) -> int
    string_index_of_string: string.(string) -> int
    string_index_of_string_int: string.(string, int) -> int
lastIndexOf
    list_a_last_index_of_int: list(A).(A) -> int
    string_last_index_of_string: string.(string) -> int
    string_last_index_of_string_int: string.(string, int) -> int
charAt
    string_char_at_int: string.(int) -> string
lowerAscii
    string_lower_ascii: string.() -> string
replace
    string_replace_string_string: string.(string, string) -> string
    string_replace_string_string_int: string.(string, string, int) -> string
split
    string_split_string: string.(string) -> list(string)
    string_split_string_int: string.(string, int) -> list(string)
substring
    string_substring_int: string.(int) -> string
    string_substring_int_int: string.(int, int) -> string
trim
    string_trim: string.() -> string
upperAscii
    string_upper_ascii: string.() -> string
format
    string_format: string.(list(dyn)) -> string
strings.quote
    strings_quote: (string) -> string
join
    list_join: list(string).() -> string
    list_join_string: list(string).(string) -> string
slice
    list_slice: list(T).(int, int) -> list(T)
flatten
    list_flatten: list(list(T)).() -> list(T)
    list_flatten_int: list(dyn).(int) -> list(dyn)
lists.range
    lists_range: (int) -> list(int)
reverse
    list_reverse: list(T).() -> list(T)
distinct
    list_distinct: list(T).() -> list(T)
sets.contains
    list_sets_contains_list: (list(T), list(T)) -> bool
sets.equivalent
    list_sets_equivalent_list: (list(T), list(T)) -> bool
sets.intersects
    list_sets_intersects_list: (list(T), list(T)) -> bool
cel.@mapInsert
    @mapInsert_map_key_value: (map(K, V), K, V) -> map(K, V)
    @mapInsert_map_map: (map(K, V), map(K, V)) -> map(K, V)
find
    string_find_string: string.(string) -> string
findAll
    string_find_all_string: string.(string) -> list(string)
    string_find_all_string_int: string.(string, int) -> list(string)
url
    string_to_url: (string) -> url
getScheme
    url_get_scheme: url.() -> string
getHost
    url_get_host: url.() -> string
getHostname
    url_get_hostname: url.() -> string
getPort
    url_get_port: url.() -> string
getEscapedPath
    url_get_escaped_path: url.() -> string
getQuery
    url_get_query: url.() -> map(string, list(string))
isURL
    is_url_string: (string) -> bool
ip
    string_to_ip: (string) -> ip
    cidr_ip: cidr.() -> ip
family
    ip_family: ip.() -> int
ip.isCanonical
    ip_is_canonical: (string) -> bool
isUnspecified
    ip_is_unspecified: ip.() -> bool
isLoopback
    ip_is_loopback: ip.() -> bool
isLinkLocalMulticast
    ip_is_link_local_multicast: ip.() -> bool
isLinkLocalUnicast
    ip_is_link_local_unicast: ip.() -> bool
isGlobalUnicast
    ip_is_global_unicast: ip.() -> bool
isIP
    is_ip: (string) -> bool
cidr
    string_to_cidr: (string) -> cidr
containsIP
    cidr_contains_ip_string: cidr.(string) -> bool
    cidr_contains_ip_ip: cidr.(ip) -> bool
containsCIDR
    cidr_contains_cidr_string: cidr.(string) -> bool
    cidr_contains_cidr: cidr.(cidr) -> bool
prefixLength
    cidr_prefix_length: cidr.() -> int
masked
    cidr_masked: cidr.() -> cidr
isCIDR
    is_cidr: (string) -> bool
string
    ip_to_string: (ip) -> string
    cidr_to_string: (cidr) -> string
quantity
    string_to_quantity: (string) -> quantity
isQuantity
    is_quantity_string: (string) -> bool
sign
    quantity_sign: (quantity) -> int
isGreaterThan
    quantity_is_greater_than: quantity.(quantity) -> bool
    semver_is_greater_than: semver.(semver) -> bool
isLessThan
    quantity_is_less_than: quantity.(quantity) -> bool
    semver_is_less_than: semver.(semver) -> bool
compareTo
    quantity_compare_to: quantity.(quantity) -> int
    semver_compare_to: semver.(semver) -> int
asApproximateFloat
    quantity_get_float: quantity.() -> double
asInteger
    quantity_get_int: quantity.() -> int
isInteger
    quantity_is_integer: quantity.() -> bool
add
    quantity_add: quantity.(quantity) -> quantity
    quantity_add_int: quantity.(int) -> quantity
sub
    quantity_sub: quantity.(quantity) -> quantity
    quantity_sub_int: quantity.(int) -> quantity
semver
    string_to_semver: (string) -> semver
    string_bool_to_semver: (string, bool) -> semver
isSemver
    is_semver_string: (string) -> bool
    is_semver_string_bool: (string, bool) -> bool
major
    semver_major: semver.() -> int
minor
    semver_minor: semver.() -> int
patch
    semver_patch: semver.() -> int
validate
    format-validate: format.(string) -> optional(list(string))
format.named
    format-named: (string) -> optional(format)
path
    authorizer_path: authorizer.(string) -> path_check
group
    authorizer_group: authorizer.(string) -> group_check
serviceAccount
    authorizer_serviceaccount: authorizer.(string, string) -> authorizer
resource
    groupcheck_resource: group_check.(string) -> resource_check
subresource
    resourcecheck_subresource: resource_check.(string) -> resource_check
namespace
    resourcecheck_namespace: resource_check.(string) -> resource_check
name
    resourcecheck_name: resource_check.(string) -> resource_check
check
    pathcheck_check: path_check.(string) -> decision
    resourcecheck_check: resource_check.(string) -> decision
errored
    decision_errored: decision.() -> bool
error
    decision_error: decision.() -> string
allowed
    decision_allowed: decision.() -> bool
reason
    decision_reason: decision.() -> string
fieldSelector
    authorizer_fieldselector: resource_check.(string) -> resource_check
labelSelector
    authorizer_labelselector: resource_check.(string) -> resource_check
"""

FORMATS: Final = (
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
)


def _comparisons() -> str:
    """`<` and the other comparisons: each type with itself, and numbers with each other."""
    pairs = [
        ("bool", "bool"),
        ("int", "int"),
        ("int", "double"),
        ("int", "uint"),
        ("uint", "uint"),
        ("uint", "double"),
        ("uint", "int"),
        ("double", "double"),
        ("double", "int"),
        ("double", "uint"),
        ("string", "string"),
        ("bytes", "bytes"),
        ("timestamp", "timestamp"),
        ("duration", "duration"),
    ]
    lines = []
    for function, word in (("_<_", "less"), ("_<=_", "less_equals"), ("_>_", "greater"), ("_>=_", "greater_equals")):
        lines.append(function)
        for left, right in pairs:
            a, b = (_WIDE.get(name, name) for name in (left, right))
            lines.append(f"    {word}_{a if left == right else f'{a}_{b}'}: ({left}, {right}) -> bool")
    return "\n".join(lines)


_WIDE = {"int": "int64", "uint": "uint64"}


def _by_element() -> str:
    """Functions of lists whose elements must be comparable or summable: one overload for each type."""
    lines = []
    for function, overload in (
        ("isSorted", "list_{0}_is_sorted_bool: list({0}).() -> bool"),
        ("max", "list_{0}_max_{0}: list({0}).() -> {0}"),
        ("min", "list_{0}_min_{0}: list({0}).() -> {0}"),
        ("sort", "list_{1}_sort: list({0}).() -> list({0})"),
        ("@sortByAssociatedKeys", "list_{1}_sortByAssociatedKeys: list(T).(list({0})) -> list(T)"),
    ):
        lines.append(function)
        lines += [f"    {overload.format(name, _RUNTIME.get(name, name))}" for name in _COMPARABLE]
    lines.append("sum")
    lines += [f"    list_{name}_sum_{name}: list({name}).() -> {name}" for name in _SUMMABLE]
    return "\n".join(lines)


_RUNTIME = {"duration": types.DURATION.runtime_name, "timestamp": types.TIMESTAMP.runtime_name}


def _formats() -> str:
    return "\n".join(f"format.{name}\n    format.{name}: () -> format" for name in FORMATS)


_NAMED: Final[Mapping[str, Type]] = {
    "bool": types.BOOL,
    "bytes": types.BYTES,
    "double": types.DOUBLE,
    "duration": types.DURATION,
    "dyn": types.DYN,
    "int": types.INT,
    "string": types.STRING,
    "timestamp": types.TIMESTAMP,
    "uint": types.UINT,
    "ip": types.IP,
    "cidr": types.CIDR,
    "quantity": types.QUANTITY,
    "semver": types.SEMVER,
    "url": types.URL,
    "format": types.FORMAT,
    **{
        word: struct(f"kubernetes.authorization.{name}")
        for word, name in (
            ("authorizer", "Authorizer"),
            ("path_check", "PathCheck"),
            ("group_check", "GroupCheck"),
            ("resource_check", "ResourceCheck"),
            ("decision", "Decision"),
        )
    },
    **{name: param(name) for name in ("A", "B", "K", "T", "V")},
}
_MAKERS: Final[Mapping[str, Callable[..., Type]]] = {
    "list": list_of,
    "map": map_of,
    "optional": optional_of,
    "type": type_of,
}
_WORD: Final = re.compile(r"\s*([A-Za-z_]+|[(),])")


def _read_type(text: str, position: int = 0) -> tuple[Type, int]:
    """Parses the type at `position` of, for example, `map(K, list(V))`; returns it and the position after it."""
    word = _WORD.match(text, position)
    assert word is not None, text
    position = word.end()
    if text[position : position + 1] != "(":
        return _NAMED[word[1]], position
    parameters = []
    while text[position] != ")":
        parameter, position = _read_type(text, position + 1)
        parameters.append(parameter)
    return _MAKERS[word[1]](*parameters), position + 1


def _read_overload(function: str, line: str) -> Overload:
    overload_id, _, signature = line.strip().partition(": ")
    left, _, right = signature.partition(" -> ")
    target, member, listed = left.rpartition(".(")
    if not member:
        listed = left[1:]
    arguments = []
    if member:
        arguments.append(_read_type(target)[0])
    position = 0
    while listed[position] != ")":
        argument, position = _read_type(listed, position)
        arguments.append(argument)
        if listed[position] == ",":
            position += 1
    result = _read_type(right)[0]
    letters = sorted(set(re.findall(r"\b[A-Z]\b", signature)))
    return Overload(overload_id, function, tuple(arguments), result, bool(member), tuple(letters))


def _read(*tables: str) -> Mapping[str, Function]:
    overloads: dict[str, list[Overload]] = {}
    function = ""
    for line in "\n".join(tables).splitlines():
        if line.startswith(" "):
            overloads.setdefault(function, []).append(_read_overload(function, line))
        elif line:
            function = line
    functions = {}
    for name, listed in overloads.items():
        shapes: dict[tuple[bool, int], tuple[Overload, ...]] = {}
        for overload in listed:
            shape = (overload.member, len(overload.arguments))
            shapes[shape] = (*shapes.get(shape, ()), overload)
        functions[name] = Function(name, tuple(listed), MappingProxyType(shapes))
    return MappingProxyType(functions)


_TABLES = (_OPERATORS, _comparisons(), _STANDARD, _LIBRARIES, _by_element(), _formats())
_SINCE_1_37 = """
includes
    list_includes_dyn_dyn: dyn.(dyn) -> bool
"""
# An overload that cel-go 0.29 no longer has: it failed whenever it was evaluated.
_UNTIL_1_36 = "    int64_to_duration: (int) -> duration\n"
FUNCTIONS: Final = _read(*_TABLES)
_FUNCTIONS_1_37: Final = _read(*(table.replace(_UNTIL_1_36, "") for table in _TABLES), _SINCE_1_37)


def declared_functions() -> Mapping[str, Function]:
    """The functions that expressions may call in the emulated version."""
    return _FUNCTIONS_1_37 if emulated().is_1_37 else FUNCTIONS


IDENTS: Final[Mapping[str, Type]] = MappingProxyType(
    {
        "bool": type_of(types.BOOL),
        "bytes": type_of(types.BYTES),
        "double": type_of(types.DOUBLE),
        "duration": type_of(types.DURATION),
        "google.protobuf.Duration": type_of(types.DURATION),
        "int": type_of(types.INT),
        "list": type_of(list_of(param("A"))),
        "map": type_of(map_of(param("A"), param("B"))),
        "null_type": type_of(types.NULL),
        "string": type_of(types.STRING),
        "timestamp": type_of(types.TIMESTAMP),
        "google.protobuf.Timestamp": type_of(types.TIMESTAMP),
        "type": type_of(types.TYPE),
        "uint": type_of(types.UINT),
        "optional_type": type_of(optional_of(param("V"))),
        "net.IP": type_of(types.IP),
        "net.CIDR": type_of(types.CIDR),
    }
)
