"""Full-text search: words, search terms, and equality of index results and evaluation."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from registry.codec.json_encode import encode_json_text
from registry.query.encoding import OVERFLOW, WORD, text_entries_of
from registry.query.text import MAX_INDEXED, Lookup, SearchError, Word, parse_search, texts_of, words_of
from registry.store.arrays import bytes_literal
from registry.store.reads.words import tsquery
from registry.store.types import TenantId
from tests.api.client import TABLE, Client, eventually
from tests.api.errors import failure
from tests.api.widgets import DEFINITIONS, GROUP, WIDGETS, define, definition, names_of, widget
from tests.application import shares_application
from tests.query.lists import NAME, answers_by, query

WORDS = {
    "case and punctuation": ("Hello, World_2! (x-y)", "hello world 2 x y"),
    "composed and decomposed": ("cafe\u0301 café", "café café"),
    "compatible forms": ("ﬁle ２ ²", "file 2 2"),
    "case folding": ("STRASSE Straße", "strasse strasse"),
    "marks stay with their letters": ("हिन्दी भाषा", "हिन्दी भाषा"),
    "no letters": ("... --- \u0000 \ud800 😀", ""),
    "numbers": ("v1.25 10%", "v1 25 10"),
    "a long word is cut": ("a" * 100, "a" * 64),
}


@pytest.mark.parametrize("case", WORDS)
def test_words(case: str) -> None:
    text, wanted = WORDS[case]
    assert words_of(text) == wanted.split()


SEARCHES: dict[str, tuple[str, list[str], bool]] = {
    "one word": ("backup", ["a nightly backup"], True),
    "all words, in any order and field": ("backup nightly", ["nightly", "of the backup"], True),
    "one is missing": ("backup weekly", ["nightly backup"], False),
    "case": ("BackUp", ["BACKUP"], True),
    "a part of a word": ("back", ["backup"], False),
    "a prefix": ("back*", ["a backup"], True),
    "a phrase": ('"full backup"', ["a full backup, daily"], True),
    "a phrase is within one field": ('"full backup"', ["full", "backup"], False),
    "a phrase keeps its order": ('"full backup"', ["backup full"], False),
    "a phrase that is cut off": ('"full backup', ["full backup"], True),
    "a hyphen makes a phrase": ("db-1", ["host db-1 is up"], True),
    "hyphenated words apart": ("db-1", ["1 db"], False),
    "a phrase with a prefix": ("db-prod*", ["db-production"], True),
    "without a word": ("backup -test", ["a test backup"], False),
    "without another word": ("backup -test", ["a backup"], True),
    "without a phrase": ('backup -"a test"', ["a backup, test"], True),
    "one of two": ("restore or backup", ["backup"], True),
    "or binds less": ("restore today or backup daily", ["backup today"], False),
    "OR": ("restore OR backup", ["backup"], True),
    "punctuation is nothing": ("backup & | ( ' :* \\", ["backup"], True),
    "no texts": ("backup", [], False),
}


@pytest.mark.parametrize("case", SEARCHES)
def test_searches(case: str) -> None:
    text, values, matches = SEARCHES[case]
    assert parse_search(text).matches(values) is matches


@pytest.mark.parametrize("text", ["", " ", "-a", "a or -b", "or", "a or", "!", '""', "x " * 33, "x" * 1001])
def test_invalid_searches(text: str) -> None:
    with pytest.raises(SearchError):
        parse_search(text)


# --- PostgreSQL and Python

ALPHABET = [
    "a",
    "b",
    "ab",
    "abc",
    "Ä",
    "ß",
    "é",
    "e\u0301",
    "z",
    "x1",
    "हिन्दी",
    "日本語",
    "it's",
    "a:b",
    "a\\b",
    "'",
    '"',
    "&",
]
FIELDS = (("spec", "title"), ("spec", "notes", "[*]"))


def text(chance: random.Random, longest: int) -> str:
    return " ".join(chance.choices(ALPHABET, k=chance.randrange(longest)))


def objects(chance: random.Random) -> Iterator[dict[str, Any]]:
    for _ in range(30):
        spec: dict[str, Any] = {}
        if chance.random() < 0.8:
            spec["title"] = chance.choice([text(chance, 6), None, 7, "\u0000a", "\ud800"])
        if chance.random() < 0.6:
            spec["notes"] = chance.choice([[text(chance, 4), text(chance, 4)], [], [None, 3, "a"], "a"])
        yield {"metadata": {"name": "x"}, "spec": spec}


def search_text(chance: random.Random) -> str:
    terms = []
    for _ in range(chance.randrange(1, 4)):
        word = chance.choice(ALPHABET)
        terms.append(chance.choice((word, word, f"{word}*", f"-{word}", f'"{word} {chance.choice(ALPHABET)}"', "or")))
    return " ".join(terms)


def lookup_matches(lookup: Lookup, entries: set[str]) -> bool:
    def has(word: Word) -> bool:
        return any(e.startswith(word.text) for e in entries) if word.prefix else word.text in entries

    return any(all(has(word) for word in words) for words in lookup)


def test_the_index_agrees_with_full_evaluation(database_url: str) -> None:
    """600 searches over 30 objects each: PostgreSQL finds all that matches, and exactly what has the words."""
    chance = random.Random(7)
    tenant, number = TenantId(12), -77
    own, other = number.to_bytes(8, "big", signed=True), (5).to_bytes(8, "big")
    searched = found_some = 0
    with psycopg.connect(database_url) as connection:
        while searched < 600:
            asked = search_text(chance)
            try:
                search = parse_search(asked)
            except SearchError:
                continue
            searched += 1
            made = list(objects(chance))
            entries = [text_entries_of(own, FIELDS, obj) for obj in made]
            rows = connection.execute(
                "SELECT coalesce(registry_words(12, e::bytea[]) @@ %s::tsquery, false), registry_words(12, o::bytea[])"
                " @@ %s::tsquery FROM unnest(%s::text[], %s::text[]) AS x (e, o)",
                (
                    tsquery(tenant, number, search.lookup),
                    tsquery(tenant, number, search.lookup),
                    [bytes_literal(one) for one in entries],
                    [bytes_literal([other + entry[8:] for entry in one]) for one in entries],
                ),
            ).fetchall()
            for obj, one, (by_index, of_another) in zip(made, entries, rows, strict=True):
                case = (asked, obj)
                matches = search.matches(texts_of(obj, FIELDS))
                found_some += matches
                assert by_index or not matches, case
                assert by_index is lookup_matches(search.lookup, {e[9:].decode() for e in one}), case
                assert not of_another, case
    assert found_some > 500


def test_searches_with_many_words_are_evaluated_per_object() -> None:
    many = {"spec": {"title": " ".join(f"w{n}" for n in range(MAX_INDEXED + 1))}}
    assert text_entries_of(b"i" * 8, FIELDS, many) == [b"i" * 8 + OVERFLOW]
    assert text_entries_of(b"i" * 8, FIELDS, {"spec": {"title": "b a b"}}) == [
        b"i" * 8 + WORD + w for w in (b"a", b"b")
    ]


# --- over HTTP

SEARCH = "spec.color; spec.parts[*]"


async def declare_search(api: Client, fields: str = SEARCH) -> None:
    annotations = {"query.registry/search": fields, "query.registry/condition": "true"}
    (await api.patch(f"{DEFINITIONS}/{NAME}", {"metadata": {"annotations": annotations}})).ok()

    async def complete() -> bool:
        found = (await api.get(f"{DEFINITIONS}/{NAME}")).ok()
        return any(c["type"] == "Indexed" and c["status"] == "True" for c in found["status"]["conditions"])

    await eventually(complete)


async def fill(api: Client) -> None:
    for name, spec in {
        "a": {"size": 3, "color": "Dark red", "parts": ["front wheel", "axle"]},
        "b": {"size": 1, "color": "dark blue", "parts": ["rear wheel"]},
        "c": {"color": "red"},
        "d": {"size": 2, "parts": ["wheels", "dark axle"]},
        "e": {"size": 5, "color": " ".join(f"w{n}" for n in range(5000))},
    }.items():
        (await api.post(WIDGETS, {**widget(name), "spec": spec})).ok(201)


FOUND = {
    "dark": "a b d",
    "dark wheel": "a b",
    "dark wheel*": "a b d",
    '"dark red"': "a",
    "dark -blue": "a d",
    "blue or axle": "a b d",
    "w4711": "e",
    "nothing": "",
}


def searching(words: str) -> str:
    return f"object.search({encode_json_text(words)})"


@shares_application
async def test_a_search_before_and_after_its_index_is_complete(api: Client) -> None:
    await fill(api)
    status = failure(await api.get(f"{WIDGETS}?filter={quote(searching('dark'))}"), 400, "BadRequest")
    assert "query.registry/search" in status["message"]
    await declare_search(api)
    before = answers_by("words")
    for words, names in FOUND.items():
        assert names_of(await query(api, filter=searching(words))) == names.split(), words
    assert answers_by("words") == before + len(FOUND)
    # What is written from now on has its words at once.
    (await api.patch(f"{WIDGETS}/c", {"spec": {"color": "dark green"}})).ok()
    (await api.delete(f"{WIDGETS}/b")).ok()
    (await api.patch(f"{WIDGETS}/d", {"spec": {"parts": None}})).ok()
    assert names_of(await query(api, filter=searching("dark"))) == ["a", "c"]
    # Not pushed down, but evaluated.
    assert names_of(await query(api, filter=f"!{searching('dark')}")) == ["d", "e"]
    assert names_of(await query(api, filter=f"{searching('dark')} || object.spec.size == 2")) == ["a", "c", "d"]


@shares_application
async def test_a_search_is_sorted_counted_and_paged_at_one_revision(api: Client) -> None:
    await fill(api)
    await declare_search(api)
    shape: dict[str, Any] = {
        "filter": f"{searching('dark')} && object.spec.size > 0",
        "orderBy": "spec.size desc",
        "limit": 1,
    }
    answer = await api.get(
        f"{WIDGETS}?{'&'.join(f'{k}={quote(str(v))}' for k, v in {**shape, 'count': 'exact'}.items())}"
    )
    first = answer.ok()
    assert (names_of(first), answer.header("x-total-count")) == (["a"], "3")
    (await api.patch(f"{WIDGETS}/d", {"spec": {"parts": ["nothing"]}})).ok()
    (await api.delete(f"{WIDGETS}/b")).ok()
    second = await query(api, **shape, **{"continue": first["metadata"]["continue"]})
    third = await query(api, **shape, **{"continue": second["metadata"]["continue"]})
    assert [names_of(second), names_of(third)] == [["d"], ["b"]]
    assert names_of(await query(api, filter=shape["filter"])) == ["a"]
    past = await query(api, filter=shape["filter"], resourceVersion=first["metadata"]["resourceVersion"],
                       resourceVersionMatch="Exact")  # fmt: skip
    assert names_of(past) == ["a", "b", "d"]
    table = (await api.get(f"{WIDGETS}?filter={quote(shape['filter'])}", accept=TABLE)).ok()
    assert [row["cells"][0] for row in table["rows"]] == ["a"]


@shares_application
async def test_a_watch_by_a_search(api: Client) -> None:
    await fill(api)
    await declare_search(api)
    async with api.watch(f"{WIDGETS}?watch=1&filter={quote(searching('red -dark'))}") as watch:
        assert (await watch.event())["object"]["metadata"]["name"] == "c"
        (await api.patch(f"{WIDGETS}/c", {"spec": {"color": "dark red"}})).ok()
        (await api.patch(f"{WIDGETS}/b", {"spec": {"color": "red"}})).ok()
        assert [(e["type"], e["object"]["metadata"]["name"]) for e in await watch.events(2)] == [
            ("DELETED", "c"),
            ("ADDED", "b"),
        ]


WRONG = {
    "no constant": ("object.search(object.spec.color)", "one constant string"),
    "no words": ('object.search("!")', "search: it must have a word"),
    "not of the object": ('object.spec.search("a")', "undeclared reference to 'search'"),
    "a variable of this name": ('[object].exists(object, object.search("a"))', "undeclared reference to 'search'"),
    "too many": (" || ".join(['object.search("a")'] * 9), "more than 8 searches"),
    "the variable behind it": ("@search0", "yntax error"),
}


@shares_application
async def test_invalid_searches_in_filters(api: Client) -> None:
    await declare_search(api)
    for wanted, message in WRONG.values():
        status = failure(await api.get(f"{WIDGETS}?filter={quote(wanted)}"), 400, "BadRequest")
        assert message in status["message"], (wanted, status["message"])


@shares_application
async def test_sensitive_fields_are_not_searched(api: Client) -> None:
    made = definition("gears", "Gear")
    made["metadata"]["annotations"] = {
        "reporting.registry/sensitive": ".spec.color",
        "query.registry/search": "spec.color; spec.size; spec.parts[*]",
    }
    await define(api, made)
    path = f"/apis/{GROUP}/v1/namespaces/default/gears"
    gear = {"apiVersion": f"{GROUP}/v1", "kind": "Gear", "metadata": {"name": "a"}}
    (await api.post(path, {**gear, "spec": {"color": "red", "size": 7, "parts": ["wheel"]}})).ok(201)
    assert names_of(await query(api, path, filter=searching("wheel"))) == ["a"]
    assert names_of(await query(api, path, filter=searching("red or 7"))) == []
