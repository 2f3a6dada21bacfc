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
from itertools import islice

from registry.budget import MatchingExceeded, spend
from registry.codec.go_text import go_quote
from registry.schema.checks import never
from registry.schema.field import (
    MAX_ERRORS,
    FieldError,
    child,
    index,
    invalid,
    quote_shortened,
    required,
    too_many,
    type_invalid,
)
from registry.schema.formats.formats import format_check
from registry.schema.model import Structural
from registry.schema.problems import Result, TextTooExpensive, too_expensive_to_match
from registry.schema.ratcheting import Correlation
from registry.schema.scalars import (
    check_enum,
    check_number,
    check_string,
    check_type,
    report_wrong_type,
    schema_format,
    schema_types,
)
from registry.schema.values import Json

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
        result = _validate(schema, value, "", correlation, fast_check)
    except TextTooExpensive as refusal:
        return [refusal.problem.field_error(prefix)]
    except MatchingExceeded:  # raised by a fast check
        return [too_expensive_to_match("", "").field_error(prefix)]
    return [problem.field_error(prefix) for problem in islice(result.problems.values(), MAX_ERRORS + 1)]


def is_valid(schema: Structural, value: Json) -> bool:
    """Whether `validate` finds nothing. Raises MatchingExceeded where that cannot be decided."""
    return not _validate(schema, value, "", None, None).problems


def _validate(
    schema: Structural, value: Json, path: str, correlation: Correlation | None, fast_check: FastChecks | None
) -> Result:
    spend(_UNITS_A_NODE)
    try:
        return _validate_node(schema, value, path, correlation, fast_check)
    except MatchingExceeded:
        if correlation is not None and correlation.equal():
            return Result()
        raise


def _validate_node(
    schema: Structural, value: Json, path: str, correlation: Correlation | None, fast_check: FastChecks | None
) -> Result:
    result = Result()
    types = schema_types(schema)
    if value is None:
        if types and not schema.nullable:
            report_wrong_type(result, path, ",".join(types), "null")
        else:
            result.matches += 1
        check_enum(schema, value, path, result)
        return _ratchet(result, correlation)
    form = schema_format(schema)
    if types or form:
        check_type(types, form, value, path, result)
    _check_combinators(schema, value, path, result)
    kind = value.__class__
    result.matches += 2  # the combinators and enum apply to everything
    if kind is str:
        check_string(schema, value, path, result)
        check = format_check(form) if form else None
        if check is not None:
            result.matches += 1
            if not check(value):
                text = f"{path} in body must be of type {form}: {quote_shortened(value)}"
                result.add(text, path, type_invalid("", value, text))
    elif kind is int or kind is float:
        check_number(types, form, schema, value, path, result)
    elif kind is list:
        _check_list(schema, value, path, correlation, fast_check, result)
    check_enum(schema, value, path, result)
    if kind is dict:
        _check_object(schema, value, path, correlation, fast_check, result)
        result.matches += 1
    result.matches += 1
    return _ratchet(result, correlation)


def _ratchet(result: Result, correlation: Correlation | None) -> Result:
    if result.problems and correlation is not None and correlation.equal():
        result.problems = {}
    return result


# ---- lists, objects


def _check_list(
    schema: Structural,
    value: list[Json],
    path: str,
    correlation: Correlation | None,
    fast_check: FastChecks | None,
    result: Result,
) -> None:
    result.matches += 2
    spend(len(value))
    if schema.items is not None:
        is_fine = fast_check(schema.items) if fast_check is not None else never
        for position, item in enumerate(value):
            if is_fine(item):
                continue
            inner = correlation.index(position) if correlation is not None else None
            result.merge(_validate(schema.items, item, index(path, position), inner, fast_check))
            if len(result.problems) > MAX_ERRORS:
                break
    _check_size(schema.min_items, schema.max_items, len(value), "items", path, result)


def _check_object(
    schema: Structural,
    value: dict[str, Json],
    path: str,
    correlation: Correlation | None,
    fast_check: FastChecks | None,
    result: Result,
) -> None:
    spend(len(value) + len(schema.required))
    _check_size(schema.min_properties, schema.max_properties, len(value), "properties", path, result)
    _check_additional(schema, value, path, correlation, fast_check, result)
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


def _check_size(least: int | None, most: int | None, size: int, what: str, path: str, result: Result) -> None:
    if least is not None and size < least:
        text = f"{path} in body should have at least {least} {what}"
        result.add(text, path, invalid("", size, text))
    if most is not None and size > most:
        result.add(f"{path} in body should have at most {most} {what}", path, too_many("", size, most))


def _check_additional(
    schema: Structural,
    value: dict[str, Json],
    path: str,
    correlation: Correlation | None,
    fast_check: FastChecks | None,
    result: Result,
) -> None:
    """Checks the members that are not among `properties`."""
    additional = schema.additional_properties
    if additional is False:
        for key in value:
            if key not in schema.properties:
                text = f"{_member(path, key)} in body is a forbidden property"
                result.add(text, path, invalid("", key, text))
                if len(result.problems) > MAX_ERRORS:
                    break
    elif isinstance(additional, Structural):
        is_fine = fast_check(additional) if fast_check is not None else never
        for key, inner in value.items():
            if key not in schema.properties and not is_fine(inner):
                result.merge(
                    _validate(additional, inner, _member(path, key), _child(correlation, key, path), fast_check)
                )
                if len(result.problems) > MAX_ERRORS:
                    break


def _member(path: str, name: str) -> str:
    """The path of a member of the object at `path`; members of the root have a leading dot."""
    return child(path, name) if path else f".{child('', name)}"


def _child(correlation: Correlation | None, name: str, path: str) -> Correlation | None:
    # A change of apiVersion is not visible here (both objects are of one version), so it is never ratcheted.
    if correlation is None or (path == "" and (name == "kind" or name == "apiVersion")):
        return None
    return correlation.key(name)


# ---- combinators


def _check_combinators(schema: Structural, value: Json, path: str, result: Result) -> None:
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
            inner = _validate(branch, value, path, None, None)
            held += not inner.problems
            result.merge(inner)
        if held != len(schema.all_of):
            none = "" if held else ". None validated"
            result.add_plain(f"{quoted} must validate all the schemas (allOf){none}")
    if schema.not_ is not None and not _validate(schema.not_, value, path, None, None).problems:
        result.add_plain(f"{quoted} must not validate the schema (not)")


def _any_of(branches: tuple[Structural, ...], value: Json, path: str) -> Result:
    """The result of the first branch that is valid, else of the one with the most passed checks."""
    best: Result | None = None
    for branch in branches:
        inner = _validate(branch, value, path, None, None)
        if not inner.problems:
            return inner
        if best is None or inner.matches > best.matches:
            best = inner
    assert best is not None
    return best


def _one_of(branches: tuple[Structural, ...], value: Json, path: str, quoted: str, result: Result) -> None:
    held: list[Result] = []
    best: Result | None = None
    for branch in branches:
        inner = _validate(branch, value, path, None, None)
        if not inner.problems:
            held.append(inner)
        elif best is None or inner.matches > best.matches:
            best = inner
    if len(held) == 1:
        result.merge(held[0])
        return
    count = f"Found {len(held)} valid alternatives" if held else "Found none valid"
    result.add_plain(f"{quoted} must validate one and only one schema (oneOf). {count}")
    if not held and best is not None:
        result.merge(best)
