"""Mutations of requests: path, query, headers, method, body and how it is encoded."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import cbor2
import yaml

from registry.codec.protobuf.envelope import encode_object
from tests.fuzz.calls import PREFIX, Call
from tests.fuzz.sources import ELSEWHERE
from tests.fuzz.trees import Step, TreeMutator, at, paths_of, text
from tests.fuzz.values import HEADERS, METHODS, QUERIES, SEGMENTS, SMALL, SUBRESOURCES, TENANTS, TEXTS

Json = Any
_PATCHES = (
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
    "application/strategic-merge-patch+json",
)
_WRITES = ("POST", "PUT", "PATCH", "DELETE")
_YAML_ODDITIES = (
    "&a [*a]",
    "a: &b [1]\nc: *b\n<<: {d: 1}",
    "!!python/object:os.system {}",
    "!!binary YQ==",
    "a: 1\na: 2",
    "---\na: 1\n---\nb: 2",
    "? {a: b}\n: c",
    "? [1]\n: 2",
    "1: 2\ntrue: 3\nnull: 4",
    "a: 0o17\nb: 1_000\nc: 12:30:45\nd: 2024-01-01",
    "a: .inf\nb: .nan",
    "%YAML 9.9\n---\na: b",
    "\ta: b",
    "a: |\n  b\n c",
    "- a\nb: c",
    "{a: [b, {c: ",
    "*x",
    "a: !!float x",
    "a: !!int 1e5",
    "\x00",
    "[" * 2000,
    "{a: " * 500,
    "x: &x [" + "*x," * 10 + "]",
)
_JSON_ODDITIES = (
    b"",
    b" ",
    b"null",
    b"[]",
    b"0",
    b'""',
    b"{",
    b"}",
    b"{}{}",
    b'{"a":1,"a":2}',
    b"\xef\xbb\xbf{}",
    b"\xff\xfe{\x00}\x00",
    b"[" * 20000,
    b'{"a":' * 5000,
    b'{"a":1e999}',
    b'{"a":-}',
    b'{"a":01}',
    b'{"a":NaN}',
    b"{'a':1}",
    b'{"a":"\\ud800"}',
    b'{"a":"\xff"}',
    b'{"a":' + b"9" * 5000 + b"}",
    b'{"a":"' + b"x" * 100000 + b'"}',
    b'{"\\u0000":"\\u0000"}',
    b"k8s\x00",
    b"k8s\x00\x0a\xff",
)
# Tags (of times, big numbers, shared values, sets), simple values, lengths without end or beyond what follows, floats.
_CBOR_ODDITIES = (
    b"\xc1\x1a\x7f\xff\xff\xff",
    b"\xc2\x49\x01" + b"\x00" * 8,
    b"\xd8\x1c\x81\xd8\x1d\x00",
    b"\xd9\x01\x02\x82\x01\x01",
    b"\xf7",
    b"\xe0",
    b"\xf8\xff",
    b"\xff",
    b"\x9f\x01",
    b"\x5f\x41a\x41b\xff",
    b"\x9b\x7f" + b"\xff" * 7,
    b"\xbb\xff" + b"\xff" * 7,
    b"\xf9\x7e\x00",
    b"\xfb\x7f\xf0" + b"\x00" * 6,
    b"\x1b" + b"\xff" * 8,
    b"\x3b" + b"\xff" * 8,
    b"\x81" * 500,
    b"\xa2\x61a\x01\x61a\x02",
    b"\xa1\x80\x01",
    b"\x62\xc3\x28",
)


class Mutator:
    """Makes requests of requests. `noted` ones are remembered: their parts come up in later ones."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._pool: dict[str, list[Json]] = {}
        self._calls: list[Call] = []

    def note(self, call: Call) -> None:
        """Bounded: of a key a few dozen values are kept, of requests some hundreds."""
        self._calls = [*self._calls[-300:], call]
        for path in paths_of(call.body, 400):
            if path and isinstance(path[-1], str):
                known = self._pool.setdefault(path[-1], [])
                value = at(call.body, path)
                if len(known) < 40 and value not in known:
                    known.append(value)

    def mutated(self, call: Call) -> Call:
        for _ in range(self.rng.choice((1, 1, 1, 2, 2, 3))):
            call = self._once(call)
        return call

    def _once(self, call: Call) -> Call:
        has_body = call.body is not None and call.raw is None
        ways = [(self._path, 1.5), (self._query, 3), (self._header, 2), (self._method, 0.5), (self._other, 0.5)]
        if has_body:
            ways += [(self._body, 12), (self._encoding, 2), (self._spliced, 0.7)]
        if call.method in _WRITES and call.method != "DELETE":
            ways += [(self._oddity, 0.5)]
        if call.method in ("PUT", "PATCH", "GET", "DELETE"):
            ways += [(self._patch, 2)]
        if call.method == "DELETE":
            ways += [(self._delete_options, 2)]
        way = self.rng.choices([w for w, _ in ways], [weight for _, weight in ways])[0]
        return way(call)

    # -- where to
    def _path(self, call: Call) -> Call:
        rng = self.rng
        parts = call.path.split("/")
        place = rng.randrange(1, len(parts)) if len(parts) > 1 else 0
        match rng.randrange(8):
            case 0:
                parts[place] = rng.choice(SEGMENTS)
            case 1:
                parts[place] = rng.choice(TEXTS)
            case 2:
                parts[place] = text(rng, parts[place])
            case 3:
                del parts[place]
            case 4:
                parts.insert(place, rng.choice(SEGMENTS))
            case 5 | 6:
                parts.append(rng.choice(SUBRESOURCES))
            case _ if call.path.startswith(PREFIX):
                parts[2] = rng.choice(TENANTS)
            case _:
                parts.append("")
        return replace(call, path="/".join(parts))

    def _method(self, call: Call) -> Call:
        return replace(call, method=self.rng.choice(METHODS))

    def _query(self, call: Call) -> Call:
        rng = self.rng
        query = list(call.query)
        if query and rng.random() < 0.4:
            place = rng.randrange(len(query))
            name, value = query[place]
            query[place] = (name, text(rng, value))
            if rng.random() < 0.2:
                del query[place]
            return replace(call, query=tuple(query))
        name = rng.choice(tuple(QUERIES))
        values = QUERIES[name]
        query.append((name, rng.choice(values) if rng.random() < 0.8 else rng.choice(TEXTS)))
        return replace(call, query=tuple(query))

    def _header(self, call: Call) -> Call:
        name = self.rng.choice((*HEADERS, "accept", "accept", "accept", "content-type"))
        return call.with_header(name, self.rng.choice(HEADERS[name]))

    def _other(self, call: Call) -> Call:
        """Another request altogether, of which a part may be mutated next."""
        return self.rng.choice((*ELSEWHERE, *self._calls[-40:]))

    # -- with what
    def _trees(self) -> TreeMutator:
        return TreeMutator(self.rng, self._pool)

    def _body(self, call: Call) -> Call:
        return replace(call, body=self._trees().mutated(call.body))

    def _spliced(self, call: Call) -> Call:
        others = [other for other in self._calls if other.body is not None]
        return replace(call, body=self.rng.choice(others).body) if others else call

    def _encoding(self, call: Call) -> Call:
        rng = self.rng
        data = call.content() or b""
        match rng.randrange(7):
            case 6:
                return self._cbor(call)
            case 0:
                return replace(call, raw=_yaml(call.body)).with_header("content-type", "application/yaml")
            case 1:
                return replace(call, raw=self._protobuf(call.body)).with_header(
                    "content-type", "application/vnd.kubernetes.protobuf"
                )
            case 2 if data:
                return replace(call, raw=data[: rng.randrange(len(data))])
            case 3 if data:
                place = rng.randrange(len(data))
                return replace(call, raw=data[:place] + bytes([rng.randrange(256)]) + data[place + 1 :])
            case 4:
                return replace(
                    call, raw=json.dumps(call.body, indent=rng.choice((0, 1, 400))).encode("utf-8", "replace")
                )
            case _:
                place = rng.randrange(len(data) + 1)
                return replace(call, raw=data[:place] + rng.choice(_JSON_ODDITIES)[:200] + data[place:])

    def _cbor(self, call: Call) -> Call:
        """The body as CBOR, some bytes of it changed; an apply where a patch is sent."""
        rng = self.rng
        try:
            data = bytearray(cbor2.dumps(call.body))
        except Exception:  # lone surrogates
            data = bytearray(cbor2.dumps({}))
        for _ in range(rng.choice((0, 0, 1, 3))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        for _ in range(rng.choice((0, 0, 0, 1))):
            place = rng.randrange(len(data) + 1)
            data[place:place] = rng.choice(_CBOR_ODDITIES)
        media = "application/apply-patch+cbor" if call.method == "PATCH" else "application/cbor"
        made = replace(call, raw=bytes(data)).with_header("content-type", media)
        return made.with_header("accept", rng.choice(("application/cbor", "application/json", "application/cbor-seq")))

    def _protobuf(self, body: Json) -> bytes:
        """A built-in kind's message where there is one, some bytes of it changed."""
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}}
        try:
            data = bytearray(encode_object(body))
        except Exception:  # what is no such kind by its types
            data = bytearray(encode_object(lease))
        for _ in range(self.rng.choice((0, 0, 1, 3))):
            data[self.rng.randrange(4, len(data))] = self.rng.randrange(256)
        return bytes(data)

    def _oddity(self, call: Call) -> Call:
        if self.rng.random() < 0.5:
            return replace(call, raw=self.rng.choice(_JSON_ODDITIES))
        return replace(call, raw=self.rng.choice(_YAML_ODDITIES).encode()).with_header(
            "content-type", "application/yaml"
        )

    def _delete_options(self, call: Call) -> Call:
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "gracePeriodSeconds": 0,
            "propagationPolicy": "Background",
            "preconditions": {"uid": "a", "resourceVersion": "1"},
            "dryRun": ["All"],
            "orphanDependents": True,
        }
        chosen = {key: value for key, value in options.items() if self.rng.random() < 0.5}
        return replace(call, body=self._trees().mutated(chosen)).with_header("content-type", "application/json")

    # -- patches
    def _patch(self, call: Call) -> Call:
        """A patch of what the path names, out of the body that there was or any other."""
        rng = self.rng
        known = [other.body for other in self._calls if isinstance(other.body, dict)]
        body: Json = call.body if isinstance(call.body, dict) else rng.choice(known) if known else {"metadata": {}}
        kind = rng.choice(_PATCHES)
        query = call.query
        if kind == _PATCHES[1]:
            body = [self._operation(body) for _ in range(rng.choice((0, 1, 1, 2, 5, 60)))]
        elif kind == _PATCHES[2] and rng.random() < 0.9:
            query = (
                *query,
                ("fieldManager", rng.choice(("m", "n", "kubectl"))),
                *((("force", "true"),) * rng.randrange(2)),
            )
        if kind == _PATCHES[3] and rng.random() < 0.5:
            directive = rng.choice(
                (
                    "$patch",
                    "$retainKeys",
                    "$setElementOrder/a",
                    "$deleteFromPrimitiveList/finalizers",
                    "$setElementOrder/ports",
                    "$setElementOrder/finalizers",
                )
            )
            body = {**body, directive: rng.choice(("delete", "replace", "merge", "a", *SMALL))}
        body = self._trees().mutated(body) if rng.random() < 0.8 else body
        made = replace(call, method="PATCH", query=query, body=body, raw=None)
        return made.with_header("content-type", kind)

    def _operation(self, body: Json) -> Json:
        rng = self.rng
        operation: dict[str, Json] = {
            "op": rng.choice(("add", "remove", "replace", "move", "copy", "test", "test", "x")),
            "path": self._pointer(body),
        }
        if rng.random() < 0.8:
            operation["value"] = self._trees().value()
        if operation["op"] in ("move", "copy") or rng.random() < 0.1:
            operation["from"] = self._pointer(body)
        return operation

    def _pointer(self, body: Json) -> str:
        rng = self.rng
        path = rng.choice(paths_of(body, 400))
        pointer = "".join("/" + _escaped(step) for step in path)
        return pointer + rng.choice(
            ("", "", "", "", "/-", "/0", "/a", "/", "/-1", "/99999999999999999999", "/a/b/c", "~")
        )


def _escaped(step: Step) -> str:
    return str(step).replace("~", "~0").replace("/", "~1")


def _yaml(body: Json) -> bytes:
    try:
        return yaml.dump(body, Dumper=yaml.SafeDumper, allow_unicode=True).encode("utf-8", "replace")
    except (yaml.YAMLError, ValueError, RecursionError):
        return json.dumps(body).encode("utf-8", "replace")
