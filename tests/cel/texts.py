"""Texts for tests with hypothesis: expressions that parse, and what is left of them after some accidents."""

from __future__ import annotations

from hypothesis import strategies as st

_NAMES = st.sampled_from(("self", "a", "b", "oldSelf", "x"))
_LITERALS = st.sampled_from(("1", "2u", "1.5", "'s'", '"t"', "b'x'", "true", "false", "null", "0x1F", "r'\\d'"))
_OPERATORS = st.sampled_from(("+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", " in ", "&&", "||"))
_MACROS = st.sampled_from(("all", "exists", "exists_one", "map", "filter"))
_METHODS = st.sampled_from(("size", "startsWith", "matches", "f"))


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, _OPERATORS, inner).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
        st.tuples(inner, _OPERATORS, inner).map(lambda t: f"({t[0]}{t[1]}({t[2]}))"),
        st.tuples(inner, inner, inner).map(lambda t: f"(({t[0]}) ? ({t[1]}) : ({t[2]}))"),
        st.tuples(inner, _METHODS, inner).map(lambda t: f"({t[0]}).{t[1]}({t[2]})"),
        st.tuples(inner, inner).map(lambda t: f"({t[0]})[{t[1]}]"),
        st.tuples(inner, _NAMES).map(lambda t: f"({t[0]}).{t[1]}"),
        st.tuples(inner, _MACROS, _NAMES, inner).map(lambda t: f"({t[0]}).{t[1]}({t[2]}, {t[3]})"),
        st.tuples(inner, _NAMES).map(lambda t: f"has(({t[0]}).{t[1]})"),
        st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(parts)}]"),
        st.lists(st.tuples(inner, inner), max_size=2).map(
            lambda pairs: "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"
        ),
        inner.map(lambda e: f"!({e})"),
        inner.map(lambda e: f"-({e})"),
        inner.map(lambda e: f"size({e})"),
    )


# Sentences of the grammar that cel-python knows, too.
EXPRESSIONS = st.recursive(st.one_of(_NAMES, _LITERALS), _larger, max_leaves=12)

_SCRAPS = st.sampled_from(
    (
        "",
        " ",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ".",
        "?",
        ":",
        "!",
        "-",
        "+",
        "==",
        "&&",
        "||",
        "=",
        "&",
        "|",
        "'",
        '"',
        "'''",
        "`",
        "`a`",
        "in",
        "null",
        "true",
        "while",
        "1",
        "1u",
        "x",
        "é",
        "@",
        "#",
        "\n",
        "//",
        ".?",
        "[?",
        "\\",
        "0x",
    )
)


@st.composite
def _broken_texts(draw: st.DrawFn) -> str:
    """An expression with up to three scraps put in somewhere, or in place of what is there."""
    text = draw(EXPRESSIONS)
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(start + 3, len(text))))
        text = text[:start] + draw(_SCRAPS) + text[end:]
    return text


BROKEN_TEXTS = _broken_texts()
