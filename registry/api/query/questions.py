"""Parses the question of a Query by the schemas of the resources that it reads. Raises 422 with the invalid fields."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from registry.api.errors import StatusError
from registry.api.list_options import ListOptions
from registry.api.query.parsing import parse_query
from registry.api.query.targets import Target, find_target, query_error
from registry.api.request import ResourceRequest
from registry.flowcontrol.evaluation import evaluate
from registry.query.aggregation import SUMMABLE, Aggregate, AggregateFunction
from registry.query.fields import FieldPathError, Path, QueryField, nodes_along, parse_path, path_text, resolve
from registry.query.indexes import is_hidden
from registry.query.language import JOINED, OBJECT, ROW, Condition, FilterError
from registry.query.references import Reference, ReferenceFault, check_reference, references_of
from registry.query.rows import ColumnTerm, RowColumn, RowsError, parse_row_order
from registry.query.values import Reading, ReadingError, Value, reading, schema_of
from registry.schema.field import FieldError, duplicate, required
from registry.schema.field import invalid as invalid_field
from registry.schema.model import Structural

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}", re.ASCII)
DEFAULT_LIMIT: Final = 500


@dataclass(frozen=True, slots=True)
class Join:
    """`reference` None: by owner references. `keeps_unmatched`: as a left join, keeps objects without another one."""

    target: Target
    reference: Reference | None
    keeps_unmatched: bool
    filter: Condition | None


@dataclass(frozen=True, slots=True)
class Input:
    """Where a value is read; `joined`: from the other object."""

    reading: Reading
    joined: bool

    def of(self, obj: Mapping[str, Any], other: Mapping[str, Any]) -> Value | None:
        return self.reading.of_object(other if self.joined else obj)


@dataclass(frozen=True, slots=True)
class Question:
    """`inputs` has an entry for each aggregate; None if it reads no field."""

    target: Target
    label_selector: str
    filter: str
    join: Join | None
    keys: tuple[Input, ...]
    aggregates: tuple[Aggregate, ...]
    inputs: tuple[Input | None, ...]
    columns: tuple[RowColumn, ...]
    having: Condition | None
    order: tuple[ColumnTerm, ...]
    limit: int
    offset: int

    @property
    def paths(self) -> tuple[Path, ...]:
        """The fields of the object that keys and aggregates read."""
        read = [one.reading.field.path for one in (*self.keys, *self.inputs) if one is not None and not one.joined]
        return tuple(dict.fromkeys(read))


async def parse_question(query: ResourceRequest, spec: dict[str, Any]) -> Question:
    """Parses a question. Raises 403 and 422."""
    namespaces = spec.get("namespaces") or ()
    target = await find_target(query, spec, "spec", namespaces)
    joined = spec.get("join")
    other = await find_target(query, joined, "spec.join", namespaces) if joined is not None else None
    return await evaluate(lambda: _QuestionParser(query, target, other).question(spec), repeatable=True)


class _QuestionParser:
    def __init__(self, query: ResourceRequest, target: Target, other: Target | None) -> None:
        self._query = query
        self._target = target
        self._other = other
        self._errors: list[FieldError] = []

    def question(self, spec: dict[str, Any]) -> Question:
        target = self._target
        if spec.get("namespaces") and not target.served.namespaced:
            self._errors.append(
                invalid_field("spec.namespaces", spec["namespaces"], f"{target.served.resource} has no namespaces")
            )
        keys = [self._key(one, f"spec.groupBy[{i}]") for i, one in enumerate(spec.get("groupBy") or ())]
        aggregates = [
            self._aggregate(one, f"spec.aggregates[{i}]") for i, one in enumerate(spec.get("aggregates") or ())
        ]
        join = self._join(spec["join"]) if "join" in spec else None
        self._check_selection(spec)
        self._raise()
        columns = [RowColumn(name, one.reading.type) for name, one in keys if one is not None]
        columns += [RowColumn(one.name, one.type) for one, _ in aggregates if one is not None]
        having, order = self._having(spec, columns), self._order(spec, columns)
        self._raise()
        return Question(
            target,
            spec.get("labelSelector") or "",
            spec.get("filter") or "",
            join,
            tuple(one for _, one in keys if one is not None),
            tuple(one for one, _ in aggregates if one is not None),
            tuple(one for _, one in aggregates),
            tuple(columns),
            having,
            order,
            spec.get("limit") or DEFAULT_LIMIT,
            spec.get("offset") or 0,
        )

    def _raise(self) -> None:
        if self._errors:
            raise query_error(self._query, *self._errors)

    def _check_selection(self, spec: dict[str, Any]) -> None:
        """Validates the labels, then the filter, as the list that reads the objects does."""
        selected = {
            "labelSelector": ListOptions(label_selector=spec.get("labelSelector") or ""),
            "filter": ListOptions(filter=spec.get("filter") or ""),
        }
        for at, options in selected.items():
            try:
                parse_query(self._target.request, options)
            except StatusError as error:
                self._errors.append(invalid_field(f"spec.{at}", spec[at], error.message.removeprefix(f"{at}: ")))

    # --- fields

    def _key(self, spec: dict[str, Any], at: str) -> tuple[str, Input | None]:
        source = self._input(spec, at)
        name = spec.get("name") or ""
        if source is not None and not name:
            name = source.reading.field.path[-1]
            if not _NAME.fullmatch(name):
                self._errors.append(required(f"{at}.name", f'"{name[:100]}" cannot be the name of a column'))
        return name, source

    def _aggregate(self, spec: dict[str, Any], at: str) -> tuple[Aggregate | None, Input | None]:
        function = AggregateFunction(spec["function"])
        source = self._input(spec, at) if spec.get("field") else None
        if spec.get("field") and source is None:
            return None, None
        if (
            source is not None
            and function in (AggregateFunction.SUM, AggregateFunction.AVG)
            and source.reading.type not in SUMMABLE
        ):
            why = f'"{spec["field"]}" is of type {source.reading.type.value}, of which there is no {function.value}'
            self._errors.append(invalid_field(f"{at}.function", function.value, why))
        fraction = Fraction(str(spec.get("percentile") or 0)) / 100
        return Aggregate(spec["name"], function, source.reading if source is not None else None, fraction), source

    def _input(self, spec: dict[str, Any], at: str) -> Input | None:
        joined = spec.get("from") == "Joined"
        target = self._other if joined else self._target
        if target is None:
            self._errors.append(invalid_field(f"{at}.from", "Joined", "the query has no join"))
            return None
        try:
            field = self._field(target, spec["field"])
            *_, node = nodes_along(target.root, field.path)
            return Input(reading(field, node, spec.get("type") or ""), joined)
        except (FieldPathError, ReadingError) as error:
            self._errors.append(invalid_field(f"{at}.field", spec["field"], str(error)))
            return None

    def _field(self, target: Target, text: str) -> QueryField:
        """Resolves a field. Raises FieldPathError, also if it is hidden."""
        path = parse_path(text)
        if is_hidden(path, target.hidden):
            raise FieldPathError(f'"{path_text(path)}" is sensitive and cannot be queried')
        field = resolve(target.root, path)
        if field.is_array:
            raise FieldPathError(f'"{field.text}" has many values')
        return field

    # --- the join

    def _join(self, spec: dict[str, Any]) -> Join:
        assert self._other is not None
        reference = self._reference(spec) if spec["by"] == "Reference" else None
        roots = {OBJECT: self._target.root, JOINED: self._other.root}
        condition = self._condition(spec.get("filter") or "", roots, "spec.join.filter")
        if condition is not None:
            for variable, target in ((OBJECT, self._target), (JOINED, self._other)):
                for path in condition.paths(variable):
                    if is_hidden(path, target.hidden):
                        why = f'"{path_text(path)}" is sensitive and cannot be queried'
                        self._errors.append(invalid_field("spec.join.filter", spec["filter"], why))
        return Join(self._other, reference, spec.get("type") == "Left", condition)

    def _reference(self, spec: dict[str, Any]) -> Reference | None:
        assert self._other is not None
        definition, wanted = self._target.served.definition, spec.get("reference") or ""
        declared, errors = references_of(definition)
        other = self._other.served.definition.name
        candidates = [one for one in declared if one.target == other and wanted in ("", one.text)]
        at = "spec.join.reference"
        if len(candidates) != 1:
            known = "; ".join(f"{one.text} -> {one.target}" for one in declared) or "none"
            why = f"the definition must declare one such reference to {other}, by the annotation "
            why += f"query.registry/references; it declares {known}"
            self._errors.append(invalid_field(at, wanted, "; ".join([why, *errors])))
            return None
        try:
            check_reference(candidates[0], self._target.root)
        except ReferenceFault as error:
            self._errors.append(invalid_field(at, wanted, str(error)))
        if any(is_hidden(path, self._target.hidden) for path in candidates[0].paths):
            self._errors.append(invalid_field(at, wanted, "it is sensitive and cannot be queried"))
        return candidates[0]

    # --- rows

    def _condition(self, text: str, roots: Mapping[str, Structural], at: str) -> Condition | None:
        try:
            return Condition(text, roots) if text else None
        except FilterError as error:
            self._errors.append(invalid_field(at, text, str(error)))
            return None

    def _having(self, spec: dict[str, Any], columns: list[RowColumn]) -> Condition | None:
        seen: set[str] = set()
        for i, column in enumerate(columns):
            keys = len(spec.get("groupBy") or ())
            at = f"spec.groupBy[{i}].name" if i < keys else f"spec.aggregates[{i - keys}].name"
            if column.name in seen:
                self._errors.append(duplicate(at, column.name))
            seen.add(column.name)
        properties = {column.name: schema_of(column.type) for column in columns}
        root = Structural(type="object", properties=properties)
        return self._condition(spec.get("having") or "", {ROW: root}, "spec.having")

    def _order(self, spec: dict[str, Any], columns: list[RowColumn]) -> tuple[ColumnTerm, ...]:
        try:
            return parse_row_order(spec.get("orderBy") or "", columns)
        except RowsError as error:
            self._errors.append(invalid_field("spec.orderBy", spec["orderBy"], str(error)))
            return ()
