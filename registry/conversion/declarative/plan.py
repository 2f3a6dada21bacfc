"""The ways between the versions of a definition, and objects on them.

Rules join versions in pairs; a way may lead over several. The pairs are a tree: every version is reached, by one way.

Objects of requests are converted decoded (`Plan.convert`); those of lists and watches as they are stored
(`Plan.bodies`), where nearly all metadata is passed on as text, and one decoding serves the way there and back.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson

from registry.codec.json_encode import encode_canonical
from registry.conversion.declarative import remainder
from registry.conversion.declarative.expression import (
    NOTHING,
    ConversionExpression,
    ExpressionError,
    compile_expression,
    element_at,
    looks_at_head,
)
from registry.conversion.declarative.lossless import LosslessPath, lossless_path
from registry.conversion.declarative.lossless_steps import each_within, without
from registry.conversion.declarative.model import DROP, ConversionPath, ConversionRule, Link, Set, read_rules
from registry.conversion.declarative.paths import STAR, format_path, split
from registry.conversion.declarative.pruned import pruned_fields
from registry.conversion.declarative.steps import Step, compile_rule, found_at, put
from registry.conversion.errors import ConversionError
from registry.schema.compiled import CompiledSchema

Json = Any
Object = dict[str, Any]
Schemas = Mapping[str, Callable[[], CompiledSchema]]
# Of an object's name, uid and stored body: the body at another version, or None.
ConvertBody = Callable[[str, str, str], str | None]

# How a body begins whose object has annotations: they are the first of the metadata, which are in order.
_ANNOTATED: Final = '"annotations":'


class Plan:
    """Converts the objects of one definition. Never changed but for what it has compiled."""

    def __init__(self, group: str, text: str, schemas: Schemas) -> None:
        links, errors = read_rules(text)
        self._fault = errors[0].message() if errors else ""
        self._links = links
        self._group = group
        self._schemas = schemas
        self._ways: dict[tuple[str, str], _Conversion] = {}
        self._expressions: dict[tuple[Set, str], ConversionExpression] = {}

    def convert(self, obj: Object, api_version: str) -> Object:
        """A new object. Raises ConversionError."""
        source, target = obj["apiVersion"].rpartition("/")[2], api_version.rpartition("/")[2]
        name = (obj.get("metadata") or {}).get("name") or ""
        try:
            return self._way(source, target).run(obj)
        except (ExpressionError, ValueError, RecursionError) as error:
            raise ConversionError(
                f"conversion of {obj.get('kind')} {name!r} from {source} to {target} failed: {error}"
            ) from error

    def bodies(self, kind: str, source: str, target: str) -> ConvertBody:
        """Converts stored bodies (registry/api/served.py), given with the name and the uid of the object.

        It gives None where the object must be converted decoded. The bodies must be what the schema of `source` has
        processed.
        """
        try:
            return self._way(source, target).bodies(kind)
        except (ExpressionError, ValueError, RecursionError):
            return lambda name, uid, body: None  # the other way tells what is wrong

    def walks_back(self, source: str, target: str) -> bool:
        """Whether each object goes the way back too, not only exceptional ones (lossless.py)."""
        return self._way(source, target).walks_back

    def _way(self, source: str, target: str) -> _Conversion:
        found = self._ways.get((source, target))
        if found is None:
            if self._fault:
                raise ValueError(self._fault)
            hops = way_between(self._links, source, target)
            if hops is None or not all(v in self._schemas for v in (source, target)):
                raise ValueError(f"the rules do not lead from {source} to {target}")
            back = way_between(self._links, target, source)
            assert back is not None
            keeps = all(link.loss != DROP for link, _ in hops)
            looks = any(self._looks(rule, way) for _, way in (*hops, *back) for rule in way.rules)
            found = _Conversion(
                source,
                target,
                [self._hop(w) for _, w in hops],
                [self._hop(w) for _, w in back],
                exact=self._exact(hops, keeps=keeps),
                keeps=keeps,
                looks=looks,
                group=self._group,
            )
            self._ways[source, target] = found
        return found

    def _looks(self, rule: ConversionRule, way: ConversionPath) -> bool:
        return (
            isinstance(rule, Set)
            and STAR not in rule.path
            and looks_at_head(rule.cel, self._schemas[way.source]().structural)
        )

    def _exact(
        self, hops: Sequence[tuple[Link, ConversionPath]], *, keeps: bool
    ) -> list[tuple[str, LosslessPath]] | None:
        """The ways of all hops, with the apiVersion that they lead to; None where one of them cannot be proven."""
        found: list[tuple[str, LosslessPath]] = []
        for link, way in hops:
            back = link.back if way is link.there else link.there
            if not keeps and any(isinstance(rule, Set) for rule in back.rules):
                return None  # nobody wants to know what its expressions give
            exact = lossless_path(way, back, self._schemas[way.source](), self._schemas[way.target](), self._compile)
            if exact is None:
                return None
            found.append((f"{self._group}/{way.target}", exact))
        return found

    def _compile(self, rule: Set, version: str) -> ConversionExpression:
        """The expression of a rule for objects of a version."""
        found = self._expressions.get((rule, version))
        if found is None:
            within, _ = split(rule.path)
            element = element_at(self._schemas[version]().structural, within)
            if element is None:
                raise ExpressionError(f"{format_path(rule.path)}: there is no {format_path(within)}")
            found = self._expressions[rule, version] = compile_expression(rule.cel, element, is_root=not within)
        return found

    def _hop(self, way: ConversionPath) -> Step:
        """One way between neighbours. Expressions see the object as it was."""
        source, target = self._schemas[way.source](), self._schemas[way.target]()
        api_version = f"{self._group}/{way.target}"
        pruned = [each_within(path[:-1], without(path[-1])) for path in pruned_fields(way, source, target)]

        def finish(obj: Json) -> None:
            for take in pruned:
                take(obj)
            obj["apiVersion"] = api_version
            target.prune(obj)

        sets = {rule: _evaluator(rule, self._compile(rule, way.source)) for rule in way.rules if isinstance(rule, Set)}
        steps: list[tuple[Set | None, Step]] = [
            (rule, _no_step) if isinstance(rule, Set) else (None, compile_rule(rule)) for rule in way.rules
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
    """What the expression gives: the object, or each element that the path leads to, with its value."""
    within, _ = split(rule.path)
    charged = expression.charged

    def values(obj: Json) -> list[tuple[Json, Json]]:
        found, spent = [], 0
        for holder in found_at(obj, within):
            if holder.__class__ is dict:
                value, spent = charged(holder, spent)
                if value is not NOTHING:
                    found.append((holder, value))
        return found

    return values


def _no_step(obj: Json) -> None:
    pass


class _Conversion:
    """From one version to another, with the way back by which it is judged.

    `looks` says that expressions may look at the object's metadata, or at what version it has.
    """

    def __init__(
        self,
        source: str,
        target: str,
        there: Sequence[Step],
        back: Sequence[Step],
        *,
        exact: Sequence[tuple[str, LosslessPath]] | None,
        keeps: bool,
        looks: bool,
        group: str,
    ) -> None:
        self._source = source
        self._target = target
        self._there = there
        self._back = back
        self._exact = exact
        self._keeps = keeps
        self._looks = looks
        self._heads = f"{group}/{source}", f"{group}/{target}"

    @property
    def walks_back(self) -> bool:
        return self._keeps and self._exact is None

    def run(self, obj: Object) -> Object:
        metadata = dict(obj["metadata"])
        remainders = remainder.take_annotation(metadata)
        own = remainders.pop(self._target, None)
        found = _copy_with(obj, metadata)
        for step in self._there:
            step(found)
        if own is not None:
            remainder.restore(found, own)
        if self._keeps:
            again = _copy_with(found, metadata)
            for step in self._back:
                step(again)
            lost = remainder.differences(obj, again)
            if lost:
                remainders[self._source] = lost
            else:
                remainders.pop(self._source, None)
            remainder.put_annotation(metadata, remainders)
        return found

    def bodies(self, kind: str) -> ConvertBody:
        exact, looks, source = self._exact, self._looks, self._source
        api_version = self._heads[0]
        keeps_lost = self._keeps and exact is not None and len(exact) == 1
        # The apiVersion is for expressions that look at it.
        ways = [(way, to if looks else "") for to, way in exact or ()]

        def converted(name: str, uid: str, body: str) -> str | None:
            """`"name":"a","uid":"u"},"spec":{"size":1}}` may become `"name":"a","uid":"u"},"spec":{"replicas":1}}`.

            The uid is the last of the metadata. Where that text stands elsewhere before, what follows is no JSON.
            """
            last = f'"uid":"{uid}"}},"'
            end = body.find(last) + len(last) - 3
            if end < len(last) - 3 or (body.startswith(_ANNOTATED) and body.find(remainder.ANNOTATION, 0, end) >= 0):
                return None
            metadata, text = body[:end], "{" + body[end + 2 :]
            try:
                if exact is None:
                    return walked(name, metadata, text)
                obj: Object = orjson.loads(text)
                if looks:
                    obj["apiVersion"] = api_version
                    obj["kind"] = kind
                    obj["metadata"] = _names(name, metadata)
                lost: list[dict[str, Json]] | None = [] if keeps_lost else None
                for way, to in ways:
                    if not way(obj, to, lost):
                        return walked(name, metadata, text)
                if looks:
                    del obj["apiVersion"], obj["kind"], obj["metadata"]
                return _join_body(metadata, encode_canonical(obj), source, sorted(lost, key=_path) if lost else None)
            except (ExpressionError, ValueError, RecursionError):
                return None  # the other way tells what is wrong

        def walked(name: str, metadata: str, text: str) -> str:
            return self._round_trip(
                {"kind": kind, "metadata": _names(name, metadata)} if looks else None, metadata, text
            )

        return converted

    def _round_trip(self, head: Object | None, metadata: str, text: str) -> str:
        """There and back."""
        obj: Object = orjson.loads(text)
        found = _through(self._there, obj, head, self._heads[0])
        lost = None
        if self._keeps:
            # What has been written may be changed: it goes back in place.
            again = _through(self._back, obj, head, self._heads[1])
            if again != text:
                lost = remainder.compare_values(orjson.loads(text), obj)
        return _join_body(metadata, found, self._source, lost)


def _names(name: str, metadata: str) -> Object:
    """All of the metadata that expressions can see: the rest of its text, mostly managedFields, is not decoded."""
    if '"generateName":' in metadata:
        generated = orjson.loads(f"{{{metadata}}}").get("generateName")
        if generated is not None:
            return {"name": name, "generateName": generated}
    return {"name": name}


def _path(entry: dict[str, Json]) -> list[str]:
    found: list[str] = entry["path"]
    return found


def _join_body(metadata: str, rest: str, source: str, lost: list[dict[str, Json]] | None) -> str:
    """A body of the text of the metadata, without its end, and the text of the rest, with what is lost noted."""
    if lost:
        kept = orjson.loads(f"{{{metadata}}}")
        remainder.put_annotation(kept, {source: lost})
        metadata = encode_canonical(kept)[1:-1]
    return f"{metadata}}},{rest[1:]}" if rest != "{}" else f"{metadata}}}}}"


def _through(steps: Sequence[Step], obj: Object, head: Object | None, api_version: str) -> str:
    """Changes `obj`, which has a head for expressions only, and gives its text."""
    if head is not None:
        obj.update(head, apiVersion=api_version)
    for step in steps:
        step(obj)
    if head is not None:
        del obj["kind"], obj["metadata"]
    del obj["apiVersion"]
    return encode_canonical(obj)


def _copy_with(obj: Object, metadata: Object) -> Object:
    """A copy that has `metadata` itself: rules do not touch it."""
    return {k: metadata if k == "metadata" else _copy(v) for k, v in obj.items()}


def _copy(value: Json) -> Json:
    kind = value.__class__
    if kind is dict:
        return {k: _copy(v) for k, v in value.items()}
    if kind is list:
        return [_copy(v) for v in value]
    return value


def way_between(links: Sequence[Link], source: str, target: str) -> list[tuple[Link, ConversionPath]] | None:
    """The shortest way, None where there is none."""
    ways: dict[str, list[tuple[Link, ConversionPath]]] = {source: []}
    pending = [source]
    for version in pending:
        if version == target:
            return ways[version]
        for link in links:
            for way in (link.there, link.back):
                if way.source == version and way.target not in ways:
                    ways[way.target] = [*ways[version], (link, way)]
                    pending.append(way.target)
    return None
