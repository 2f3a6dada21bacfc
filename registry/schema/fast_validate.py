"""Fast path of validation: is a value valid?

A closure returns True in the ordinary case without allocating. Anything unusual (an unexpected type, a format on a
list, a fractional bound) is left to the complete algorithm, validation.py. A text that is too expensive to match
against its pattern raises MatchingExceeded, because a check may be part of a `not`.

`compile_fast_validate_changes` compares with the old value: what a patch has left as it was is not checked again.

The work is linear in the size of the value, except for the branches of combinators, which each check all of it: those
are charged to the request's budget.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any

from registry.budget import spend
from registry.schema.checks import ChangesCheck, Check, always, lazily, never
from registry.schema.formats.formats import format_check
from registry.schema.model import Structural, nodes_with
from registry.schema.numbers import to_int64
from registry.schema.patterns import PatternError, compile_pattern
from registry.schema.scalars import schema_format, schema_types
from registry.schema.validation import is_valid

Compile = Callable[[Structural], Check]


def compile_fast_validate(schema: Structural) -> Check:
    """Compiles a check of any value: True means that validation.py would find no error."""
    return _compile(schema, compile_fast_validate)


def compile_fast_validate_changes(schema: Structural) -> ChangesCheck:
    """Compiles a check of a new value and the old one: True means that validation.py would find no error in the new
    one, or only errors of unchanged parts (ratcheting.py).

    A part that is the same object as the old one at its place is not checked. The caller ensures that in lists of type
    map, items correlate with themselves (ListTypes.has_plain_keys).
    """
    return _compile_changes(schema, nodes_with(schema, _never_unchanged))


def _never_unchanged(schema: Structural) -> bool:
    """Whether a value may have fields that the schema does not name: it never counts as unchanged."""
    return (
        schema.preserve_unknown_fields
        or schema.embedded_resource
        or isinstance(schema.additional_properties, bool)
        or not (schema.type or schema.int_or_string)
    )


def _compile_changes(schema: Structural, never_unchanged: Set[Structural]) -> ChangesCheck:
    """Compiles the check of one node. It descends through the objects that have nothing to check but their fields."""
    whole = compile_fast_validate(schema)
    is_limited = (schema.min_properties or 0) > 0 or schema.max_properties is not None
    is_combined = bool(schema.all_of or schema.any_of or schema.one_of or schema.not_ is not None or schema.enum)
    if schema.type != "object" or schema.int_or_string or not schema.properties or is_limited or is_combined:
        return lambda value, old: whole(value)
    required = tuple(schema.required)
    skipped = frozenset(name for name, inner in schema.properties.items() if inner not in never_unchanged)
    checks = lazily(schema.properties, compile_fast_validate)
    changes: dict[str, ChangesCheck] = {}
    rest: Check = never if schema.additional_properties is False else always
    if isinstance(schema.additional_properties, Structural):
        rest = compile_fast_validate(schema.additional_properties)

    def check(value: Any, old: Any) -> bool:
        if value.__class__ is not dict or old.__class__ is not dict:
            return whole(value)
        for name in required:
            if name not in value:
                return False
        for name, part in value.items():
            if part.__class__ is dict or part.__class__ is list:
                before = old.get(name)
                if part is before and name in skipped:
                    continue
                if before.__class__ is dict and name in checks:
                    if name not in changes:
                        changes[name] = _compile_changes(schema.properties[name], never_unchanged)
                    if not changes[name](part, before):
                        return False
                    continue
            if not checks.get(name, rest)(part):
                return False
        return True

    return check


def compile_with_budget(schema: Structural) -> Check:
    """The same for values that are checked repeatedly: each node is charged to the request's budget."""
    check = _compile(schema, compile_with_budget)
    units = _UNITS_A_TEXT if schema.pattern or schema.format else _UNITS_A_NODE

    def check_charged(value: Any) -> bool:
        kind = value.__class__
        if kind is dict or kind is list:
            spend(units + len(value))
        elif kind is str:
            spend(units + (len(value) >> 5))  # formats read each character
        else:
            spend(units)
        return check(value)

    return check_charged


_UNITS_A_NODE = 5
_UNITS_A_TEXT = 25  # for matching against a pattern or a format


def _compile(schema: Structural, inner: Compile) -> Check:
    """The check of one node; `inner` compiles the nodes below it."""

    def compile_node(value: Any) -> bool:
        return is_valid(schema, value)

    form = schema_format(schema)
    types = schema_types(schema)
    if schema.int_or_string:
        check = _int_or_string(schema, form, compile_node)
    elif not types:
        check = _untyped(schema, form, compile_node, inner)
    elif schema.type == "array":
        check = _list(schema, compile_node, inner)
    elif schema.type == "object":
        check = _object(schema, compile_node, inner)
    else:
        check = _TYPED.get(schema.type, _of_unknown_type)(schema, form, compile_node)
    more = _combinators(schema)
    if schema.enum:
        texts = frozenset(known for known in schema.enum if known.__class__ is str)
        if schema.type == "string" and not more and not form and _string_check(schema, "", never) is None:
            return lambda value: value in texts if value.__class__ is str else compile_node(value)
        integers = frozenset(known for known in schema.enum if known.__class__ is int)
        more.insert(
            0,
            lambda value: (
                value in texts
                if value.__class__ is str
                else ((value.__class__ is int and value in integers) or compile_node(value))
            ),
        )
    if not more:
        return _with_null(schema, check) if schema.nullable and types else check
    return _all_of(check, more, compile_node)


def _all_of(first: Check, more: list[Check], compile_node: Check) -> Check:
    """Combinators do not apply to null, so nulls are left to the complete algorithm."""
    if len(more) == 1:
        second = more[0]
        return lambda value: first(value) and second(value) if value is not None else compile_node(value)

    def check(value: Any) -> bool:
        if value is None:
            return compile_node(value)
        if not first(value):
            return False
        for one in more:  # noqa: SIM110 - a generator would double the time
            if not one(value):
                return False
        return True

    return check


def _with_null(schema: Structural, check: Check) -> Check:
    return lambda value: value is None or check(value)


def _string_check(schema: Structural, form: str, otherwise: Check) -> Check | None:
    """A check of strings by length, pattern and format; None when there is nothing to check. `otherwise` is that of
    other values: a call less for each string."""
    low = schema.min_length or 0
    high = schema.max_length
    matches: Check | None = None
    if schema.pattern:
        try:
            matches = compile_pattern(schema.pattern)
        except PatternError:
            matches = never
    fits = format_check(form) if form else None
    if matches is None and fits is None:
        if high is None:
            return (
                None if low <= 0 else (lambda value: len(value) >= low if value.__class__ is str else otherwise(value))
            )
        return lambda value: low <= len(value) <= high if value.__class__ is str else otherwise(value)

    def check(value: Any) -> bool:
        if value.__class__ is not str:
            return otherwise(value)
        size = len(value)
        if size < low or (high is not None and size > high):
            return False
        if matches is not None and not matches(value):
            return False
        return fits is None or fits(value)

    return check


def _string(schema: Structural, form: str, compile_node: Check) -> Check:
    return _string_check(schema, form, compile_node) or (lambda value: value.__class__ is str or compile_node(value))


def _boolean(schema: Structural, form: str, compile_node: Check) -> Check:
    return lambda value: value.__class__ is bool or compile_node(value)


def _integer_bounds(schema: Structural, form: str) -> tuple[int, int] | None:
    """The least and greatest valid integer; None when a bound requires the complete algorithm."""
    low, high = (-1 << 31, (1 << 31) - 1) if form == "int32" else (-1 << 63, (1 << 63) - 1)
    for bound in (schema.minimum, schema.maximum):
        if bound is not None and (
            not float(bound).is_integer() or not low <= float(bound) <= high or abs(bound) > 1 << 53
        ):
            return None
    if schema.minimum is not None:
        low = int(schema.minimum) + schema.exclusive_minimum
    if schema.maximum is not None:
        high = int(schema.maximum) - schema.exclusive_maximum
    return low, high


def _is_plain_whole(value: Any) -> bool:
    """Whether a value is a float such as 1.0, small enough to equal the integer exactly."""
    return value.__class__ is float and value.is_integer() and -(2.0**53) < value < 2.0**53


def _integer(schema: Structural, form: str, compile_node: Check) -> Check:
    bounds = _integer_bounds(schema, form)
    if bounds is None:
        return compile_node
    low, high = bounds
    factor = schema.multiple_of
    if factor is not None:
        if not 0 < factor < 1 << 31 or not float(factor).is_integer():
            return compile_node
        whole = int(factor)
        return lambda value: (
            (value.__class__ is int and low <= value <= high and value % whole == 0) or compile_node(value)
        )
    if form != "int32" and schema.minimum is None and schema.maximum is None:
        return lambda value: value.__class__ is int or _is_plain_whole(value) or compile_node(value)
    return lambda value: (
        low <= value <= high if value.__class__ is int or _is_plain_whole(value) else compile_node(value)
    )


def _number(schema: Structural, form: str, compile_node: Check) -> Check:
    if schema.multiple_of is not None or form == "float":
        return compile_node
    if schema.minimum is None and schema.maximum is None:
        return lambda value: value.__class__ is float or value.__class__ is int or compile_node(value)
    low = float("-inf") if schema.minimum is None else float(schema.minimum)
    high = float("inf") if schema.maximum is None else float(schema.maximum)
    low_int = -1 << 63 if schema.minimum is None else to_int64(low)
    high_int = (1 << 63) - 1 if schema.maximum is None else to_int64(high)
    no_low, no_high = schema.exclusive_minimum, schema.exclusive_maximum

    def check(value: Any) -> bool:
        if value.__class__ is float:
            return low <= value <= high and not (no_low and value == low) and not (no_high and value == high)
        if value.__class__ is int:
            return (
                low_int <= value <= high_int
                and not (no_low and value == low_int)
                and not (no_high and value == high_int)
            )
        return compile_node(value)

    return check


def _int_or_string(schema: Structural, form: str, compile_node: Check) -> Check:
    if form or schema.multiple_of is not None or schema.minimum is not None or schema.maximum is not None:
        return compile_node
    inner = _string_check(schema, "", never)
    if inner is None:
        return lambda value: (
            value.__class__ is str or value.__class__ is int or _is_plain_whole(value) or compile_node(value)
        )
    return lambda value: (
        inner(value)
        if value.__class__ is str
        else (value.__class__ is int or _is_plain_whole(value) or compile_node(value))
    )


def _list(schema: Structural, compile_node: Check, inner: Compile) -> Check:
    low = schema.min_items or 0
    high = schema.max_items
    items = schema.items
    item_check: Check | None = None if items is not None else always

    def check(value: Any) -> bool:
        nonlocal item_check
        if value.__class__ is not list:
            return compile_node(value)
        size = len(value)
        if size < low or (high is not None and size > high):
            return False
        for item in value:
            if item_check is None:
                assert items is not None
                item_check = inner(items)
            if not item_check(item):
                return False
        return True

    return check


def _object(schema: Structural, compile_node: Check, inner: Compile) -> Check:
    low = schema.min_properties or 0
    high = schema.max_properties
    required = tuple(schema.required)
    if low <= 0 and high is None:
        return _fields(schema, required, compile_node, inner)
    fields = _fields(schema, required, never, inner)

    def check(value: Any) -> bool:
        if value.__class__ is not dict:
            return compile_node(value)
        size = len(value)
        return low <= size and (high is None or size <= high) and fields(value)

    return check


def _fields(schema: Structural, required: tuple[str, ...], otherwise: Check, inner: Compile) -> Check:
    """The check of an object's fields, one after the other; `otherwise` is that of what is no object: a call less for
    each."""
    additional = schema.additional_properties
    if isinstance(additional, Structural) and not schema.properties:
        return _map_values(additional, required, otherwise, inner)
    checks = lazily(schema.properties, inner)
    find = checks.get
    rest: Check = never if additional is False else always
    if isinstance(additional, Structural):
        rest = inner(additional)
    has_checks = bool(schema.properties) or rest is not always

    def check(value: Any) -> bool:
        if value.__class__ is not dict:
            return otherwise(value)
        for name in required:
            if name not in value:
                return False
        if has_checks:
            for name, member in value.items():
                if not find(name, rest)(member):
                    return False
        return True

    return check


def _map_values(schema: Structural, required: tuple[str, ...], otherwise: Check, inner: Compile) -> Check:
    value_check: Check | None = None

    def check(value: Any) -> bool:
        nonlocal value_check
        if value.__class__ is not dict:
            return otherwise(value)
        for name in required:
            if name not in value:
                return False
        for member in value.values():
            if value_check is None:
                value_check = inner(schema)
            if not value_check(member):
                return False
        return True

    return check


_TYPED: dict[str, Callable[[Structural, str, Check], Check]] = {
    "string": _string,
    "boolean": _boolean,
    "integer": _integer,
    "number": _number,
}


def _of_unknown_type(_schema: Structural, _form: str, compile_node: Check) -> Check:
    """Definitions that preserve unknown fields may name an unknown type; no value is of it."""
    return compile_node


def _untyped(schema: Structural, form: str, compile_node: Check, inner: Compile) -> Check:
    """The check of combinator branches and of nodes that allow any type."""
    if form or schema.multiple_of is not None or schema.minimum is not None or schema.maximum is not None:
        return compile_node
    by_kind: dict[type, Check] = {}
    text_check = _string_check(schema, "", never)
    if text_check is not None:
        by_kind[str] = text_check
    if schema.items is not None or schema.min_items is not None or schema.max_items is not None:
        by_kind[list] = _list(schema, compile_node, inner)
    if (
        schema.properties
        or schema.required
        or schema.additional_properties is not None
        or schema.min_properties is not None
        or schema.max_properties is not None
    ):
        by_kind[dict] = _object(schema, compile_node, inner)
    if not by_kind:
        return always
    find = by_kind.get

    def check(value: Any) -> bool:
        class_check = find(value.__class__)
        return class_check is None or class_check(value)

    return check


def _combinators(schema: Structural) -> list[Check]:
    checks: list[Check] = []
    if schema.any_of and not _only_repeats_int_or_string(schema):
        any_of = [compile_with_budget(branch) for branch in schema.any_of]
        checks.append(lambda value: any(branch(value) for branch in any_of))
    if schema.one_of:
        one_of = [compile_with_budget(branch) for branch in schema.one_of]
        checks.append(lambda value: sum(branch(value) for branch in one_of) == 1)
    checks.extend(compile_with_budget(branch) for branch in schema.all_of)
    if schema.not_ is not None:
        refused = compile_with_budget(schema.not_)
        checks.append(lambda value: not refused(value))
    return checks


def _only_repeats_int_or_string(schema: Structural) -> bool:
    """The anyOf of integer and string that generators emit with x-kubernetes-int-or-string is redundant."""
    return (
        schema.int_or_string
        and [branch.type for branch in schema.any_of] == ["integer", "string"]
        and all(
            not _combinators(branch)
            and branch.enum is None
            and _string_check(branch, branch.format, never) is None
            and _untyped(branch, branch.format, never, compile_fast_validate) is always
            for branch in schema.any_of
        )
    )
