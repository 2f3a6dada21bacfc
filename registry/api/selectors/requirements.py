"""Requirements of selectors: limits, and whether they hold for an object, a row or a change."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Final

from registry.api.errors import StatusError
from registry.flowcontrol.evaluation import evaluate
from registry.store.encoding import stored_value
from registry.store.labels import StoredLabels
from registry.store.types import Requirement, SelectorOperator

FIELD_PREFIX: Final = "f:"  # of a field among the labels of a row

# Limits on the requirements of one selector, the values of one requirement, and characters. Each requirement is a
# condition of the query and a test of each event; the reference is limited only by the length of a request.
MAX_REQUIREMENTS: Final = 500
MAX_VALUES: Final = 20_000
_MAX_LENGTH: Final = 256 * 1024
# Labels that are decoded on the event loop: some hundred.
_FEW_BYTES: Final = 8 * 1024


class SelectorError(StatusError):
    """400: a selector that cannot be parsed, or that names a field that cannot be selected by."""

    def __init__(self, message: str) -> None:
        super().__init__(400, "BadRequest", message)


def too_many() -> SelectorError:
    return SelectorError(f"the selector has more than {MAX_REQUIREMENTS} requirements")


def check_length(text: str) -> None:
    if len(text) > _MAX_LENGTH:
        raise SelectorError(f"the selector is longer than {_MAX_LENGTH} characters")


def row_test(requirements: Sequence[Requirement]) -> Callable[[StoredLabels], bool]:
    """Returns a test whether all hold for the labels of a row or change."""
    tests = [(one.key, _absent(one.key), value_test(one, _stored_values(one))) for one in requirements]

    def test(labels: StoredLabels) -> bool:
        values = labels.by_key
        return all(holds(values.get(key, absent)) for key, absent, holds in tests)

    return test


async def holds(test: Callable[[StoredLabels], bool], labels: StoredLabels) -> bool:
    """Returns what a row_test returns, beside the event loop if there are many labels."""
    size = labels.undecoded_bytes
    if size <= _FEW_BYTES:
        return test(labels)
    return await evaluate(lambda: test(labels), size, repeatable=True)


def _absent(key: str) -> str | None:
    return "" if key.startswith(FIELD_PREFIX) else None


def _stored_values(requirement: Requirement) -> Sequence[str]:
    return [stored_value(requirement.key, value) for value in requirement.values]


def value_test(requirement: Requirement, values: Collection[str]) -> Callable[[str | None], bool]:
    """Returns a test of a value, which is None if the key is absent. `values` are those of the requirement, perhaps as
    they are stored."""
    values = frozenset(values)
    match requirement.match:
        case SelectorOperator.IN:
            return lambda value: value in values
        case SelectorOperator.NOT_IN:
            return lambda value: value not in values
        case SelectorOperator.EXISTS:
            return lambda value: value is not None
        case SelectorOperator.DOES_NOT_EXIST:
            return lambda value: value is None
    bound = integer(requirement.values[0]) if requirement.values else None
    if bound is None:
        return lambda value: False
    wanted = 1 if requirement.match is SelectorOperator.GREATER_THAN else -1

    def compare(value: str | None) -> bool:
        number = integer(value) if value is not None else None
        return number is not None and (number - bound) * wanted > 0

    return compare


_INTEGER = re.compile(r"[-+]?[0-9]{1,40}\Z")


def integer(text: str) -> int | None:
    """strconv.ParseInt(text, 10, 64)."""
    if not _INTEGER.match(text):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None
