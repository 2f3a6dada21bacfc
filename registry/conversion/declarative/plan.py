"""Paths between the versions of a definition, and the conversion of objects along them.

Rules link pairs of versions; a path may take several links. The links form a tree: there is exactly one path between
any two versions.

Objects of requests are converted decoded (`ConversionPlan.convert`); those of lists and watches as stored bodies
(`ConversionPlan.bodies`), where nearly all metadata is passed on as text, and one decoding serves both directions.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from registry.budget import Budget, BudgetExceeded
from registry.cel.common.values import EVALUATION_ELEMENTS, evaluation_budget
from registry.codec.json_encode import encode_canonical
from registry.codec.json_pieces import loads
from registry.codec.json_size import VALUE_UNITS, is_longer
from registry.conversion.declarative import complement
from registry.conversion.declarative.expression import (
    NOTHING,
    ConversionExpression,
    ExpressionError,
    compile_expression,
    element_at,
    reads_head_of,
)
from registry.conversion.declarative.lossless import LosslessPath, lossless_path
from registry.conversion.declarative.lossless_steps import each_within, without
from registry.conversion.declarative.model import DROP, ConversionPath, ConversionRule, Link, Set, read_rules
from registry.conversion.declarative.paths import STAR, format_path, split
from registry.conversion.declarative.pruned import pruned_fields
from registry.conversion.declarative.steps import Step, compile_rule, put, values_at
from registry.conversion.errors import ConversionError
from registry.schema.compiled import CompiledSchema
from registry.schema.values import deep_copy

Json = Any
Object = dict[str, Any]
Schemas = Mapping[str, Callable[[], CompiledSchema]]
# Takes an object's name, uid and stored body; returns the body at another version, or None.
ConvertBody = Callable[[str, str, str], str | None]

# As many as an object that is stored may have (registry/api/served.py).
_MOST_CHARACTERS: Final = 8 * 1024 * 1024
# The beginning of the body of an object that has annotations: they are the first key of the sorted metadata.
_ANNOTATED: Final = '"annotations":'


class ConversionPlan:
    """Converts the objects of one definition. Immutable but for its caches of compiled paths and expressions."""

    def __init__(self, group: str, text: str, schemas: Schemas) -> None:
        links, errors = read_rules(text)
        self._error = errors[0].message() if errors else ""
        self._links = links
        self._rules_characters = len(text)
        self._group = group
        self._schemas = schemas
        self._conversions: dict[tuple[str, str], _Conversion] = {}
        self._expressions: dict[tuple[Set, str], ConversionExpression] = {}

    def convert(self, obj: Object, api_version: str) -> Object:
        """Returns a new object. Raises ConversionError."""
        source, target = obj["apiVersion"].rpartition("/")[2], api_version.rpartition("/")[2]
        name = (obj.get("metadata") or {}).get("name") or ""
        try:
            conversion = self._conversion(source, target)
            with evaluation_budget():
                return conversion.run(obj)
        except (ExpressionError, ValueError, RecursionError, BudgetExceeded) as error:
            raise ConversionError(
                f"conversion of {obj.get('kind')} {name!r} from {source} to {target} failed: {error}"
            ) from error

    def bodies(self, kind: str, source: str, target: str) -> ConvertBody:
        """Returns a function that converts stored bodies (registry/api/served.py), given the object's name and uid.

        It returns None where the object must be converted decoded. The bodies must have been processed by the schema
        of `source`.
        """
        try:
            return self._conversion(source, target).bodies(kind)
        except (ExpressionError, ValueError, RecursionError):
            return lambda name, uid, body: None  # converting the decoded object raises the error

    def converts_back(self, source: str, target: str) -> bool:
        """Whether every object is converted back, not only exceptional ones (lossless.py)."""
        return self._conversion(source, target).converts_back

    def _conversion(self, source: str, target: str) -> _Conversion:
        compiled = self._conversions.get((source, target))
        if compiled is None:
            if self._error:
                raise ValueError(self._error)
            hops = shortest_path(self._links, source, target)
            if hops is None or not all(v in self._schemas for v in (source, target)):
                raise ValueError(f"the rules do not lead from {source} to {target}")
            back = shortest_path(self._links, target, source)
            assert back is not None
            keeps_losses = all(link.loss != DROP for link, _ in hops)
            reads_head = any(
                self._reads_head(rule, conversion) for _, conversion in (*hops, *back) for rule in conversion.rules
            )
            compiled = _Conversion(
                _Steps(source, target, [self._hop(w) for _, w in hops], [self._hop(w) for _, w in back]),
                lossless=self._lossless(hops, keeps_losses=keeps_losses),
                keeps_losses=keeps_losses,
                reads_head=reads_head,
                group=self._group,
                rules_characters=self._rules_characters,
            )
            self._conversions[source, target] = compiled
        return compiled

    def _reads_head(self, rule: ConversionRule, conversion: ConversionPath) -> bool:
        return (
            isinstance(rule, Set)
            and STAR not in rule.path
            and reads_head_of(rule.cel, self._schemas[conversion.source]().structural)
        )

    def _lossless(
        self, hops: Sequence[tuple[Link, ConversionPath]], *, keeps_losses: bool
    ) -> list[tuple[str, LosslessPath]] | None:
        """The functions of all hops with the apiVersion each leads to; None where one cannot be proven."""
        paths: list[tuple[str, LosslessPath]] = []
        for link, conversion in hops:
            back = link.back if conversion is link.forward else link.forward
            if not keeps_losses and any(isinstance(rule, Set) for rule in back.rules):
                return None  # losses are dropped, so the values of these expressions are not needed
            lossless = lossless_path(
                conversion, back, self._schemas[conversion.source](), self._schemas[conversion.target](), self._compile
            )
            if lossless is None:
                return None
            paths.append((f"{self._group}/{conversion.target}", lossless))
        return paths

    def _compile(self, rule: Set, version: str) -> ConversionExpression:
        """The expression of a rule, compiled for objects of a version; cached."""
        compiled = self._expressions.get((rule, version))
        if compiled is None:
            within, _ = split(rule.path)
            element = element_at(self._schemas[version]().structural, within)
            if element is None:
                raise ExpressionError(f"{format_path(rule.path)}: there is no {format_path(within)}")
            compiled = self._expressions[rule, version] = compile_expression(rule.cel, element, is_root=not within)
        return compiled

    def _hop(self, conversion: ConversionPath) -> Step:
        """A step along one link. Expressions read the object as it was before the step."""
        source, target = self._schemas[conversion.source](), self._schemas[conversion.target]()
        api_version = f"{self._group}/{conversion.target}"
        pruned = [each_within(path[:-1], without(path[-1])) for path in pruned_fields(conversion, source, target)]

        def finish(obj: Json) -> None:
            for take in pruned:
                take(obj)
            obj["apiVersion"] = api_version
            target.prune(obj)

        sets = {
            rule: _evaluator(rule, self._compile(rule, conversion.source))
            for rule in conversion.rules
            if isinstance(rule, Set)
        }
        steps: list[tuple[Set | None, Step]] = [
            (rule, _no_step) if isinstance(rule, Set) else (None, compile_rule(rule)) for rule in conversion.rules
        ]
        plain = [step for _, step in steps]

        def simple(obj: Json) -> None:
            for step in plain:
                step(obj)
            finish(obj)

        def hop(obj: Json) -> None:
            values: dict[Set, list[tuple[Json, Json]]] = {}
            for rule, values_of in sets.items():
                try:
                    values[rule] = values_of(obj)
                except ExpressionError as error:
                    raise ExpressionError(f"{format_path(rule.path)}: {error}") from error
            for rule_, step in steps:
                if rule_ is None:
                    step(obj)
                    continue
                inner = split(rule_.path)[1]
                for holder, value in values[rule_]:
                    put(holder, inner, copy.deepcopy(value))
            finish(obj)

        return hop if sets else simple


def _evaluator(rule: Set, expression: ConversionExpression) -> Callable[[Json], list[tuple[Json, Json]]]:
    """Returns a function that evaluates the expression on the object, or on each element that the path selects."""
    within, _ = split(rule.path)
    evaluate_charged = expression.evaluate_charged

    def values(obj: Json) -> list[tuple[Json, Json]]:
        results, spent = [], 0
        for holder in values_at(obj, within):
            if holder.__class__ is dict:
                value, spent = evaluate_charged(holder, spent)
                if value is not NOTHING:
                    results.append((holder, value))
        return results

    return values


def _no_step(obj: Json) -> None:
    pass


class _Steps(NamedTuple):
    """The way from one version to another, and the one back."""

    source: str
    target: str
    forward: Sequence[Step]
    back: Sequence[Step]


class _Conversion:
    """A conversion from one version to another, with the reverse conversion that checks it for losses.

    `reads_head`: whether expressions may read the object's apiVersion, kind or metadata. `rules_characters`: the length
    of all rules.
    """

    def __init__(
        self,
        steps: _Steps,
        *,
        lossless: Sequence[tuple[str, LosslessPath]] | None,
        keeps_losses: bool,
        reads_head: bool,
        group: str,
        rules_characters: int,
    ) -> None:
        self._rules_characters = rules_characters
        self._source, self._target, self._forward, self._back = steps
        self._lossless = lossless
        self._keeps_losses = keeps_losses
        self._reads_head = reads_head
        self._heads = f"{group}/{steps.source}", f"{group}/{steps.target}"

    @property
    def converts_back(self) -> bool:
        return self._keeps_losses and self._lossless is None

    def run(self, obj: Object) -> Object:
        metadata = dict(obj["metadata"])
        complements = complement.take_annotation(metadata)
        own = complements.pop(self._target, None)
        converted = _copy_with(obj, metadata)
        for step in self._forward:
            step(converted)
        _refuse_longer(converted)
        if own is not None:
            complement.restore(converted, own)
        if self._keeps_losses:
            again = _copy_with(converted, metadata)
            for step in self._back:
                step(again)
            _refuse_longer(again)
            losses = complement.differences(obj, again)
            if losses:
                complements[self._source] = losses
            else:
                complements.pop(self._source, None)
            complement.put_annotation(metadata, complements)
        return converted

    def bodies(self, kind: str) -> ConvertBody:
        lossless, reads_head, source = self._lossless, self._reads_head, self._source
        api_version = self._heads[0]
        notes_losses = self._keeps_losses and lossless is not None and len(lossless) == 1
        # Only expressions that read the head need the apiVersion.
        paths = [(conversion, to if reads_head else "") for to, conversion in lossless or ()]

        def convert_body(name: str, uid: str, body: str) -> str | None:
            """`"name":"a","uid":"u"},"spec":{"size":1}}` may become `"name":"a","uid":"u"},"spec":{"replicas":1}}`.

            The uid is the last key of the metadata. Where the same text occurs earlier, the rest is not valid JSON.
            """
            last = f'"uid":"{uid}"}},"'
            end = body.find(last) + len(last) - 3
            if end < len(last) - 3 or (body.startswith(_ANNOTATED) and body.find(complement.ANNOTATION, 0, end) >= 0):
                return None
            metadata, text = body[:end], "{" + body[end + 2 :]
            try:
                with evaluation_budget() as budget:
                    if lossless is None:
                        return convert_both_ways(name, metadata, text)
                    obj: Object = loads(text)
                    if reads_head:
                        obj["apiVersion"] = api_version
                        obj["kind"] = kind
                        obj["metadata"] = _names(name, metadata)
                    losses: list[dict[str, Json]] | None = [] if notes_losses else None
                    for conversion, to in paths:
                        if not conversion(obj, to, losses):
                            return convert_both_ways(name, metadata, text)
                    if reads_head:
                        del obj["apiVersion"], obj["kind"], obj["metadata"]
                    if may_be_longer(text, budget):
                        _refuse_longer(obj)
                    return _join_body(
                        metadata, encode_canonical(obj), source, sorted(losses, key=_path) if losses else None
                    )
            except (ExpressionError, ValueError, RecursionError, BudgetExceeded):
                return None  # converting the decoded object raises the error

        def may_be_longer(text: str, budget: Budget) -> bool:
            """A rule makes a value or a name at most as long as all rules. Values that are new were charged."""
            values = len(text) // 2 + (EVALUATION_ELEMENTS - budget.left) // VALUE_UNITS
            return values * self._rules_characters > _MOST_CHARACTERS

        def convert_both_ways(name: str, metadata: str, text: str) -> str:
            return self._round_trip(
                {"kind": kind, "metadata": _names(name, metadata)} if reads_head else None, metadata, text
            )

        return convert_body

    def _round_trip(self, head: Object | None, metadata: str, text: str) -> str:
        """Converts and converts back."""
        obj: Object = loads(text)
        body = _through(self._forward, obj, head, self._heads[0])
        losses = None
        if self._keeps_losses:
            # The text has been encoded already, so the object may be changed in place.
            again = _through(self._back, obj, head, self._heads[1])
            if again != text:
                losses = complement.compare_values(loads(text), obj)
        return _join_body(metadata, body, self._source, losses)


def _names(name: str, metadata: str) -> Object:
    """The metadata that expressions can read; the rest of its text, mostly managedFields, is not decoded."""
    if '"generateName":' in metadata:
        generated = loads(f"{{{metadata}}}").get("generateName")
        if generated is not None:
            return {"name": name, "generateName": generated}
    return {"name": name}


def _path(entry: dict[str, Json]) -> list[str]:
    path: list[str] = entry["path"]
    return path


def _join_body(metadata: str, rest: str, source: str, losses: list[dict[str, Json]] | None) -> str:
    """Joins the unterminated text of the metadata and the text of the rest, and notes the losses in an annotation."""
    if losses:
        document = loads(f"{{{metadata}}}")
        complement.put_annotation(document, {source: losses})
        metadata = encode_canonical(document)[1:-1]
    return f"{metadata}}},{rest[1:]}" if rest != "{}" else f"{metadata}}}}}"


def _through(steps: Sequence[Step], obj: Object, head: Object | None, api_version: str) -> str:
    """Changes `obj`, which has a head for expressions only, and returns its text."""
    if head is not None:
        obj.update(head, apiVersion=api_version)
    for step in steps:
        step(obj)
    _refuse_longer(obj)
    if head is not None:
        del obj["kind"], obj["metadata"]
    del obj["apiVersion"]
    return encode_canonical(obj)


def _refuse_longer(obj: Object) -> None:
    """Raises ValueError for an object that cannot be stored: a few letters may be renamed or mapped to many."""
    if is_longer(obj, _MOST_CHARACTERS):
        raise ValueError(f"the object would have more than {_MOST_CHARACTERS} characters")


def _copy_with(obj: Object, metadata: Object) -> Object:
    """A copy of `obj` with `metadata` itself, which rules do not change."""
    return {k: metadata if k == "metadata" else deep_copy(v) for k, v in obj.items()}


def shortest_path(links: Sequence[Link], source: str, target: str) -> list[tuple[Link, ConversionPath]] | None:
    """The shortest path between two versions, None where there is none."""
    paths: dict[str, list[tuple[Link, ConversionPath]]] = {source: []}
    pending = [source]
    for version in pending:
        if version == target:
            return paths[version]
        for link in links:
            for conversion in (link.forward, link.back):
                if conversion.source == version and conversion.target not in paths:
                    paths[conversion.target] = [*paths[version], (link, conversion)]
                    pending.append(conversion.target)
    return None
