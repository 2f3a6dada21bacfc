"""Code for comprehensions: the loops of all, exists, exists_one, map, filter, and any other.

The parser has expanded the macros; this module recognizes their shapes, so that each compiles to a specialized loop
without an accumulator. Any other shape is evaluated step by step.

Errors follow cel-go interpreter/interpretable.go (evalFold): an error in a round is kept as the accumulator, and the
loop continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from registry.cel.common.values import NO_SUCH_OVERLOAD, EvalError, Value
from registry.cel.ext.table import LIST_COST
from registry.cel.interpreter.code import Code, Counting, Frame, Run, costing, value_of
from registry.cel.interpreter.ranges import Range, range_of
from registry.cel.interpreter.view import View
from registry.cel.syntax.ast import (
    ADD,
    CONDITIONAL,
    EQUALS,
    LOGICAL_AND,
    LOGICAL_NOT,
    LOGICAL_OR,
    NOT_STRICTLY_FALSE,
    Call,
    Comprehension,
    Expr,
    Ident,
    ListExpr,
    Literal,
)


class Compiler(Protocol):
    """The methods of compile.py's compiler that this module and operators.py use."""

    counting: Counting

    def compile(self, node: Expr) -> Code: ...
    def bind(self, name: str, view: View | None) -> int: ...
    def unbind(self, name: str) -> None: ...


Rounds = Callable[[Frame], Iterable[Value]]


def compile_loop(compiler: Compiler, node: Comprehension) -> Code:
    if isinstance(node.loop_condition, Literal) and node.loop_condition.value is False:
        return _binding(compiler, node)
    over = range_of(compiler.compile(node.iter_range), bool(node.iter_var2))
    for recognise in (_all_or_exists, _exists_one, _map_or_filter):
        code = recognise(compiler, node, over)
        if code is not None:
            return code
    return _any_loop(compiler, node, over)


class _Scope:
    """The slots of one loop's variables while its body is compiled."""

    def __init__(self, compiler: Compiler, node: Comprehension, over: Range) -> None:
        self.compiler, self.node, self.over = compiler, node, over
        self.first = compiler.bind(node.iter_var, over.first)
        self.second = compiler.bind(node.iter_var2, over.second) if over.pairs else 0

    def __enter__(self) -> _Scope:
        return self

    def __exit__(self, *_: object) -> None:
        if self.over.pairs:
            self.compiler.unbind(self.node.iter_var2)
        self.compiler.unbind(self.node.iter_var)

    def rounds(self, per_round: int) -> Rounds:
        """The start of the loop, in which a round costs `per_round`: `for frame[self.first] in rounds(frame)`.

        It evaluates the range when it is called, and assigns the second variable, if there is one, in each round.
        """
        begin, items, second = self.compiler.counting.rounds(per_round), self.over.items, self.second
        if not second:
            return lambda frame: begin(frame, items(frame))
        return lambda frame: (first for first, frame[second] in begin(frame, items(frame)))


# --- all, exists


def _all_or_exists(compiler: Compiler, node: Comprehension, over: Range) -> Code | None:
    """Matches `accu && p` while accu, or `accu || p` while !accu."""
    step, init = node.loop_step, node.accu_init
    if not (isinstance(init, Literal) and isinstance(step, Call) and _is_name(node.result, node.accu_var)):
        return None
    decisive = step.function == LOGICAL_OR
    if step.function not in (LOGICAL_AND, LOGICAL_OR) or init.value is not (not decisive):
        return None
    condition = node.loop_condition
    if not isinstance(condition, Call) or condition.function != NOT_STRICTLY_FALSE:
        return None
    tested = condition.args[0]
    if decisive:
        if not isinstance(tested, Call) or tested.function != LOGICAL_NOT:
            return None
        tested = tested.args[0]
    if not _is_name(tested, node.accu_var) or not _is_name(step.args[0], node.accu_var):
        return None
    with _Scope(compiler, node, over) as scope:
        body = compiler.compile(step.args[1])
    rounds = scope.rounds((4 if decisive else 3) + body.cost)
    return costing(Code(_deciding(scope.first, rounds, value_of(body), decisive), over.cost), 1)


def _deciding(slot: int, rounds: Rounds, body: Run, decisive: bool) -> Run:
    otherwise = not decisive

    def run(frame: Frame) -> Value:
        failure: str | None = None
        for frame[slot] in rounds(frame):  # noqa: B020 - the slot is the loop's variable, here and below
            try:
                value = body(frame)
            except EvalError as error:
                failure = failure or str(error)
                continue
            if value is decisive:
                return decisive
            if value is not otherwise:
                failure = failure or NO_SUCH_OVERLOAD
        if failure is not None:
            raise EvalError(failure)
        return otherwise

    return run


# --- exists_one


def _exists_one(compiler: Compiler, node: Comprehension, over: Range) -> Code | None:
    """Matches `p ? accu + 1 : accu`, then `accu == 1`."""
    step, result = node.loop_step, node.result
    if not (
        isinstance(step, Call)
        and step.function == CONDITIONAL
        and isinstance(result, Call)
        and result.function == EQUALS
        and _is_name(result.args[0], node.accu_var)
        and isinstance(node.accu_init, Literal)
        and _is_name(step.args[2], node.accu_var)
        and _is_true(node.loop_condition)
    ):
        return None
    more = step.args[1]
    if not (
        isinstance(more, Call)
        and more.function == ADD
        and _is_name(more.args[0], node.accu_var)
        and isinstance(more.args[1], Literal)
    ):
        return None
    with _Scope(compiler, node, over) as scope:
        body = compiler.compile(step.args[0])
    slot, rounds, test = scope.first, scope.rounds(2 + body.cost), value_of(body)

    def run(frame: Frame) -> bool:
        count, failure = 0, None
        for frame[slot] in rounds(frame):  # noqa: B020
            try:
                value = test(frame)
            except EvalError as error:
                failure = str(error)  # a later error replaces an earlier one, as in cel-go
                continue
            if value is True:
                count += 1
            elif value is not False:
                failure = NO_SUCH_OVERLOAD
        if failure is not None:
            raise EvalError(failure)
        return count == 1

    return costing(Code(run, over.cost), 2)


# --- map, filter


def _map_or_filter(compiler: Compiler, node: Comprehension, over: Range) -> Code | None:
    """Matches `accu + [t]`, or `p ? accu + [t] : accu`."""
    step = node.loop_step
    if not (
        isinstance(node.accu_init, ListExpr)
        and not node.accu_init.elements
        and isinstance(step, Call)
        and _is_name(node.result, node.accu_var)
        and _is_true(node.loop_condition)
    ):
        return None
    test: Expr | None = None
    if step.function == CONDITIONAL and _is_name(step.args[2], node.accu_var):
        test, grown = step.args[0], step.args[1]
    else:
        grown = step
    if not (
        isinstance(grown, Call)
        and grown.function == ADD
        and _is_name(grown.args[0], node.accu_var)
        and isinstance(grown.args[1], ListExpr)
        and len(grown.args[1].elements) == 1
        and not grown.args[1].optional_indices
    ):
        return None
    with _Scope(compiler, node, over) as scope:
        tested = compiler.compile(test) if test is not None else None
        element = compiler.compile(grown.args[1].elements[0])
    cost = element.cost + LIST_COST + 2  # the accumulator, a list with the element, and their sum
    if tested is None:
        rounds = scope.rounds(cost)
    else:
        element = compiler.counting.branch(costing(element, LIST_COST + 1))
        rounds = scope.rounds(1 + tested.cost + element.cost)
    run = _collecting(scope.first, rounds, None if tested is None else value_of(tested), value_of(element))
    return costing(Code(run, over.cost), 1)


def _collecting(slot: int, rounds: Rounds, test: Run | None, element: Run) -> Run:
    def run_filter(frame: Frame) -> list[Value]:
        assert test is not None
        result: list[Value] = []
        failure: str | None = None
        for frame[slot] in rounds(frame):  # noqa: B020
            try:
                value = test(frame)
            except EvalError as error:
                failure = str(error)  # a later error replaces an earlier one, as in cel-go
                continue
            if value is True:
                if failure is None:
                    try:
                        result.append(element(frame))
                    except EvalError as error:
                        failure = str(error)
            elif value is not False:
                failure = NO_SUCH_OVERLOAD
        if failure is not None:
            raise EvalError(failure)
        return result

    def run_map(frame: Frame) -> list[Value]:
        result: list[Value] = []
        for frame[slot] in rounds(frame):  # noqa: B020
            result.append(element(frame))
        return result

    return run_map if test is None else run_filter


# --- the rest


def _binding(compiler: Compiler, node: Comprehension) -> Code:
    """A loop without rounds binds a name to a value, as optMap and sortBy do."""
    init = compiler.compile(node.accu_init)
    slot = compiler.bind(node.accu_var, None)
    result = compiler.compile(node.result)
    compiler.unbind(node.accu_var)
    bound, run = value_of(init), value_of(result)

    def bind(frame: Frame) -> Value:
        frame[slot] = bound(frame)
        return run(frame)

    return costing(Code(bind, init.cost + result.cost), LIST_COST)


def _any_loop(compiler: Compiler, node: Comprehension, over: Range) -> Code:
    """Evaluates step by step with an accumulator. An error in a step becomes the accumulator and is raised on reads."""
    init = compiler.compile(node.accu_init)
    accumulator = compiler.bind(node.accu_var, None)
    with _Scope(compiler, node, over) as scope:
        condition, advancing = compiler.compile(node.loop_condition), compiler.compile(node.loop_step)
    result = compiler.compile(node.result)
    compiler.unbind(node.accu_var)
    slot, rounds = scope.first, scope.rounds(condition.cost + advancing.cost)
    start, test, advance, finish = value_of(init), value_of(condition), value_of(advancing), value_of(result)

    def run(frame: Frame) -> Value:
        begun = rounds(frame)  # The range is evaluated before the accumulator, so its error is the one that is raised.
        frame[accumulator] = start(frame)
        for frame[slot] in begun:
            if test(frame) is False:
                break
            frame[accumulator] = advance(frame)
        return finish(frame)

    return Code(run, over.cost + init.cost + result.cost)


def _is_name(node: Expr, name: str) -> bool:
    return isinstance(node, Ident) and node.name == name


def _is_true(node: Expr) -> bool:
    return isinstance(node, Literal) and node.value is True
