"""Every function takes time linear in its arguments, and no more than what its cost and its work say.

Each case runs on an input and on one eight times as long. Quadratic work would take 64 times as long; what is faster
than the clock can tell is accepted. Functions whose arguments have no length are named in WITHOUT_LENGTH: a new
function must be entered there or get a case.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Iterator
from time import thread_time
from typing import Any

import pytest

from registry.budget import BudgetExceeded
from registry.cel.common.maps import Map
from registry.cel.common.types import DYN
from registry.cel.common.values import EVALUATION_ELEMENTS, EvalError, Optional, Value, evaluation_budget
from registry.cel.ext.table import GLOBALS, MEMBERS
from registry.cel.interpreter.code import COST
from registry.cel.interpreter.views import view_of
from registry.schema.model import from_json
from tests.cel.evaluation import program

SHORT, LONG = 32_000, 256_000

# At most so long for one unit of cost or work (a slow and busy machine is allowed for), and for any call at all.
SECONDS_PER_UNIT = 10e-6
FREE_SECONDS = 0.02


def a(n: int) -> str:
    return "a" * n


def texts(n: int) -> list[Value]:
    return [f"s{i}" for i in range(n // 4)]


def doubles(n: int) -> list[Value]:
    return [float(-i) for i in range(n // 4)]


def string_map(n: int) -> Map:
    return Map.of_strings({str(i): i for i in range(n // 8)})


def nested(depth: int) -> list[Value]:
    value: list[Value] = []
    for _ in range(depth):
        value = [value]
    return value


def pair(one: Callable[[int], Value]) -> Callable[[int], tuple[Value, Value]]:
    return lambda n: (one(n), one(n))


# What is evaluated, and x, or x and y, for a size.
CASES: dict[str, tuple[str, Callable[[int], Any]]] = {
    "charAt": ("x.charAt(size(x) - 1)", a),
    "indexOf: end": ("x.indexOf(y)", lambda n: (a(n), a(n // 2) + "b")),
    "indexOf: beginning": ("x.indexOf(y)", lambda n: (a(n), "b" + a(n // 2))),
    "indexOf: period": ("x.indexOf(y)", lambda n: ("ab" * (n // 2), "ab" * (n // 4) + "aab")),
    "indexOf: list": ("x.indexOf('z')", texts),
    "lastIndexOf: second": ("x.lastIndexOf(y)", lambda n: (a(n), "ab" + a(n // 2))),
    "lastIndexOf: beginning": ("x.lastIndexOf(y)", lambda n: (a(n), "b" + a(n // 2))),
    "lastIndexOf: offset": ("x.lastIndexOf(y, size(x) - 2)", lambda n: (a(n), "ab" + a(n // 2))),
    "lastIndexOf: list": ("x.lastIndexOf('z')", texts),
    "lowerAscii": ("x.lowerAscii()", lambda n: "É" * n),
    "upperAscii": ("x.upperAscii()", lambda n: "é" * n),
    "replace: long": ("x.replace(y, 'c')", lambda n: (a(n), a(n // 2) + "b")),
    "replace: short": ("x.replace('a', 'bb')", a),
    "replace: empty": ("x.replace('', 'b')", a),
    "replace: near": ("x.replace(y, 'b')", lambda n: ((a(50) + "b") * (n // 51), "b" + a(49))),
    "split: long": ("x.split(y)", lambda n: (a(n), a(n // 2) + "b")),
    "split: characters": ("x.split('')", a),
    "split: short": ("x.split('a')", a),
    "substring": ("x.substring(1)", a),
    "trim": ("x.trim()", lambda n: " " * n + "a"),
    "join": ("x.join(',')", texts),
    "strings.quote": ("strings.quote(x)", lambda n: '"' * n),
    "contains": ("x.contains(y)", lambda n: (a(n), a(n // 2) + "b")),
    "startsWith": ("x.startsWith(x)", a),
    "endsWith": ("x.endsWith(x)", a),
    "reverse": ("x.reverse()", texts),
    "plus: texts": ("x + x", a),
    "equal: texts": ("x == y", lambda n: (a(n) + "b", a(n) + "b")),
    # --- lists and maps
    "isSorted: texts": ("x.isSorted()", texts),
    "isSorted: doubles": ("x.isSorted()", lambda n: doubles(n)[::-1]),
    "min": ("x.min()", texts),
    "max": ("x.max()", texts),
    "sum": ("x.sum()", lambda n: list(range(n))),
    "sum: texts": ("x.sum()", texts),
    "sum: bytes": ("x.sum()", lambda n: [b"abcdefgh"] * n),
    "sum: lists": ("x.sum()", lambda n: [[1]] * n),
    "slice": ("x.slice(0, size(x))", texts),
    "flatten": ("x.flatten()", lambda n: [[i] for i in range(n // 4)]),
    "flatten: deep": ("x.flatten(1000)", lambda n: [*texts(n), nested(90)]),
    "lists.range": ("lists.range(x)", lambda n: n),
    "distinct: texts": ("x.distinct()", texts),
    "distinct: doubles": ("x.distinct()", doubles),
    "distinct: equal hashes": ("x.distinct()", lambda n: [i * ((1 << 61) - 1) % (1 << 63) for i in range(n // 4)]),
    "sort: texts": ("x.sort()", texts),
    "sort: doubles": ("x.sort()", doubles),
    "sortBy": ("x.sortBy(i, i)", texts),
    "sets.contains": ("sets.contains(x, x)", texts),
    "sets.equivalent": ("sets.equivalent(x, x)", texts),
    "sets.intersects": ("sets.intersects(x, y)", lambda n: (texts(n), ["q"] * n)),
    "includes": ("x.includes('q')", texts),
    "includes: lists": ("x.includes(y)", lambda n: ([texts(n)], texts(n))),
    "in: list": ("'q' in x", texts),
    "in: map": ("'q' in x", string_map),
    "plus: lists": ("x + x", texts),
    "equal: lists": ("x == y", pair(texts)),
    "equal: deep lists": ("x == y", pair(lambda n: [[i] for i in range(n // 4)])),
    "equal: nested lists": ("x == y", pair(lambda n: nested(min(n, 90)))),
    "equal: maps": ("x == y", pair(string_map)),
    "first": ("x.first()", texts),
    "last": ("x.last()", texts),
    "optional.unwrap": ("optional.unwrap(x)", lambda n: [Optional(i) for i in range(n // 4)]),
    "unwrapOpt": ("x.unwrapOpt()", lambda n: [Optional(i) for i in range(n // 4)]),
    "optional.ofNonZeroValue": ("optional.ofNonZeroValue(x)", texts),
    "size": ("size(x)", texts),
    "map": ("x.map(i, i)", texts),
    "filter": ("x.filter(i, true)", texts),
    "all": ("x.all(i, i.startsWith('s'))", texts),
    "exists_one": ("x.exists_one(i, i == 'a')", texts),
    "transformList": ("x.transformList(i, v, v)", texts),
    "transformMap": ("x.transformMap(i, v, v)", texts),
    "transformMapEntry": ("x.transformMapEntry(i, v, {v: i})", texts),
    # --- expressions
    "matches": ("x.matches('^(a|b)*$')", a),
    "matches: computed": ("x.matches(y)", lambda n: (a(n), "^(a|b)*$")),
    "find": ("x.find('b')", a),
    "find: end": ("x.find('b$')", lambda n: "ab" * n + "b"),
    "findAll": ("x.findAll('a')", a),
    "findAll: reading on": ("x.findAll('a[^b]*b|a')", a),
    "findAll: wide characters": ("x.findAll('é')", lambda n: "é" * n),
    # --- numbers
    "int": ("int(x)", lambda n: "1" * n),
    "int: zeros": ("int(x)", lambda n: "0" * n + "1"),
    "uint": ("uint(x)", lambda n: "1" * n),
    "double": ("double(x)", lambda n: "1" * n + "x"),
    "double: 4096": ("double(x)", lambda n: "1" * 4000 + "x"),
    "double: hexadecimal": ("double(x)", lambda n: "0x" + "1" * 4000 + "x"),
    "double: underscores": ("double(x)", lambda n: "1_" * 2000),
    "string": ("string(x)", a),
    "string: bytes": ("string(x)", lambda n: b"a" * n),
    "bytes": ("bytes(x)", lambda n: "é" * n),
    "bool": ("bool(x)", a),
    "quantity": ("quantity(x)", lambda n: "1" * n),
    "quantity: zeros": ("quantity(x)", lambda n: "0" * n),
    "quantity: 4096 zeros": ("quantity(x)", lambda n: "0" * 4000 + "x"),
    "isQuantity": ("isQuantity(x)", lambda n: "0" * n + "!"),
    "isQuantity: suffix": ("isQuantity(x)", lambda n: "E" * n + "!"),
    "add, compareTo": ("quantity(x).add(quantity(x)).compareTo(quantity('1n'))", lambda n: "1" * 4000 + "e4000"),
    "sub, isLessThan": ("quantity(x).sub(quantity('1n')).isLessThan(quantity(x))", lambda n: "1" * 4000 + "e4000"),
    "asApproximateFloat": ("quantity(x).asApproximateFloat()", lambda n: "1" * 4000 + ".5"),
    # --- times
    "timestamp": ("timestamp(x)", lambda n: f"2024-01-01T00:00:00.{'1' * n}Z"),
    "timestamp: no zone": ("timestamp(x)", lambda n: f"2024-01-01T00:00:00.{'1' * n}"),
    "duration": ("duration(x)", lambda n: "1" * n),
    "duration: parts": ("duration(x)", lambda n: "1h" * n),
    "getFullYear": ("timestamp('2024-01-01T00:00:00Z').getFullYear(x)", a),
    "getFullYear: offset": ("timestamp('2024-01-01T00:00:00Z').getFullYear(x)", lambda n: "1" * n + ":1"),
    # --- versions
    "semver": ("semver(x)", lambda n: "1.2.3-" + "a." * n + "a"),
    "isSemver": ("isSemver(x)", lambda n: "1.2." + "0" * n),
    "isSemver: normalized": ("isSemver(x, true)", lambda n: "1.2." + "0" * n + "1"),
    "isGreaterThan": (
        "semver(x).isGreaterThan(semver(y))",
        lambda n: ("1.2.3-" + "a." * n + "a", "1.2.3-" + "a." * n + "b"),
    ),
    # --- addresses
    "ip": ("ip(x)", lambda n: "1" * n),
    "isIP: groups": ("isIP(x)", lambda n: "1:" * n),
    "isIP: zone": ("isIP(x)", lambda n: "::%" + "1" * n),
    "cidr": ("cidr(x)", lambda n: "/" * n),
    "isCIDR": ("isCIDR(x)", lambda n: "1.1.1.1/" + "1" * n),
    "ip.isCanonical": ("ip.isCanonical(x)", lambda n: "::%" + "1" * n),
    "containsIP": ("cidr('::/0').containsIP(x)", lambda n: "1" * n),
    "containsCIDR": ("cidr('::/0').containsCIDR(x)", lambda n: "1" * n),
    # --- URLs
    "url": ("url(x)", lambda n: "http://h/" + a(n)),
    "isURL: escapes": ("isURL(x)", lambda n: "http://" + "%41" * n),
    "isURL: users": ("isURL(x)", lambda n: "http://" + "@" * n + "h"),
    "isURL: digits": ("isURL(x)", lambda n: "1" * n + ":"),
    "isURL: port": ("isURL(x)", lambda n: "http://h:" + "1" * n),
    "isURL: brackets": ("isURL(x)", lambda n: "http://[" + ":" * n + "]"),
    "getEscapedPath": ("url(x).getEscapedPath()", lambda n: "http://h/" + "é" * n),
    "getQuery": ("url(x).getQuery()", lambda n: "http://h/?" + "a=%41&" * n),
    "getHost": ("url(x).getHost()", lambda n: "http://" + "%E4" * n + ":80/"),
    "getHostname": ("url(x).getHostname()", lambda n: "http://" + "h" * n + ":80/"),
    "getPort": ("url(x).getPort()", lambda n: "http://h:" + "8" * n + "/"),
    "getScheme": ("url(x).getScheme()", lambda n: a(n) + "://h/"),
    "equal: URLs": ("url(x) == url(y)", pair(lambda n: "http://h/" + a(n))),
    # --- format
    "format: list": ("'%s'.format([x])", texts),
    "format: text": ("'%s'.format([x])", a),
    "format: map": ("'%s'.format([x])", string_map),
    "format: nested": ("'%s'.format([x])", lambda n: nested(min(n, 90))),
    "format: quoted": ("'%s'.format([[x]])", lambda n: 'é"' * n),
    "format: hexadecimal": ("'%x'.format([x])", a),
    "format: percents": ("x.format([1])", lambda n: "%%" * n),
    "format: precision": ("x.format([1.0])", lambda n: "%." + "9" * n + "f"),
    "format: many": ("x.format(y)", lambda n: ("%s" * (n // 4), ["a"] * (n // 4))),
    "format.named": ("format.named(x)", a),
    # --- many rounds, each of them with an error that is absorbed
    "rounds of double": ("lists.range(300000).exists(i, double(x) > 0.0)", lambda n: "1" * 4000 + "x"),
    "rounds of timestamp": (
        "lists.range(100000).exists(i, timestamp(x) == x)",
        lambda n: "2024-01-01T00:00:00." + a(n),
    ),
    "rounds of isURL": ("lists.range(100000).exists(i, isURL(x))", lambda n: "http://" + "%E4" * n + ":x"),
    "rounds of getQuery": (
        "[url(x)].all(u, lists.range(1000).all(i, u.getQuery() == {}))",
        lambda n: "http://h/?" + "a=b&" * n,
    ),
    "rounds of unwrap": ("lists.range(100000).all(i, optional.unwrap(x) == x)", lambda n: [Optional(1)] * n),
    "rounds of min": ("lists.range(100000).all(i, x.min() == 's0')", texts),
}
for _format in (
    "dns1123Label",
    "dns1123LabelPrefix",
    "dns1123Subdomain",
    "dns1123SubdomainPrefix",
    "dns1035Label",
    "dns1035LabelPrefix",
    "qualifiedName",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
):
    _expression = f"format.{_format}().validate(x)"
    CASES |= {
        f"format.{_format}: letters": (_expression, a),
        f"format.{_format}: dashes": (_expression, lambda n: "a" + "-" * n),
        f"format.{_format}: dots": (_expression, lambda n: "a." * n + "!"),
        f"format.{_format}: slashes": (_expression, lambda n: "/" * n),
        f"format.{_format}: escapes": (_expression, lambda n: "http://h/%41" * n),
        f"format.{_format}: digits": (_expression, lambda n: "2024-01-01T00:00:00." + "1" * n),
        f"format.{_format}: base64": (_expression, lambda n: "QUJD" * n + "="),
    }

# Functions of numbers, times, addresses, and parts of what another function has read.
WITHOUT_LENGTH = {
    "asInteger",
    "cel.@mapInsert",
    "dyn",
    "family",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "hasValue",
    "isGlobalUnicast",
    "isInteger",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isLoopback",
    "isUnspecified",
    "major",
    "masked",
    "minor",
    "optional.none",
    "optional.of",
    "patch",
    "prefixLength",
    "sign",
    "type",
    "value",
}

# Macros by the functions that they come down to.
MACROS = {"sortBy": "@sortByAssociatedKeys"}


def measured(expression: str, make: Callable[[int], Any], size: int) -> tuple[float, float]:
    """Seconds of processor time, and units of cost and work; infinitely many where the limit was reached."""
    arguments = make(size)
    x, y = arguments if isinstance(arguments, tuple) else (arguments, None)
    compiled = program(expression, {"x": (DYN, None), "y": (DYN, None)}).exact()
    best = float("inf")
    for _ in range(2):
        frame = compiled.frame(x, y)
        began = thread_time()
        try:
            with evaluation_budget() as budget:
                compiled.run(frame)
        except EvalError:
            pass
        except BudgetExceeded:
            best = min(best, thread_time() - began)
            return best, float("inf")
        best = min(best, thread_time() - began)
        if best > 1:
            break
    return best, frame[COST] + EVALUATION_ELEMENTS - budget.left


@pytest.fixture
def no_collections() -> Iterator[None]:
    """Python's collector looks at all that the tests of the process hold, which says nothing of a function's time.

    Nor is it run here by hand: two hundred times, that takes longer than all that is measured.
    """
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collections")
@pytest.mark.parametrize("name", CASES)
def test_time_grows_with_the_length(name: str) -> None:
    expression, make = CASES[name]
    for attempts_left in (2, 1, 0):  # other work on the machine may spoil a measurement, but not three
        short, _ = measured(expression, make, SHORT)
        assert short < 5
        long, units = measured(expression, make, LONG)
        assert long < 10
        if sys.gettrace() is not None:
            return  # `make coverage`: a tracer multiplies the time of Python's lines, up to this limit on a busy machine
        grows = f"{long / short:.0f} times as long for eight times the size, {long:.3f} s for {units} units"
        if long < max(FREE_SECONDS, 30 * short) and long < FREE_SECONDS + units * SECONDS_PER_UNIT:
            return
        assert attempts_left, grows


def test_every_function_has_a_case() -> None:
    called = {
        name
        for expression, _ in CASES.values()
        for word in re.findall(r"([\w.]+)\(", expression)
        for name in (word, word.rpartition(".")[2])
    }
    called |= {MACROS[name] for name in called & MACROS.keys()}
    functions = {
        name
        for table in (GLOBALS, MEMBERS)
        for (name, _), implementation in table.items()
        if implementation.__module__.startswith("registry.cel.")
    }  # policies add some of their own
    assert functions - called - WITHOUT_LENGTH == set()


@pytest.mark.parametrize(
    "form, text",
    [
        pytest.param("duration", "0" * 1_000_000 + "! 1h", id="duration"),
        pytest.param("duration", "1 h " * 250_000, id="durations"),
        pytest.param("byte", "QUJD" * 250_000, id="byte"),
        pytest.param("byte", "QUJD" * 250_000 + "!", id="invalid byte"),
        pytest.param("date", a(1_000_000), id="date"),
        pytest.param("date-time", "2024-01-01T00:00:00." + "1" * 1_000_000, id="date-time"),
    ],
)
def test_fields_of_a_format_are_read_in_linear_time(form: str, text: str) -> None:
    """Also when a loop names the field again and again."""
    view = view_of(from_json({"type": "object", "properties": {"a": {"type": "string", "format": form}}}))
    compiled = program("lists.range(100000).exists(i, self.a == self.a && false)", {"self": (DYN, view)})
    began = thread_time()
    with pytest.raises(BudgetExceeded):
        compiled.evaluate({"a": text})
    assert thread_time() - began < 5
