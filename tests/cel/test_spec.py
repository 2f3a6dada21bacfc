"""The simple tests of the CEL specification, against the parser, the checker and the evaluator.

Where Kubernetes' CEL differs from the specification, or is configured to, the cases are named below with the reason.
Run with `-s` to see the share that passes.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from registry.cel.checker.checker import check
from registry.cel.common.values import EvalError, equal, type_of
from registry.cel.interpreter.compile import compile_program
from registry.cel.syntax.parser import parse
from tests.cel.spec_suite import LEFT_OUT, Case, cases, folder

# Patterns of names, and why these cases are not met.
DIFFERENT = {
    "string_ext/format/.*": "format prints as the strings library of version 2, for American English",
    "string_ext/reverse/.*": "Kubernetes has no reverse() for strings",
    "string_ext/value_errors/(last)?indexof_out_of_range": "cel-go answers -1 beyond the end",
    "fields/.*/map_value_repeat_key.*": "cel-go lets the last of equal keys count",
    "fields/.*/map_key_float": "cel-go accepts doubles as keys",
    "optionals/.*/map_(null_entry_no_such_key|present_key_invalid_field)": "cel-go's option for errors of presence tests is off in Kubernetes",
    "namespace/namespace_shadowing/.*": "variables of rules have no dots in their names",
}

FOLDER = folder()
SUITES = sorted(path for path in FOLDER.glob("*.textproto") if path.stem not in LEFT_OUT) if FOLDER else []


@pytest.mark.skipif(not SUITES, reason="no checkout of google/cel-spec: set CEL_SPEC")
@pytest.mark.parametrize("suite", SUITES, ids=lambda path: path.stem)
def test_suite(suite: Path) -> None:
    counts: Counter[str] = Counter()
    failed = []
    for case in cases(suite):
        if isinstance(case, str):
            counts["not applicable"] += 1
        elif passes(case):
            counts["passed"] += 1
        elif any(re.fullmatch(pattern, case.name) for pattern in DIFFERENT):
            counts["different in Kubernetes"] += 1
        else:
            failed.append(case.name)
    applicable = sum(counts.values()) - counts["not applicable"] + len(failed)
    print(f"\n{suite.stem}: {counts['passed']} of {applicable} pass, {dict(counts)}")
    assert failed == []


def passes(case: Case) -> bool:
    """Cases that the checker refuses are evaluated anyway: most are about values of mixed types."""
    parsed = parse(case.expression)
    if parsed.root is None:
        return case.fails
    checked = check(parsed, case.variables)
    try:
        value = compile_program(checked, dict.fromkeys(case.bindings)).evaluate(*case.bindings.values())
    except EvalError:
        return case.fails
    if case.fails:
        return bool(checked.issues)
    if type_of(value).name != type_of(case.expected).name:
        return False
    return equal(value, case.expected) or (value != value and case.expected != case.expected)
