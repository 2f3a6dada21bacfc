"""Validation of a value against a schema with exact messages: the slow, complete algorithm.

The fast path (fast_validate.py) only decides whether a value is valid; this module finds the errors of one that is not.
Both must agree, which a test checks. Parts that the fast path accepts are skipped, and the search ends after MAX_ERRORS
errors, so that a large object with many errors does not block the process. (kube-apiserver has no limit, and compares
each error with all others: it would take minutes.)

The order of errors in one value is: type, anyOf, oneOf, allOf, not, string, format, number, items, enum, properties,
required; equal texts are reported once.

On an update, errors of unchanged parts are left out (ratcheting, KEP-4008; see ratcheting.py).

Follows kube-openapi pkg/validation/validate/*.go, pkg/validation/errors/schema.go and apiextensions-apiserver
pkg/apiserver/validation/{validation,ratcheting}.go at 1.36.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

from registry.budget import MatchingExceeded, spend
from registry.schema.field import (
    MAX_ERRORS,
    MAX_TEXT,
    OMIT_VALUE,
    ErrorType,
    FieldError,
    child,
    go_g,
    go_json,
    go_quote,
    index,
    invalid,
    join_shortened,
    not_supported,
    quote_shortened,
    required,
    too_long,
    too_many,
    type_invalid,
)
from registry.schema.formats.formats import effective_format, format_check
from registry.schema.model import Structural
from registry.schema.numbers import fits_float32, is_json_integer, matches_enum, to_int64
from registry.schema.patterns import PatternError, compile_pattern
from registry.schema.ratcheting import Correlation
from registry.schema.values import Json

_GO_TYPES: dict[type, tuple[str, str]] = {  # JSON type, format that kube-apiserver derives from a value
    bool: ("boolean", ""),
    int: ("integer", "int64"),
    float: ("number", "float64"),
    str: ("string", ""),
    list: ("array", ""),
    dict: ("object", ""),
}

# The budget charged for a node; each branch of a combinator is one.
_UNITS_A_NODE = 60

# Returns the fast check of a schema's values.
FastChecks = Callable[[Structural], Callable[[Json], bool]]


def validate(
    schema: Structural,
    value: Json,
    *,
    prefix: str | None = None,
    correlation: Correlation | None = None,
    fast_check: FastChecks | None = None,
) -> list[FieldError]:
    """The errors of `value`, in kube-apiserver's order; sibling properties in the order of the schema.

    MAX_ERRORS + 1 errors mean that there may be more.

    `prefix` is the field that precedes all fields but is not part of texts: with "status", the error of `status.n` has
    the field `status.n` and the text `n in body must be ...`. Errors without a field have `<nil>`, or the prefix.
    """
    try:
        found = _validate(schema, value, "", correlation, fast_check)
    except _TextTooExpensive as refusal:
        return [refusal.problem.field_error(prefix)]
    except MatchingExceeded:  # raised by a fast check
        return [_too_expensive_to_match("", "").field_error(prefix)]
    return [problem.field_error(prefix) for problem in islice(found.problems.values(), MAX_ERRORS + 1)]


def is_valid(schema: Structural, value: Json) -> bool:
    """Whether `validate` finds nothing. Raises MatchingExceeded where that cannot be decided."""
    return not _validate(schema, value, "", None, None).problems


@dataclass(slots=True)
class _Problem:
    """An error whose field is not known yet. `name` None: an error of the whole object (a combinator, a range)."""

    name: str | None
    error: FieldError

    def field_error(self, prefix: str | None) -> FieldError:
        error = self.error
        name = (self.name or "").removeprefix(".") if self.name != "." else ""
        if name:
            where = f"{prefix}.{name}" if prefix else name
        else:
            where = prefix or "<nil>"
        return FieldError(error.type, where, error.bad_value, error.detail)


class _TextTooExpensive(MatchingExceeded):
    """A text could not be matched within its limit. Enclosing values cannot be decided either: it may be in a `not`."""

    def __init__(self, problem: _Problem) -> None:
        super().__init__()
        self.problem = problem


def _too_expensive_to_match(path: str, pattern: str) -> _Problem:
    what = f"'{pattern}'" if pattern else "the patterns of the schema"
    return _Problem(path, invalid("", OMIT_VALUE, f"{path} in body is too expensive to match against {what}".lstrip()))


@dataclass(slots=True)
class _Result:
    """Problems by text, and the number of checks that passed: of failed branches, the one with the most is reported."""

    problems: dict[str, _Problem] = field(default_factory=dict)
    matches: int = 0

    def add(self, text: str, name: str | None, error: FieldError) -> None:
        self.problems.setdefault(text, _Problem(name, error))

    def add_plain(self, text: str) -> None:
        self.add(text, None, invalid("", "", text))

    def merge(self, other: _Result) -> None:
        for text, problem in other.problems.items():
            self.problems.setdefault(text, problem)
        self.matches += other.matches


def schema_types(schema: Structural) -> tuple[str, ...]:
    if schema.int_or_string:
        return ("integer", "string")
    return (schema.type,) if schema.type else ()


def schema_format(schema: Structural) -> str:
    return effective_format("" if schema.int_or_string else schema.type, schema.format)


def _validate(
    schema: Structural, value: Json, path: str, correlation: Correlation | None, fast_check: FastChecks | None
) -> _Result:
    spend(_UNITS_A_NODE)
    try:
        return _validate_node(schema, value, path, correlation, fast_check)
    except MatchingExceeded:
        if correlation is not None and correlation.equal():
            return _Result()
        raise


def _validate_node(
    schema: Structural, value: Json, path: str, correlation: Correlation | None, fast_check: FastChecks | None
) -> _Result:
    result = _Result()
    types = schema_types(schema)
    if value is None:
        if types and not schema.nullable:
            _wrong_type(result, path, ",".join(types), "null")
        else:
            result.matches += 1
        _check_enum(schema, value, path, result)
        return _ratchet(result, correlation)
    form = schema_format(schema)
    if types or form:
        _check_type(types, form, value, path, result)
    _check_combinators(schema, value, path, result)
    kind = value.__class__
    result.matches += 2  # the combinators and enum apply to everything
    if kind is str:
        _check_string(schema, value, path, result)
        check = format_check(form) if form else None
        if check is not None:
            result.matches += 1
            if not check(value):
                text = f"{path} in body must be of type {form}: {quote_shortened(value)}"
                result.add(text, path, type_invalid("", value, text))
    elif kind is int or kind is float:
        _check_number(types, form, schema, value, path, result)
    elif kind is list:
        _check_list(schema, value, path, correlation, fast_check, result)
    _check_enum(schema, value, path, result)
    if kind is dict:
        _check_object(schema, value, path, correlation, fast_check, result)
        result.matches += 1
    result.matches += 1
    return _ratchet(result, correlation)


def _ratchet(result: _Result, correlation: Correlation | None) -> _Result:
    if result.problems and correlation is not None and correlation.equal():
        result.problems = {}
    return result


# ---- types


def _wrong_type(result: _Result, path: str, expected: str, actual: str) -> None:
    text = f"{path} in body must be of type {expected}: {go_quote(actual)}"
    result.add(text, path, type_invalid("", actual, text))


def _check_type(types: tuple[str, ...], form: str, value: Json, path: str, result: _Result) -> None:
    actual, actual_format = _GO_TYPES[value.__class__]
    result.matches += 1  # the check applies
    fits = (
        actual in types
        or (actual == "integer" and "number" in types)
        or (actual == "number" and "integer" in types and is_json_integer(value))
    )
    text_or_list = actual == "string" or actual == "array"
    if form and not text_or_list and not fits and actual_format != form:
        _wrong_type(result, path, form, actual_format)
    elif form and text_or_list and "number" not in types and "integer" not in types:
        result.matches += 1  # the format decides, and it applies to strings only
    elif not fits:
        _wrong_type(result, path, ",".join(types), actual)
    else:
        result.matches += 1


# ---- strings and numbers


def _check_string(schema: Structural, value: str, path: str, result: _Result) -> None:
    result.matches += 1
    if schema.max_length is not None and len(value) > schema.max_length:
        result.add(
            f"{path} in body should be at most {schema.max_length} chars long", path, too_long("", schema.max_length)
        )
    elif schema.min_length is not None and len(value) < schema.min_length:
        text = f"{path} in body should be at least {schema.min_length} chars long"
        result.add(text, path, invalid("", value, text))
    elif schema.pattern:
        pattern = schema.pattern
        try:
            if compile_pattern(schema.pattern)(value):
                return
        except MatchingExceeded:
            raise _TextTooExpensive(_too_expensive_to_match(path, schema.pattern)) from None
        except PatternError as error:
            pattern = f"{schema.pattern}, but pattern is invalid: {error}"
        text = f"{path} in body should match '{pattern}'"
        result.add(text, path, invalid("", value, text))


def _check_number(
    types: tuple[str, ...], form: str, schema: Structural, value: int | float, path: str, result: _Result
) -> None:
    result.matches += 2  # the check applies, and is counted twice
    number_type = types[0] if types in (("integer",), ("number",)) else ""
    form = form if number_type else ""
    _check_range(value, number_type, form, "Checked", path, result)
    if schema.multiple_of is not None:
        exact = _check_range(schema.multiple_of, number_type, form, "MultipleOf", path, result)
        _check_multiple(value if exact else float(value), float(schema.multiple_of), path, result)
    if schema.minimum is not None:
        exact = _check_range(schema.minimum, number_type, form, "Minimum boundary", path, result)
        _check_bound(
            value if exact else float(value), float(schema.minimum), schema.exclusive_minimum, False, path, result
        )
    if schema.maximum is not None:
        exact = _check_range(schema.maximum, number_type, form, "Maximum boundary", path, result)
        _check_bound(
            value if exact else float(value), float(schema.maximum), schema.exclusive_maximum, True, path, result
        )


def _check_range(value: int | float, number_type: str, form: str, what: str, path: str, result: _Result) -> bool:
    """Whether the number is in the range of its type and format; also checks the schema's own bounds."""
    if number_type == "integer":
        bits = 31 if form == "int32" else 63
        whole = value.__class__ is int or float(value).is_integer()
        if whole and -(1 << bits) <= value < 1 << bits:
            return True
    elif form != "float" or fits_float32(float(value)):
        return True
    kind = f"with format {form}" if form else "(default format)"
    result.add_plain(f"{what} value must be of type {number_type} {kind} in {path}")
    return False


def _check_multiple(value: int | float, factor: float, path: str, result: _Result) -> None:
    if value.__class__ is int:
        # kube-apiserver truncates the factor to an integer for an integer value.
        whole = to_int64(factor)
        if whole > 0 and value % whole == 0:
            return
        divisor: int | float = whole
    else:
        quotient = 0.0 if factor <= 0 else 1 / factor * value if factor < 1 else value / factor
        if factor > 0 and is_json_integer(quotient):
            return
        divisor = factor
    printed = str(divisor) if divisor.__class__ is int else go_g(divisor)
    if divisor <= 0:
        text = f"factor MultipleOf declared for {path} must be positive: {printed}"
        result.add(text, path, invalid("", divisor, text))
    else:
        text = f"{path} in body should be a multiple of {printed}"
        result.add(text, path, invalid("", value, text))


def _check_bound(value: int | float, bound: float, exclusive: bool, upper: bool, path: str, result: _Result) -> None:
    # kube-apiserver truncates the bound to an integer for an integer value.
    limit: int | float = to_int64(bound) if value.__class__ is int else bound
    if value == limit:
        if not exclusive:
            return
    elif (value < limit) == upper:
        return
    relation = ("less" if upper else "greater") + (" than " if exclusive else " than or equal to ")
    text = f"{path} in body should be {relation}{limit if limit.__class__ is int else go_g(limit)}"
    result.add(text, path, invalid("", value, text))


# ---- lists, objects, enum


def _check_list(
    schema: Structural,
    value: list[Json],
    path: str,
    correlation: Correlation | None,
    fast_check: FastChecks | None,
    result: _Result,
) -> None:
    result.matches += 2
    spend(len(value))
    if schema.items is not None:
        is_fine = fast_check(schema.items) if fast_check is not None else _never_valid
        for position, item in enumerate(value):
            if is_fine(item):
                continue
            inner = correlation.index(position) if correlation is not None else None
            result.merge(_validate(schema.items, item, index(path, position), inner, fast_check))
            if len(result.problems) > MAX_ERRORS:
                break
    size = len(value)
    if schema.min_items is not None and size < schema.min_items:
        text = f"{path} in body should have at least {schema.min_items} items"
        result.add(text, path, invalid("", size, text))
    if schema.max_items is not None and size > schema.max_items:
        result.add(
            f"{path} in body should have at most {schema.max_items} items", path, too_many("", size, schema.max_items)
        )


def _check_object(
    schema: Structural,
    value: dict[str, Json],
    path: str,
    correlation: Correlation | None,
    fast_check: FastChecks | None,
    result: _Result,
) -> None:
    size = len(value)
    spend(size + len(schema.required))
    if schema.min_properties is not None and size < schema.min_properties:
        text = f"{path} in body should have at least {schema.min_properties} properties"
        result.add(text, path, invalid("", size, text))
    if schema.max_properties is not None and size > schema.max_properties:
        result.add(
            f"{path} in body should have at most {schema.max_properties} properties",
            path,
            too_many("", size, schema.max_properties),
        )
    additional = schema.additional_properties
    if additional is False:
        for key in value:
            if key not in schema.properties:
                text = f"{_member(path, key)} in body is a forbidden property"
                result.add(text, path, invalid("", key, text))
                if len(result.problems) > MAX_ERRORS:
                    break
    elif isinstance(additional, Structural):
        is_fine = fast_check(additional) if fast_check is not None else _never_valid
        for key, inner in value.items():
            if key not in schema.properties and not is_fine(inner):
                result.merge(
                    _validate(additional, inner, _member(path, key), _child(correlation, key, path), fast_check)
                )
                if len(result.problems) > MAX_ERRORS:
                    break
    if len(value) < len(schema.properties):
        names = [name for name in value if name in schema.properties]
    else:
        names = [name for name in schema.properties if name in value]
    for name in names:
        inner_schema, inner = schema.properties[name], value[name]
        if fast_check is None or not fast_check(inner_schema)(inner):
            result.merge(_validate(inner_schema, inner, child(path, name), _child(correlation, name, path), fast_check))
            if len(result.problems) > MAX_ERRORS:
                break
    for name in schema.required:
        if name not in value:
            missing = _member(path, name)
            result.add(f"{missing} in body is required", missing, required(""))


def _member(path: str, name: str) -> str:
    """The path of a member of the object at `path`; members of the root have a leading dot."""
    return child(path, name) if path else f".{child('', name)}"


def _never_valid(value: Json) -> bool:
    return False


def _child(correlation: Correlation | None, name: str, path: str) -> Correlation | None:
    # A change of apiVersion is not visible here (both objects are of one version), so it is never ratcheted.
    if correlation is None or (path == "" and (name == "kind" or name == "apiVersion")):
        return None
    return correlation.key(name)


def _check_enum(schema: Structural, value: Json, path: str, result: _Result) -> None:
    if not schema.enum:
        return
    if value in _enum_strings(schema) if value.__class__ is str else matches_enum(value, schema.enum):
        return
    values, supported = _enum_texts(schema)
    result.add(
        f"{path} in body should be one of [{values}]", path, FieldError(ErrorType.NOT_SUPPORTED, "", value, supported)
    )


@lru_cache(maxsize=64)
def _enum_strings(schema: Structural) -> frozenset[str]:
    return frozenset(known for known in schema.enum or () if known.__class__ is str)


@lru_cache(maxsize=64)
def _enum_texts(schema: Structural) -> tuple[str, str]:
    """The values of an enum in the two forms of its error, built once for all items that may be wrong."""
    values = [known if isinstance(known, str) else go_json(known, MAX_TEXT) for known in schema.enum or ()]
    return join_shortened(values, " "), not_supported("", "", values).detail


# ---- combinators


def _check_combinators(schema: Structural, value: Json, path: str, result: _Result) -> None:
    """Branches are checked without ratcheting: only the value as a whole, if unchanged, may keep their errors.

    They are also checked without skipping valid parts, since passed checks are counted.
    """
    result.matches += 1
    quoted = go_quote(path)
    if schema.any_of:
        best = _any_of(schema.any_of, value, path)
        if best.problems:
            result.add_plain(f"{quoted} must validate at least one schema (anyOf)")
        result.merge(best)
    if schema.one_of:
        _one_of(schema.one_of, value, path, quoted, result)
    if schema.all_of:
        held = 0
        for branch in schema.all_of:
            found = _validate(branch, value, path, None, None)
            held += not found.problems
            result.merge(found)
        if held != len(schema.all_of):
            none = "" if held else ". None validated"
            result.add_plain(f"{quoted} must validate all the schemas (allOf){none}")
    if schema.not_ is not None and not _validate(schema.not_, value, path, None, None).problems:
        result.add_plain(f"{quoted} must not validate the schema (not)")


def _any_of(branches: tuple[Structural, ...], value: Json, path: str) -> _Result:
    """The result of the first branch that is valid, else of the one with the most passed checks."""
    best: _Result | None = None
    for branch in branches:
        found = _validate(branch, value, path, None, None)
        if not found.problems:
            return found
        if best is None or found.matches > best.matches:
            best = found
    assert best is not None
    return best


def _one_of(branches: tuple[Structural, ...], value: Json, path: str, quoted: str, result: _Result) -> None:
    held: list[_Result] = []
    best: _Result | None = None
    for branch in branches:
        found = _validate(branch, value, path, None, None)
        if not found.problems:
            held.append(found)
        elif best is None or found.matches > best.matches:
            best = found
    if len(held) == 1:
        result.merge(held[0])
        return
    count = f"Found {len(held)} valid alternatives" if held else "Found none valid"
    result.add_plain(f"{quoted} must validate one and only one schema (oneOf). {count}")
    if not held and best is not None:
        result.merge(best)


__all__ = ["schema_format", "schema_types", "validate"]
