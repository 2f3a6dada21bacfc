"""Expressions for tests that compare evaluators: of each type, well typed, of bounded depth."""

from __future__ import annotations

from hypothesis import strategies as st

INTS = st.sampled_from(
    ["0", "1", "-1", "2", "7", "-13", "100", "4611686018427387904", "9223372036854775807", "-9223372036854775808"]
)
UINTS = st.sampled_from(["0u", "1u", "2u", "9u", "18446744073709551615u"])
DOUBLES = st.sampled_from(["0.0", "1.0", "-1.5", "2.25", "1e10", "0.1", "1e300"])
STRINGS = st.sampled_from(["''", "'a'", "'ab'", "'b'", "'héllo'", "'☺'", "'10'", "'-3'", "'true'", "'a b'"])
BYTES = st.sampled_from(["b''", "b'a'", "b'ab'", r"b'\xff'"])
BOOLS = st.sampled_from(["true", "false"])
TIMES = st.sampled_from(["timestamp('2024-02-29T13:14:15.678Z')", "timestamp(0)", "timestamp('1969-12-31T23:59:59Z')"])
DURATIONS = st.sampled_from(["duration('1h30m')", "duration('-1.5s')", "duration('0s')", "duration('90ms')"])


def join(template: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """The template with its `{}` filled by what the strategies draw."""
    return st.tuples(*parts).map(lambda values: template.format(*values))


def of_depth(depth: int) -> dict[str, st.SearchStrategy[str]]:
    """For each type the expressions of at most this depth."""
    if depth == 0:
        return {
            "int": INTS,
            "uint": UINTS,
            "double": DOUBLES,
            "string": STRINGS,
            "bytes": BYTES,
            "bool": BOOLS,
            "time": TIMES,
            "duration": DURATIONS,
            "ints": join("[{}, {}]", INTS, INTS),
            "strings": join("[{}, {}]", STRINGS, STRINGS),
            "map": join("{{'a': {}, 'b': {}}}", INTS, INTS),
        }
    e = of_depth(depth - 1)
    i, u, d, s, b, t, n = e["int"], e["uint"], e["double"], e["string"], e["bool"], e["time"], e["duration"]
    li, ls, m, by = e["ints"], e["strings"], e["map"], e["bytes"]
    return {
        "int": st.one_of(
            i,
            join("({} + {})", i, i),
            join("({} - {})", i, i),
            join("({} * {})", i, i),
            join("({} / {})", i, i),
            join("({} % {})", i, i),
            join("(-({}))", i),
            join("({} ? {} : {})", b, i, i),
            join("size({})", s),
            join("{}[{}]", li, i),
            join("{}.a", m),
            join("{}['b']", m),
            join("int({})", u),
            join("int({})", s),
            join("{}.size()", li),
            join("{}.getMinutes()", n),
            join("{}.getDayOfYear()", t),
            join("int({})", t),
        ),
        "uint": st.one_of(
            u,
            join("({} + {})", u, u),
            join("({} - {})", u, u),
            join("({} * {})", u, u),
            join("({} / {})", u, u),
            join("uint({})", i),
        ),
        "double": st.one_of(
            d,
            join("({} + {})", d, d),
            join("({} * {})", d, d),
            join("({} / {})", d, d),
            join("double({})", i),
            join("(-({}))", d),
        ),
        "string": st.one_of(
            s,
            join("({} + {})", s, s),
            join("({} ? {} : {})", b, s, s),
            join("string({})", i),
            join("{}[0]", ls),
            join("string({})", by),
            join("string({})", b),
        ),
        "bytes": st.one_of(by, join("({} + {})", by, by), join("bytes({})", s)),
        "bool": st.one_of(
            b,
            join("({} && {})", b, b),
            join("({} || {})", b, b),
            join("!({})", b),
            join("({} < {})", i, i),
            join("({} == {})", i, i),
            join("({} != {})", s, s),
            join("({} >= {})", d, d),
            join("({} < {})", s, s),
            join("({} in {})", i, li),
            join("({} in {})", s, m),
            join("({} == {})", li, li),
            join("({} == {})", m, m),
            join("{}.all(x, x > {})", li, i),
            join("{}.exists(x, {} / x > 0)", li, i),
            join("has({}.c)", m),
            join("{}.exists_one(x, x == {})", li, i),
            join("{}.startsWith({})", s, s),
            join("{}.contains({})", s, s),
            join("{}.endsWith({})", s, s),
            join("({} < {})", t, t),
            join("({} == {})", n, n),
            join("({} < {})", by, by),
            join("(dyn({}) < {})", i, d),
            join("(dyn({}) <= {})", u, i),
            join("{}.matches('^[a-c]*$')", s),
            join("(dyn({}) == dyn({}))", i, d),
            join("(dyn({}) == dyn({}))", u, s),
        ),
        "time": st.one_of(t, join("({} + {})", t, n), join("({} - {})", t, n)),
        "duration": st.one_of(n, join("({} + {})", n, n), join("({} - {})", n, n), join("({} - {})", t, t)),
        "ints": st.one_of(
            li,
            join("({} + {})", li, li),
            join("{}.map(x, x + {})", li, i),
            join("{}.filter(x, x > {})", li, i),
            join("[{}, {}]", i, i),
        ),
        "strings": st.one_of(ls, join("({} + {})", ls, ls), join("{{{}: 1}}.map(k, k)", s), join("[{}]", s)),
        "map": st.one_of(m, join("{{'a': {}}}", i), join("{{'a': {}, 'c': {}}}", i, i)),
    }


ANY = st.one_of(*of_depth(3).values())
