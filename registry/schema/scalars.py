"""The checks of one value that has no members: its type and format, texts, numbers, and enums of any values.

Follows kube-openapi pkg/validation/validate/{type,schema,values}.go and pkg/validation/errors/schema.go.
"""

from __future__ import annotations

from functools import lru_cache

from registry.budget import MatchingExceeded
from registry.codec.go_text import go_g, go_json, go_quote, whole_number
from registry.schema.field import (
    MAX_TEXT,
    ErrorType,
    FieldError,
    invalid,
    join_shortened,
    not_supported,
    too_long,
    type_invalid,
)
from registry.schema.formats.formats import effective_format, number_format
from registry.schema.model import Structural
from registry.schema.numbers import fits_float32, is_json_integer, matches_enum, to_int64
from registry.schema.patterns import PatternError, compile_pattern
from registry.schema.problems import Result, TextTooExpensive, too_expensive_to_match
from registry.schema.values import Json

_GO_TYPES: dict[type, tuple[str, str]] = {  # JSON type, format that kube-apiserver derives from a value
    bool: ("boolean", ""),
    int: ("integer", "int64"),
    float: ("number", "float64"),
    str: ("string", ""),
    list: ("array", ""),
    dict: ("object", ""),
}


def schema_types(schema: Structural) -> tuple[str, ...]:
    if schema.int_or_string:
        return ("integer", "string")
    return (schema.type,) if schema.type else ()


def schema_format(schema: Structural) -> str:
    return effective_format("" if schema.int_or_string else schema.type, schema.format)


# ---- types


def report_wrong_type(result: Result, path: str, expected: str, actual: str) -> None:
    text = f"{path} in body must be of type {expected}: {go_quote(actual)}"
    result.add(text, path, type_invalid("", actual, text))


def check_type(types: tuple[str, ...], form: str, value: Json, path: str, result: Result) -> None:
    actual, actual_format = _GO_TYPES[value.__class__]
    result.matches += 1  # the check applies
    fits = (
        actual in types
        or (actual == "integer" and "number" in types)
        or (actual == "number" and "integer" in types and is_json_integer(value))
    )
    text_or_list = actual == "string" or actual == "array"
    if form and not text_or_list and not fits and actual_format != form:
        report_wrong_type(result, path, form, actual_format)
    elif form and text_or_list and "number" not in types and "integer" not in types:
        result.matches += 1  # the format decides, and it applies to strings only
    elif not fits:
        report_wrong_type(result, path, ",".join(types), actual)
    else:
        result.matches += 1


# ---- strings and numbers


def check_string(schema: Structural, value: str, path: str, result: Result) -> None:
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
            raise TextTooExpensive(too_expensive_to_match(path, schema.pattern)) from None
        except PatternError as error:
            pattern = f"{schema.pattern}, but pattern is invalid: {error}"
        text = f"{path} in body should match '{pattern}'"
        result.add(text, path, invalid("", value, text))


def check_number(
    types: tuple[str, ...], form: str, schema: Structural, value: int | float, path: str, result: Result
) -> None:
    result.matches += 2  # the check applies, and is counted twice
    number_type = types[0] if types in (("integer",), ("number",)) else ""
    form = number_format(number_type, form)
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


def _check_range(value: int | float, number_type: str, form: str, what: str, path: str, result: Result) -> bool:
    """Whether the number is in the range of its type and format; also checks the schema's own bounds."""
    if number_type == "integer":
        bits = 31 if form == "int32" else 63
        # kube-apiserver reads a float's shortest digits: those of -2**63 are out of range.
        whole = value if value.__class__ is int else whole_number(value) if float(value).is_integer() else None
        if whole is not None and -(1 << bits) <= whole < 1 << bits:
            return True
    elif form != "float" or fits_float32(float(value)):
        return True
    kind = f"with format {form}" if form else "(default format)"
    result.add_plain(f"{what} value must be of type {number_type} {kind} in {path}")
    return False


def _check_multiple(value: int | float, factor: float, path: str, result: Result) -> None:
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


def _check_bound(value: int | float, bound: float, exclusive: bool, upper: bool, path: str, result: Result) -> None:
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


def check_enum(schema: Structural, value: Json, path: str, result: Result) -> None:
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
