"""The conversion rules of a definition, parsed from its annotation.

    conversion.registry/rules: |
      conversions:
      - from: v1beta1
        to: v1
        rules:
        - move: {from: spec.size, to: spec.scaling.replicas}
        - rename: {path: spec.ports[*].num, to: number}
        - map: {path: spec.mode, values: {fast: Fast, slow: Slow}}
        - default: {path: spec.tier, value: basic}
        - set: {path: spec.host, cel: "self.spec.address.split(':')[0]"}
        - drop: spec.legacy
        back: [...]       # the rules from `to` to `from`; by default the reverse of `rules`
        loss: Keep        # Refuse (the default), Keep what is lost in an annotation, or Drop it

`read_rules(text)` returns the links and the errors of the text. check.py validates them against the schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from registry.codec.model import DecodeError
from registry.codec.yaml_decode import decode_yaml
from registry.conversion.declarative.paths import STAR, Path, PathError, parse_path, split
from registry.definitions.conversion import RULES
from registry.schema.field import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
    type_invalid,
)

Json = Any

PLACE: Final = f"metadata.annotations[{RULES}]"
REFUSE, KEEP, DROP = "Refuse", "Keep", "Drop"

MAX_TEXT: Final = 128 * 1024
MAX_LINKS: Final = 200
MAX_RULES: Final = 200
MAX_VALUES: Final = 500
MAX_EXPRESSION: Final = 4000


@dataclass(frozen=True, slots=True)
class Move:
    """Moves a field with all its content. `within` is the common prefix of both paths, up to elements of a list."""

    where: str
    source: Path
    target: Path


@dataclass(frozen=True, slots=True)
class MapValues:
    """Replaces a scalar by its counterpart; a value that is not among the pairs is unchanged."""

    where: str
    path: Path
    pairs: tuple[tuple[Json, Json], ...]


@dataclass(frozen=True, slots=True)
class Default:
    """Sets a missing field where its parent at `within` exists; missing objects in between are created."""

    where: str
    path: Path
    value: Json


@dataclass(frozen=True, slots=True)
class Set:
    """Sets a field to the value of an expression on the original object; optional.none() sets nothing.

    Within `[*]` the expression reads the original element that contains the field.
    """

    where: str
    path: Path
    cel: str


@dataclass(frozen=True, slots=True)
class Drop:
    where: str
    path: Path


ConversionRule = Move | MapValues | Default | Set | Drop


@dataclass(frozen=True, slots=True)
class ConversionPath:
    """The rules from one version to a linked one. `where` is the path of the rules in the definition."""

    source: str
    target: str
    where: str
    rules: tuple[ConversionRule, ...]


@dataclass(frozen=True, slots=True)
class Link:
    where: str
    forward: ConversionPath
    back: ConversionPath
    loss: str = REFUSE


@dataclass(slots=True)
class _RuleReader:
    errors: list[FieldError] = field(default_factory=list)

    def mapping(self, value: Json, where: str, known: tuple[str, ...]) -> Mapping[str, Json] | None:
        if not isinstance(value, dict):
            self.errors.append(type_invalid(where, value, "must be an object"))
            return None
        unknown = sorted(set(value) - set(known))
        self.errors += [not_supported(f"{where}.{name}", name, list(known)) for name in unknown]
        return None if unknown else value

    def text(self, value: Json, where: str) -> str:
        if value is None or value == "":
            self.errors.append(required(where))
        elif not isinstance(value, str):
            self.errors.append(type_invalid(where, value, "must be a string"))
        else:
            return value
        return ""

    def path(self, value: Json, where: str) -> Path | None:
        text = self.text(value, where)
        if not text:
            return None
        try:
            return parse_path(text)
        except PathError as error:
            self.errors.append(invalid(where, text, str(error)))
            return None

    def list_of(self, value: Json, where: str, most: int) -> list[Json]:
        if value is None:
            return []
        if not isinstance(value, list):
            self.errors.append(type_invalid(where, value, "must be a list"))
            return []
        if len(value) > most:
            self.errors.append(too_many(where, len(value), most))
            return []
        return value

    # -- links
    def link(self, value: Json, where: str) -> Link | None:
        entry = self.mapping(value, where, ("from", "to", "rules", "back", "loss"))
        if entry is None:
            return None
        before = len(self.errors)
        source, target = self.text(entry.get("from"), f"{where}.from"), self.text(entry.get("to"), f"{where}.to")
        if source and source == target:
            self.errors.append(invalid(f"{where}.to", target, "must be another version than `from`"))
        loss = entry.get("loss", REFUSE)
        if loss not in (REFUSE, KEEP, DROP):
            self.errors.append(not_supported(f"{where}.loss", loss, [REFUSE, KEEP, DROP]))
        rules = self.rules(entry.get("rules"), f"{where}.rules")
        back = self.rules(entry["back"], f"{where}.back") if "back" in entry else reverse_rules(rules)
        if len(self.errors) > before:
            return None
        return Link(
            where,
            ConversionPath(source, target, f"{where}.rules", rules),
            ConversionPath(target, source, f"{where}.back" if "back" in entry else f"{where}.rules", back),
            loss,
        )

    def rules(self, value: Json, where: str) -> tuple[ConversionRule, ...]:
        rules = [self.rule(v, f"{where}[{i}]") for i, v in enumerate(self.list_of(value, where, MAX_RULES))]
        return tuple(rule for rule in rules if rule is not None)

    def rule(self, value: Json, where: str) -> ConversionRule | None:
        entry = self.mapping(value, where, tuple(_RULES))
        if entry is None:
            return None
        if len(entry) != 1:
            self.errors.append(invalid(where, value, f"must have exactly one of {', '.join(_RULES)}"))
            return None
        [(name, body)] = entry.items()
        return _RULES[name](self, body, f"{where}.{name}")

    def move(self, value: Json, where: str) -> ConversionRule | None:
        entry = self.mapping(value, where, ("from", "to"))
        if entry is None:
            return None
        source, target = self.path(entry.get("from"), f"{where}.from"), self.path(entry.get("to"), f"{where}.to")
        if source is None or target is None:
            return None
        return self._read_move(source, target, where, entry["to"], f"{where}.to")

    def rename(self, value: Json, where: str) -> ConversionRule | None:
        entry = self.mapping(value, where, ("path", "to"))
        if entry is None:
            return None
        source, name = self.path(entry.get("path"), f"{where}.path"), self.path(entry.get("to"), f"{where}.to")
        if source is None or name is None:
            return None
        if len(name) != 1:
            self.errors.append(invalid(f"{where}.to", entry["to"], "must be a name; `move` takes a path"))
            return None
        return self._read_move(source, (*source[:-1], *name), where, entry["to"], f"{where}.to")

    def _read_move(self, source: Path, target: Path, where: str, text: Json, at: str) -> ConversionRule | None:
        if source[-1] == STAR or target[-1] == STAR:
            self.errors.append(invalid(at, text, "elements of a list have no names to move from or to"))
        elif split(source)[0] != split(target)[0]:
            self.errors.append(invalid(at, text, "a field may not leave the element of a list that it is in"))
        elif source[: len(target)] == target or target[: len(source)] == source:
            self.errors.append(invalid(at, text, "a field cannot move to itself, into itself, or over what it is in"))
        else:
            return Move(where, source, target)
        return None

    def map(self, value: Json, where: str) -> ConversionRule | None:
        rule = self.mapping(value, where, ("path", "values"))
        if rule is None:
            return None
        path, values, at = self.path(rule.get("path"), f"{where}.path"), rule.get("values"), f"{where}.values"
        pairs: list[tuple[Json, Json]] = []
        if isinstance(values, dict) and len(values) <= MAX_VALUES:
            pairs = list(values.items())
        else:
            for i, pair in enumerate(self.list_of(values, at, MAX_VALUES)):
                entry = self.mapping(pair, f"{at}[{i}]", ("from", "to"))
                if entry is not None:
                    pairs.append((entry.get("from"), entry.get("to")))
        if not pairs:
            self.errors.append(required(at))
        seen: set[tuple[type, Json]] = set()
        for old, new in pairs:
            if not all(isinstance(v, str | int | float) for v in (old, new)):
                self.errors.append(type_invalid(at, [old, new], "must be strings, numbers or booleans"))
                return None
            if (type(old), old) in seen:
                self.errors.append(duplicate(at, old))
            seen.add((type(old), old))
        return MapValues(where, path, tuple(pairs)) if path is not None else None

    def default(self, value: Json, where: str) -> ConversionRule | None:
        entry = self.mapping(value, where, ("path", "value"))
        if entry is None:
            return None
        path = self.path(entry.get("path"), f"{where}.path")
        if entry.get("value") is None:
            self.errors.append(required(f"{where}.value"))
            return None
        return Default(where, path, entry["value"]) if path is not None and self._is_name(path, where) else None

    def set(self, value: Json, where: str) -> ConversionRule | None:
        entry = self.mapping(value, where, ("path", "cel"))
        if entry is None:
            return None
        path, cel = self.path(entry.get("path"), f"{where}.path"), self.text(entry.get("cel"), f"{where}.cel")
        if len(cel) > MAX_EXPRESSION:
            self.errors.append(invalid(f"{where}.cel", len(cel), f"must not be longer than {MAX_EXPRESSION}"))
        return Set(where, path, cel) if path is not None and self._is_name(path, f"{where}.path") and cel else None

    def drop(self, value: Json, where: str) -> ConversionRule | None:
        path = self.path(value, where)
        return Drop(where, path) if path is not None and self._is_name(path, where) else None

    def _is_name(self, path: Path, where: str) -> bool:
        if path[-1] == STAR:
            self.errors.append(forbidden(where, "must end with the name of a field"))
        return path[-1] != STAR


_RULES: Final[Mapping[str, Callable[[_RuleReader, Json, str], ConversionRule | None]]] = {
    "move": _RuleReader.move,
    "rename": _RuleReader.rename,
    "map": _RuleReader.map,
    "default": _RuleReader.default,
    "set": _RuleReader.set,
    "drop": _RuleReader.drop,
}


def read_rules(text: str) -> tuple[list[Link], list[FieldError]]:
    """The links of an annotation, in YAML or JSON, and its errors."""
    if len(text) > MAX_TEXT:
        return [], [invalid(PLACE, len(text), f"must not be longer than {MAX_TEXT} characters")]
    try:
        decoded = decode_yaml(text.encode())
    except (DecodeError, UnicodeEncodeError) as error:
        return [], [invalid(PLACE, text[:100], str(error))]
    reader = _RuleReader([invalid(PLACE, text[:100], why) for why in decoded.duplicates])
    top = reader.mapping(decoded.value, PLACE, ("conversions",))
    if top is None:
        return [], reader.errors
    where = f"{PLACE}.conversions"
    conversions = reader.list_of(top.get("conversions"), where, MAX_LINKS)
    if not conversions:
        reader.errors.append(required(where))
    links = [reader.link(value, f"{where}[{i}]") for i, value in enumerate(conversions)]
    return [link for link in links if link is not None], reader.errors


def reverse_rules(rules: tuple[ConversionRule, ...]) -> tuple[ConversionRule, ...]:
    """The reverse rules: moves and value maps inverted, in reverse order. Other fields that were set are pruned."""
    back: list[ConversionRule] = []
    for rule in reversed(rules):
        match rule:
            case Move(where, source, target):
                back.append(Move(where, target, source))
            case MapValues(where, path, pairs):
                back.append(MapValues(where, path, _reverse_pairs(pairs)))
    return tuple(back)


def _reverse_pairs(pairs: tuple[tuple[Json, Json], ...]) -> tuple[tuple[Json, Json], ...]:
    """Inverts value pairs; of several values that map to one, the first is restored."""
    turned: dict[tuple[type, Json], tuple[Json, Json]] = {}
    for old, new in pairs:
        turned.setdefault((type(new), new), (new, old))
    return tuple(turned.values())
