"""Matching is bounded in time and memory whatever the pattern, and ordinary patterns notice nothing of it."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from time import thread_time

import pytest
import re2

import registry
from registry.budget import Budget, MatchingExceeded
from registry.schema.compiled import compile_schema
from registry.schema.patterns import CACHE, MAX_CACHE_BYTES, PatternError, compile_pattern, find_all
from registry.schema.values import Json

HOSTILE = "[ab]*a[ab]{900}c"
SEMVER = (
    r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
    r"(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$"
)
HOST = r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\.)*[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"


def letters(count: int) -> str:
    """As many letters a and b, at random."""
    return random.Random(count).randbytes(count).translate(b"ab" * 128).decode()


@pytest.mark.parametrize(
    "pattern, text",
    [
        pytest.param(HOSTILE, letters(60_000), id="a new state for each byte"),
        pytest.param(HOSTILE, letters(2_900_000), id="a long text"),
        pytest.param(r"(\b|\B|a|b|[ab]*a[ab]{50}\b){20}c$", letters(300_000), id="word boundaries"),
        pytest.param("(" + "|".join(f"[ab]*a[ab]{{{n}}}c" for n in range(1, 80)) + ")", letters(100_000), id="program"),
    ],
)
def test_a_string_that_is_too_expensive_to_match_is_refused(pattern: str, text: str) -> None:
    matches = compile_pattern(pattern)
    with Budget():
        began = thread_time()
        with pytest.raises(MatchingExceeded):
            matches(text)
        first = thread_time() - began
        assert first < 5
        began = thread_time()
        for _ in range(10):
            with pytest.raises(MatchingExceeded):
                matches(text)  # what has been spent is spent
        assert thread_time() - began < first
    with Budget():
        matches("ab" * 500)


@pytest.mark.parametrize(
    "pattern, text, expected",
    [
        pytest.param("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "a-" * 1_000_000 + "a", True, id="label"),
        pytest.param(SEMVER, "1.2.3-" + "alpha.1." * 12_500 + "x", True, id="semver"),
        pytest.param(SEMVER, "1.2.3-" + "alpha.1." * 12_500, False, id="semver that ends in a dot"),
        pytest.param(HOST, "abc-def." * 12_500 + "x", True, id="host"),
        pytest.param(r"^[\p{L}\p{N} ._-]+$", "Grüße " * 20_000, True, id="letters of any script"),
        pytest.param(r"^.{0,1000}$", "x" * 100_000, False, id="counted"),
        pytest.param(r"^([A-Za-z0-9+/]{4})*$", "abcd" * 500_000, True, id="base64"),
    ],
)
def test_ordinary_patterns_match_long_texts(pattern: str, text: str, expected: bool) -> None:
    assert compile_pattern(pattern)(text) is expected


@pytest.mark.parametrize(
    "pattern",
    [
        "[ab]*a[ab]{8}c",
        "(a|b)*abb",
        "^a[ab]*b$",
        r"\bab\b",
        "(a?){50}(b?){50}c",
        "[ab]{3,40}c",
        "a{1000}[bc]",
        "[ab]*a[ab]{300}",
    ],
)
def test_results_do_not_depend_on_the_memory_limit_of_the_automaton(pattern: str) -> None:
    matches, reference = compile_pattern(pattern), re2.compile(pattern)
    source = random.Random(pattern)
    for _ in range(300):
        text = "".join(source.choices("abc ", [10, 10, 1, 1], k=source.randrange(80)))
        assert matches(text) is (reference.search(text) is not None), text


def test_matching_many_expensive_strings_is_bounded() -> None:
    text: Json = {"type": "string", "pattern": HOSTILE}
    schema = compile_schema({"type": "object", "properties": {"l": {"type": "array", "items": text}}})
    obj: Json = {"l": [letters(20_000 + i) for i in range(100)]}
    began = thread_time()
    errors = schema.validate_values(obj)
    assert thread_time() - began < 5
    assert [error.body() for error in errors] == [
        f"Invalid value: l[0] in body is too expensive to match against '{HOSTILE}'"
    ]


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"not": {"pattern": HOSTILE}}, id="not"),
        pytest.param({"anyOf": [{"pattern": HOSTILE}, {"minLength": 1}]}, id="anyOf"),
    ],
)
def test_a_string_beyond_the_budget_is_neither_match_nor_mismatch(schema: dict[str, Json]) -> None:
    compiled = compile_schema({"type": "object", "properties": {"a": {"type": "string", **schema}}})
    errors = compiled.validate_values({"a": letters(60_000)})
    assert [error.field for error in errors] == ["a"]


def test_unchanged_values_are_not_matched_again() -> None:
    schema = compile_schema(
        {"type": "object", "properties": {"a": {"type": "string", "pattern": HOSTILE}, "b": {"type": "integer"}}}
    )
    old = {"a": letters(60_000), "b": 1}
    assert schema.validate_values(old | {"b": 2}, old) == []


@pytest.mark.slow
def test_all_compiled_patterns_have_one_budget_of_memory() -> None:
    """In a process of its own, for memory that has been used before shows nothing."""
    code = f"""
import random
from registry.budget import MatchingExceeded
from registry.schema.patterns import CACHE, compile_pattern, find_all

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

text = "".join(random.Random(1).choices("ab", k=3000))
before = resident()
kept = []
for count in range(80):
    matches = compile_pattern("[ab]*a[ab]{{%d}}c" % (500 + count))
    kept.append(matches)
    for use in (lambda: matches(text), lambda: list(find_all("[ab]*a[ab]{{%d}}" % (500 + count), text))):
        try:
            use()
        except MatchingExceeded:
            pass
assert CACHE.weight <= {MAX_CACHE_BYTES}, CACHE.weight
print(resident() - before)
assert not kept[0]("x")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 1.5 * MAX_CACHE_BYTES


@pytest.mark.parametrize(
    "pattern, text, expected",
    [
        pytest.param("a*", "baac", ["", "aa", ""], id="empty ones, but not after a match"),
        pytest.param("", "aé", ["", "", ""], id="between all characters"),
        pytest.param("é", "aébé", ["é", "é"], id="more than one byte"),
        pytest.param("^a", "aaa", ["a"], id="the beginning is one place"),
        pytest.param(r"\bb", "ab b", ["b"], id="what stands before counts"),
        pytest.param("(a)(b)?", "abab", ["ab", "ab"], id="groups"),
    ],
)
def test_matches_are_found_as_in_go(pattern: str, text: str, expected: list[str]) -> None:
    assert list(find_all(pattern, text)) == expected


@pytest.mark.slow
def test_finding_many_matches_takes_linear_time() -> None:
    began = thread_time()
    assert len(list(find_all("a", "ab" * 50_000))) == 50_000
    assert thread_time() - began < 20


def test_finding_is_bounded_where_each_match_reads_the_whole_rest() -> None:
    began = thread_time()
    with pytest.raises(MatchingExceeded):
        for _ in find_all("a(?:[^z]*z)?", "a" * 1_000_000):
            pass
    assert thread_time() - began < 5


def test_an_invalid_pattern_is_an_error() -> None:
    with pytest.raises(PatternError, match="missing"):
        compile_pattern("(a")


def test_one_module_uses_re2() -> None:
    """Another one would have memory and time of its own."""
    users = [path.name for path in Path(registry.__file__).parent.rglob("*.py") if "import re2" in path.read_text()]
    assert users == ["patterns.py"]


def test_known_results_of_short_texts_are_bounded() -> None:
    matches = compile_pattern("^known-[0-9]+$")
    texts = [f"known-{number}" for number in range(1000)]
    for _ in range(2):
        assert all(matches(text) for text in texts)
        assert not any(matches(f"{text}!") for text in texts)
        assert not matches(f"known-{'1' * 100}x")
    compiled = CACHE.peek(("^known-[0-9]+$", True))
    assert compiled is not None
    assert 0 < len(compiled.known) <= 64
    assert all(len(text) <= 40 for text in compiled.known)
