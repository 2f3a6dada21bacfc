"""Decodes YAML as sigs.k8s.io/yaml does: YAML 1.1, the first document only, converted to JSON.

Two steps, as in yaml.v2, whose rules these are: libyaml's events (PyYAML's CParser) become nodes, and nodes become
values. Bounded: nodes, depth, directives, the work of deep flow collections in libyaml, and the expansion of aliases
and tags.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from typing import Any

import yaml
from yaml import events
from yaml._yaml import CParser

from registry.codec.go_text import go_g, go_quote, go_syntax
from registry.codec.json_decode import decode_canonical_json
from registry.codec.model import MAX_STRICT_ERRORS, Decoded, TooManyValues, YamlError
from registry.codec.yaml_scalar import MERGE, as_json, resolve_plain, resolve_tagged

# Construction recurses, one frame per level. Real documents are not as deep as this.
MAX_YAML_DEPTH = 300
_TOO_DEEP = "yaml: exceeded max depth"
# How much of a document with too many values is examined for its depth.
_BEGINNING = 1 << 16
# Scalars, and the beginnings and ends of collections. So many take a second and 70 MB; a body of 3 MiB has them only if
# nearly all are empty or of one digit.
MAX_NODES = 500_000

# libyaml checks every open flow collection for every token, so an attacker can cause work of tokens times depth. This
# much takes about a quarter of a second; a megabyte of ordinary flow YAML needs a tenth of it.
_MAX_FLOW_WORK = 30_000_000

# libyaml compares every %TAG directive with all before it, without letting other threads run, and copies the prefix of
# one for each node that uses it. Real documents have one or two directives, of a hundred bytes.
_MAX_DIRECTIVE_BYTES = 1024
# A directive, and what libyaml skips before it: blanks, comments, byte order marks, and its five line breaks.
_DIRECTIVE = re.compile(
    rb"(?:[ \t\r\n]|\xc2\x85|\xe2\x80[\xa8\xa9]|\xef\xbb\xbf"
    rb"|#(?:[^\r\n\xc2\xe2]|\xc2(?!\x85)|\xe2(?!\x80[\xa8\xa9]))*+)*+(%[^\r\n]*+)"
)
_MAX_TAG_CHARACTERS = 16_000_000
_TOO_MANY_TAGS = "yaml: the directives or tags of the document are too long"

# yaml.v2 limits the share of nodes that come from aliases, more strictly in larger documents; small ones are exempt.
_FREE_ALIASED_NODES = 100
_SMALL_DOCUMENT, _LARGE_DOCUMENT = 400_000, 4_000_000
# It has no such rule for long strings; ours is about twice the maximum size of a body.
_MAX_ALIASED_CHARACTERS = 6_000_000


def decode_yaml(data: bytes) -> Decoded:
    """The value of the first document: `{a: yes, a: 1e3}` gives `{"a": 1000}` and the duplicate
    `line 1: key "a" already set in map`. Without a document the value is None.

    Raises YamlError: `yaml: line 3: found character that cannot start any token`; TooManyValues.
    """
    if data.startswith(b"{"):  # clients send JSON under YAML's media types
        try:
            decoded = decode_canonical_json(data)
        except TooManyValues as error:
            if _is_deep(data[:_BEGINNING]):
                raise YamlError(_TOO_DEEP) from error
            raise
        if decoded is not None:
            return decoded
    try:
        root = _compose(data)
    except yaml.reader.ReaderError as error:
        raise YamlError(f"yaml: {error.reason}") from error
    except yaml.MarkedYAMLError as error:
        raise YamlError(f"yaml: {_marked_text(error)}") from error
    constructor = _Constructor()
    try:
        value = constructor.construct(root, 0) if root is not None else None
    except RecursionError as error:  # aliases take more frames per level than other nodes
        raise YamlError(_TOO_DEEP) from error
    return Decoded(value, constructor.duplicates, yaml=True)


def _marked_text(error: yaml.MarkedYAMLError) -> str:
    line = error.problem_mark.line if error.problem_mark is not None else 0
    if line:
        # The scanner's mark is on the line itself (counted from zero), the parser's on that of the next token.
        line += isinstance(error, yaml.scanner.ScannerError)
    elif error.context_mark is not None:
        line = error.context_mark.line
    return f"line {line}: {error.problem}" if line else str(error.problem)


# --- nodes


class _Node:
    """A scalar has a `text`; a collection `children`: items, or alternating keys and values; an alias a `target`."""

    __slots__ = ("anchor", "children", "is_mapping", "line", "plain", "tag", "target", "text")

    def __init__(self, line: int, text: str | None = None, tag: str | None = None, plain: bool = False) -> None:
        self.line = line
        self.text = text
        self.tag = tag
        self.plain = plain
        self.children: Sequence[_Node] = ()
        self.is_mapping = False
        self.target: _Node | None = None
        self.anchor = ""

    @property
    def is_merge_key(self) -> bool:
        return self.text == "<<" and (self.plain if self.tag is None else self.tag == MERGE)


def _is_deep(data: bytes) -> bool:
    """Whether too many collections are open at the end. Brackets in texts count as well."""
    opened, closed = (sum(data.count(bracket) for bracket in pair) for pair in ((b"{", b"["), (b"}", b"]")))
    return opened - closed > MAX_YAML_DEPTH


def _compose(data: bytes) -> _Node | None:
    """The root node of the first document. Raises PyYAML's YAMLError, YamlError and TooManyValues."""
    siblings: list[_Node] = []  # the children of the innermost open collection; here, the root
    outer: list[list[_Node]] = []
    roots = siblings
    anchors: dict[str, _Node] = {}
    flow_depth = flow_work = tag_characters = 0
    for number, event in enumerate(_first_document(data)):
        kind = type(event)
        if kind is events.ScalarEvent and event.anchor is None and event.tag is None:
            siblings.append(_Node(event.start_mark.line + 1, event.value, None, event.implicit[0]))
        elif kind is events.MappingEndEvent or kind is events.SequenceEndEvent:
            siblings = outer.pop()
            flow_depth -= flow_depth > 0
        else:
            node = _node(event, anchors)
            siblings.append(node)
            tag_characters += len(getattr(event, "tag", None) or "")
            if node.text is None and node.target is None:
                outer.append(siblings)
                node.children = siblings = []
                flow_depth += bool(event.flow_style)
        if number == MAX_NODES:
            raise TooManyValues(MAX_NODES, "nodes of YAML")
        flow_work += flow_depth
        if len(outer) > MAX_YAML_DEPTH or flow_work > _MAX_FLOW_WORK:
            raise YamlError(_TOO_DEEP)
        if tag_characters > _MAX_TAG_CHARACTERS:
            raise YamlError(_TOO_MANY_TAGS)
    return roots[0] if roots else None


def _check_directives(data: bytes) -> None:
    """Raises YamlError if the directives before the first document are longer than real ones."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        data = data.decode("utf-16", "replace").encode("utf-8", "replace")
    directives = 0
    position = 0
    while (line := _DIRECTIVE.match(data, position)) is not None:
        directives += len(line[1])
        position = line.end()
        if directives > _MAX_DIRECTIVE_BYTES:
            raise YamlError(_TOO_MANY_TAGS)


def _first_document(data: bytes) -> Iterator[Any]:
    _check_directives(data)
    parser = CParser(data)
    for expected in (events.StreamStartEvent, events.DocumentStartEvent):
        if not isinstance(parser.get_event(), expected):
            return
    while not isinstance(event := parser.get_event(), events.DocumentEndEvent):
        yield event


def _node(event: Any, anchors: dict[str, _Node]) -> _Node:
    line = event.start_mark.line + 1
    if type(event) is events.AliasEvent:
        if event.anchor not in anchors:
            raise YamlError(f"yaml: unknown anchor '{event.anchor}' referenced")
        alias = _Node(line)
        alias.target = anchors[event.anchor]
        return alias
    if type(event) is events.ScalarEvent:
        node = _Node(line, text=event.value, tag=event.tag, plain=event.implicit[0])
    else:
        node = _Node(line)
        node.is_mapping = type(event) is events.MappingStartEvent
    if event.anchor is not None:
        node.anchor = event.anchor
        anchors[event.anchor] = node
    return node


# --- values


class _Constructor:
    """Constructs the values of one document. An aliased node is constructed for each use, so no value is shared."""

    def __init__(self) -> None:
        self.duplicates: list[str] = []
        self.nodes = self.aliased_nodes = self.aliased_characters = self.alias_depth = 0
        self.expanding: set[int] = set()

    def construct(self, node: _Node, depth: int) -> Any:
        self.count(node, depth)
        if node.text is not None:
            return self.scalar(node, node.text)
        if node.target is not None:
            return self.through_alias(node.target, depth, None)
        if node.is_mapping:
            return self.mapping(node, depth, {})
        return [self.construct(child, depth + 1) for child in node.children]

    def count(self, node: _Node, depth: int) -> None:
        self.nodes += 1
        if depth > MAX_YAML_DEPTH:
            raise YamlError(_TOO_DEEP)
        if self.alias_depth:
            self.aliased_nodes += 1
            self.aliased_characters += len(node.text or "")
            if self.aliased_characters > _MAX_ALIASED_CHARACTERS or (
                self.aliased_nodes > _FREE_ALIASED_NODES and self.too_many_aliases()
            ):
                raise YamlError("yaml: document contains excessive aliasing")

    def too_many_aliases(self) -> bool:
        beyond = min(max(self.nodes - _SMALL_DOCUMENT, 0) / (_LARGE_DOCUMENT - _SMALL_DOCUMENT), 1)
        return self.nodes > 1000 and self.aliased_nodes / self.nodes > 0.99 - 0.89 * beyond

    def through_alias(self, target: _Node, depth: int, into: dict[str, Any] | None) -> Any:
        """The value of an alias; with `into`, merges its mapping into that."""
        if id(target) in self.expanding:
            raise YamlError(f"yaml: anchor '{target.anchor}' value contains itself")
        self.expanding.add(id(target))
        self.alias_depth += 1
        value = self.construct(target, depth) if into is None else self.mapping(target, depth, into)
        self.alias_depth -= 1
        self.expanding.discard(id(target))
        return value

    def scalar(self, node: _Node, text: str) -> Any:
        if node.tag is not None:
            value = resolve_tagged(node.tag, text, node.plain)
        else:
            value = resolve_plain(text) if node.plain else text
        return as_json(value) if isinstance(value, float) else value

    def mapping(self, node: _Node, depth: int, into: dict[str, Any]) -> dict[str, Any]:
        children = iter(node.children)
        for key_node, value_node in zip(children, children, strict=True):
            if key_node.is_merge_key:
                self.merge(value_node, depth, into)
                continue
            key, text = self.key(key_node, depth)
            value = self.construct(value_node, depth + 1)
            if key in into and len(self.duplicates) < MAX_STRICT_ERRORS:
                self.duplicates.append(f"line {value_node.line}: key {text or go_quote(key)} already set in map")
            into[key] = value
        return into

    def key(self, node: _Node, depth: int) -> tuple[str, str]:
        """A key in JSON, and its form in Go's messages if that is not the quoted text."""
        if node.text is not None and node.tag is None and not node.plain:
            return node.text, ""
        value = self.raw_key(node, depth)
        if isinstance(value, str):
            return value, ""
        if isinstance(value, bool):
            text = "true" if value else "false"
            return text, text
        if isinstance(value, int):
            return str(value), str(value)
        if isinstance(value, float):
            text = go_g(value)
            return {"+Inf": ".inf", "-Inf": "-.inf", "NaN": ".nan"}.get(text, text), text
        if value is None:
            raise YamlError("unsupported map key of type: %!s(<nil>), key: <nil>")
        raise YamlError(f"yaml: invalid map key: {go_syntax(value)}")

    def raw_key(self, node: _Node, depth: int) -> Any:
        """A key's value, in which floats are not converted: `2.0` is the key "2", `1e3` the key "1000"."""
        if node.text is None:
            return self.construct(node, depth + 1)
        return resolve_tagged(node.tag, node.text, node.plain) if node.tag is not None else resolve_plain(node.text)

    def merge(self, node: _Node, depth: int, into: dict[str, Any]) -> None:
        if node.text is None and node.target is None and not node.is_mapping:
            for child in reversed(node.children):  # the earlier ones take precedence
                self.merge_one(child, depth, into)
        else:
            self.merge_one(node, depth, into)

    def merge_one(self, node: _Node, depth: int, into: dict[str, Any]) -> None:
        source = node.target or node
        if not source.is_mapping:
            raise YamlError("yaml: map merge requires map or sequence of maps as the value")
        self.count(node, depth)
        if node.target is not None:
            self.through_alias(source, depth, into)
        else:
            self.mapping(source, depth, into)
