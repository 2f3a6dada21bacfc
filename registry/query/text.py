"""Full text: the words of an object's declared fields, and what `object.search("words")` demands of them.

    query.registry/search: "spec.title; spec.notes[*]"

    object.search('postgres backup')      both words, anywhere          object.search('"full backup"')  a phrase
    object.search('back*')                words that begin so           object.search('backup -test')   without a word
    object.search('backup or restore')    one of both; `or` binds less than what stands side by side

The syntax is that of PostgreSQL's websearch_to_tsquery, and of prefixes. A word is a run of letters, digits and marks
in NFKC, with case folded; there is no stemming and there are no stop words, so what matches does not depend on a
language, nor on where it is evaluated. The store keeps the words of each object in a tsvector and finds candidates by
it (registry/store/reads/words.py); the rest, phrases and exclusions, is evaluated here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from registry.query.fields import Path, values_at

# Significant characters of a word: a lexeme of PostgreSQL has at most 2,046 bytes.
MAX_WORD: Final = 64
MAX_QUERY: Final = 1000
# The most words of a search, including those of phrases.
MAX_WORDS: Final = 32
# The most indexed words of an object, and their bytes; objects with more are evaluated one by one.
MAX_INDEXED: Final = 4096
MAX_INDEXED_BYTES: Final = 128 << 10

_OTHERS: Final = re.compile(r"[\x00-/:-@\[-`{-\x7f]+")
_NOT_WORDS: Final = re.compile(r"[\W_]")
_TERM: Final = re.compile(r'(-?)(?:"([^"]*)("|$)|([^\s"]+))')


class SearchError(ValueError):
    """The text says what is wrong with a search, for the client."""


@dataclass(frozen=True, slots=True)
class SearchTerm:
    """Consecutive words within one value. `prefix`: the last one is the beginning of a word."""

    words: tuple[str, ...]
    prefix: bool = False
    excluded: bool = False


@dataclass(frozen=True, slots=True)
class Search:
    """All terms of at least one alternative."""

    alternatives: tuple[tuple[SearchTerm, ...], ...]

    def matches(self, texts: Sequence[str]) -> bool:
        """Evaluates the search; `texts` are the values of the declared fields (texts_of)."""
        values = [words_of(text) for text in texts]
        present = {word for value in values for word in value}
        return any(
            all(_occurs(term, values, present) is not term.excluded for term in terms) for terms in self.alternatives
        )

    @property
    def lookup(self) -> Lookup:
        """Returns the condition that the words of every match satisfy."""
        return tuple(
            tuple(
                Word(word, term.prefix and number == len(term.words) - 1)
                for term in terms
                if not term.excluded
                for number, word in enumerate(term.words)
            )
            for terms in self.alternatives
        )


@dataclass(frozen=True, slots=True)
class Word:
    """A word that an object must have; with `prefix`, the beginning of one."""

    text: str
    prefix: bool = False


# All words of at least one of the alternatives.
Lookup = tuple[tuple[Word, ...], ...]


def parse_search(text: str) -> Search:
    """Parses a search. Raises SearchError."""
    if len(text) > MAX_QUERY:
        raise SearchError(f"it is longer than {MAX_QUERY} characters")
    alternatives: list[list[SearchTerm]] = [[]]
    for minus, phrase, _, plain in _TERM.findall(text):
        if plain.lower() == "or" and not minus:
            alternatives.append([])
            continue
        words = tuple(words_of(phrase or plain))
        if words:
            alternatives[-1].append(SearchTerm(words, plain.endswith("*"), bool(minus)))
    if any(all(term.excluded for term in terms) for terms in alternatives):
        raise SearchError("it must have a word that is looked for, on each side of or")
    if sum(len(term.words) for terms in alternatives for term in terms) > MAX_WORDS:
        raise SearchError(f"it has more than {MAX_WORDS} words")
    return Search(tuple(map(tuple, alternatives)))


def words_of(text: str) -> list[str]:
    """Returns the words of a text in order; for "Ünïcode, caf\u0065\u0301 x_1" ünïcode, café, x and 1."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    spaced = _OTHERS.sub(" ", folded)
    if not spaced.isascii():
        spaced = _NOT_WORDS.sub(_mark_or_space, spaced)
    return [word[:MAX_WORD] for word in spaced.split()]


def _mark_or_space(match: re.Match[str]) -> str:
    # Marks belong to the preceding letter, such as the vowels of Devanagari.
    return match[0] if unicodedata.category(match[0])[0] == "M" else " "


def texts_of(obj: Mapping[str, Any], fields: Sequence[Path]) -> list[str]:
    return [value for path in fields for value in values_at(obj, path) if isinstance(value, str)]


def indexed_words(obj: Mapping[str, Any], fields: Sequence[Path]) -> list[str] | None:
    """Returns the words by which an object is indexed, sorted; None if there are too many."""
    indexed: set[str] = set()
    for text in texts_of(obj, fields):
        indexed.update(words_of(text))
        if len(indexed) > MAX_INDEXED:
            return None
    return sorted(indexed) if sum(len(word.encode()) for word in indexed) <= MAX_INDEXED_BYTES else None


def _occurs(term: SearchTerm, values: Sequence[Sequence[str]], present: set[str]) -> bool:
    whole = term.words[:-1] if term.prefix else term.words
    if not present.issuperset(whole):
        return False
    if len(term.words) == 1:
        return not term.prefix or any(word.startswith(term.words[0]) for word in present)
    return any(_follow(term, words) for value in values for words in _windows(value, len(term.words)))


def _windows(words: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (words[start : start + size] for start in range(len(words) - size + 1))


def _follow(term: SearchTerm, words: Sequence[str]) -> bool:
    last, word = term.words[-1], words[-1]
    if list(words[:-1]) != list(term.words[:-1]):
        return False
    return word.startswith(last) if term.prefix else word == last
