"""Mutations of JSON: of one node of a tree, by what stands there.

Every function leaves its argument alone and gives a new tree.
"""

from __future__ import annotations

import copy
import random
from typing import Any

from tests.fuzz.values import EXPRESSIONS, NUMBERS, SMALL, TEXTS

Json = Any
Step = str | int
# Keys whose values are texts of a language of their own.
_EXPRESSIONS = frozenset({"rule", "expression", "messageExpression", "valueExpression", "fieldPath"})
_DEEP = 150


def paths_of(tree: Json, limit: int = 3000) -> list[tuple[Step, ...]]:
    """The paths of the nodes, the root among them; of large trees the first."""
    found: list[tuple[Step, ...]] = [()]
    waiting: list[tuple[tuple[Step, ...], Json]] = [((), tree)]
    while waiting and len(found) < limit:
        path, node = waiting.pop()
        children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, child in children:
            found.append((*path, key))
            waiting.append(((*path, key), child))
    return found


def at(tree: Json, path: tuple[Step, ...]) -> Json:
    for step in path:
        tree = tree[step]
    return tree


def with_node(tree: Json, path: tuple[Step, ...], value: Json) -> Json:
    if not path:
        return value
    new = copy.copy(tree)
    new[path[0]] = with_node(tree[path[0]], path[1:], value)
    return new


def without(tree: Json, path: tuple[Step, ...]) -> Json:
    """The tree without a node; the root cannot be taken out."""
    parent, key = at(tree, path[:-1]), path[-1]
    if isinstance(parent, dict):
        return with_node(tree, path[:-1], {k: v for k, v in parent.items() if k != key})
    return with_node(tree, path[:-1], [v for i, v in enumerate(parent) if i != key])


class TreeMutator:
    """`pool` is what other requests had under the same key: what is put there has the right form more often."""

    def __init__(self, rng: random.Random, pool: dict[str, list[Json]]) -> None:
        self._rng = rng
        self._pool = pool
        self._keys = sorted(pool) or ["a"]

    def mutated(self, tree: Json) -> Json:
        for _ in range(self._rng.choice((1, 1, 1, 2, 3))):
            tree = self._once(tree)
        return tree

    def value(self) -> Json:
        rng = self._rng
        match rng.randrange(5):
            case 0:
                return rng.choice(NUMBERS)
            case 1:
                return copy.deepcopy(rng.choice(SMALL))
            case 2:
                return self._nested()
            case _:
                return rng.choice(TEXTS)

    def _once(self, tree: Json) -> Json:
        rng = self._rng
        path = rng.choice(paths_of(tree))
        node = at(tree, path)
        key = next((step for step in reversed(path) if isinstance(step, str)), "")
        choice = rng.random()
        if choice < 0.2 and path:
            return without(tree, path)
        if choice < 0.4 and self._pool.get(key):
            return with_node(tree, path, copy.deepcopy(rng.choice(self._pool[key])))
        if choice < 0.55 and isinstance(node, dict | list):
            return with_node(tree, path, self._grown(node))
        if choice < 0.7:
            return with_node(tree, path, self._changed(node, key))
        if choice < 0.75:
            return with_node(tree, path, rng.choice(([node], {"a": node}, [node, node], str(node)[:2000])))
        return with_node(tree, path, self.value())

    def _grown(self, node: Json) -> Json:
        rng = self._rng
        if isinstance(node, list):
            more = copy.deepcopy(rng.choice(node)) if node and rng.random() < 0.6 else self.value()
            times = rng.choice((1, 1, 2, 50))
            position = rng.randrange(len(node) + 1)
            return [*node[:position], *([more] * times), *node[position:]]
        key = rng.choice(self._keys) if rng.random() < 0.7 else rng.choice(TEXTS)
        known = self._pool.get(key)
        if node and rng.random() < 0.2:  # under another name
            old = rng.choice(list(node))
            return {key if name == old else name: value for name, value in node.items()}
        return {**node, key: copy.deepcopy(rng.choice(known)) if known and rng.random() < 0.7 else self.value()}

    def _changed(self, node: Json, key: str) -> Json:
        rng = self._rng
        if isinstance(node, bool):
            return not node
        if isinstance(node, int | float):
            return rng.choice(
                (
                    node + 1,
                    -node,
                    node * 2**33,
                    str(node)[:50],
                    float(node) if abs(node) < 1e300 else 0,
                    rng.choice(NUMBERS),
                )
            )
        if isinstance(node, str):
            if key in _EXPRESSIONS or rng.random() < 0.05:
                return expression(rng, node)
            return text(rng, node)
        if isinstance(node, list):
            return rng.sample(node, len(node)) if rng.random() < 0.5 else node[:1]
        return self.value()

    def _nested(self) -> Json:
        rng = self._rng
        value: Json = rng.choice((1, "a", None, {}))
        for _ in range(rng.choice((3, 30, _DEEP))):
            value = [value] if rng.random() < 0.5 else {rng.choice(("a", "properties", "items", "x", "not")): value}
        return value


def text(rng: random.Random, old: str) -> str:
    """A text near another one."""
    place = rng.randrange(len(old) + 1)
    match rng.randrange(6):
        case 0:
            return old[:place] + rng.choice(TEXTS)[:300] + old[place:]
        case 1:
            return old[:place] + old[place + 1 :]
        case 2:
            return old.upper() if rng.random() < 0.5 else old.title()
        case 3:
            return (old * rng.choice((2, 40, 400)))[:20000]
        case 4:
            return old[:place] + rng.choice("\x00 ./-_:%*\u00fc\U0001f600\ud800") + old[place:]
        case _:
            return rng.choice(TEXTS)


def expression(rng: random.Random, old: str) -> str:
    """A CEL expression made of another one."""
    other = rng.choice(EXPRESSIONS)
    match rng.randrange(7):
        case 0:
            return other
        case 1:
            return f"({old}) {rng.choice(('&&', '||', '+', '==', '<', 'in', '-', '*', '/', '%', '?'))} ({other})"
        case 2:
            return f"[{old}].{rng.choice(('all', 'exists', 'exists_one', 'map', 'filter', 'size'))}(x, {other})"
        case 3:
            function = rng.choice(("!", "-", "size", "string", "int", "has", "type", "dyn", "quantity", "duration"))
            return f"{function}({old})"
        case 4:
            tokens = old.split(" ")
            tokens[rng.randrange(len(tokens))] = rng.choice((*other.split(" "), "self", "x", "1", "''", "(", ")", "."))
            return " ".join(tokens)
        case 5:
            return " && ".join([old or "true"] * rng.choice((2, 30, 300)))[:20000]
        case _:
            return text(rng, old)
