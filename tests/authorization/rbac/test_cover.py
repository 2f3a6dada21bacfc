"""Who has what: `uncovered` agrees with asking for each single thing, and its texts are the original's."""

from __future__ import annotations

import itertools
from time import thread_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.authorization.rbac.cover import compact, compact_text, missing_rules, missing_texts
from registry.authorization.rbac.model import EVERYTHING, PolicyRule
from registry.authorization.rbac.policy import CompiledRole
from registry.budget import UNITS, Budget, BudgetExceeded

GET = PolicyRule(("get",), ("g",), ("widgets",))

COVERED: dict[str, tuple[list[PolicyRule], PolicyRule, int]] = {
    "the same": ([GET], GET, 0),
    "a verb more": ([GET], PolicyRule(("get", "delete"), ("g",), ("widgets",)), 1),
    "two verbs of two resources": ([], PolicyRule(("get", "list"), ("g",), ("a", "b")), 4),
    "in pieces": (
        [GET, PolicyRule(("list",), ("g",), ("widgets",))],
        PolicyRule(("get", "list"), ("g",), ("widgets",)),
        0,
    ),
    "every verb by each is not every verb": ([GET], PolicyRule(("*",), ("g",), ("widgets",)), 1),
    "of all": (list(EVERYTHING), PolicyRule(("x",), ("y",), ("z/w",), ("n",)), 0),
    "a subresource of all": (
        [PolicyRule(("get",), ("*",), ("*/scale",))],
        PolicyRule(("get",), ("g",), ("widgets/scale",)),
        0,
    ),
    "not the resource": ([PolicyRule(("get",), ("*",), ("*/scale",))], GET, 1),
    "a name of all": ([GET], PolicyRule(("get",), ("g",), ("widgets",), ("a",)), 0),
    "all of a name": ([PolicyRule(("get",), ("g",), ("widgets",), ("a",))], GET, 1),
    "another name": (
        [PolicyRule(("get",), ("g",), ("widgets",), ("a",))],
        PolicyRule(("get",), ("g",), ("widgets",), ("a", "b")),
        1,
    ),
    "a path below": ([PolicyRule(("get",), paths=("/a*",))], PolicyRule(("get",), paths=("/a/b", "/abc")), 0),
    "a path": ([PolicyRule(("get",), paths=("/a",))], PolicyRule(("get",), paths=("/a/b",)), 1),
}


@pytest.mark.parametrize("have, wanted, count", COVERED.values(), ids=COVERED)
def test_covering(have: list[PolicyRule], wanted: PolicyRule, count: int) -> None:
    assert len(missing_rules(have, [wanted])) == count


def test_texts_are_joined_by_resource_and_sorted() -> None:
    missing = missing_rules(
        [], [PolicyRule(("list", "get"), ("g",), ("b", "a"), ("n",)), PolicyRule(("get",), paths=("/x",))]
    )
    assert missing_texts(missing) == [
        '{APIGroups:["g"], Resources:["a"], ResourceNames:["n"], Verbs:["list" "get"]}',
        '{APIGroups:["g"], Resources:["b"], ResourceNames:["n"], Verbs:["list" "get"]}',
        '{NonResourceURLs:["/x"], Verbs:["get"]}',
    ]
    assert compact_text(PolicyRule()) == "{}"


def test_an_endless_role_is_refused_in_bounded_time() -> None:
    many = tuple(map(str, range(400)))
    assert missing_rules(list(EVERYTHING), [PolicyRule(many, many, ("pods",))])


VERBS, GROUPS, RESOURCES, NAMES = ("get", "list"), ("", "g"), ("a", "a/scale", "b/scale"), ("", "n")


def _texts(*values: str) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True).map(tuple)


RULES = st.lists(
    st.builds(
        PolicyRule,
        _texts(*VERBS, "*"),
        _texts(*GROUPS, "*"),
        _texts(*RESOURCES, "*", "*/scale"),
        st.just(()) | st.just(("n",)),
    ),
    max_size=3,
)


@settings(max_examples=150, deadline=None)
@given(RULES, RULES)
def test_covered_rules_grant_nothing_new(have: list[PolicyRule], wanted: list[PolicyRule]) -> None:
    """Whatever the wanted rules allow, and `uncovered` does not name, the rules that one has allow too."""
    had, new = CompiledRole(have), CompiledRole(wanted)
    missing = CompiledRole(missing_rules(have, wanted))
    for verb, group, resource, name in itertools.product(VERBS, GROUPS, RESOURCES, NAMES):
        plural, _, subresource = resource.partition("/")
        question = (verb, group, plural, subresource, name)
        if new.allows_resource(*question) and not missing.allows_resource(*question):
            assert had.allows_resource(*question), question


@settings(max_examples=150, deadline=None)
@given(RULES, RULES)
def test_reported_missing_rights_are_missing_or_wildcards(have: list[PolicyRule], wanted: list[PolicyRule]) -> None:
    had = CompiledRole(have)
    for part in missing_rules(have, wanted):
        plural, _, subresource = part.resources[0].partition("/")
        plain = "*" not in (*part.verbs, *part.groups, plural)
        if plain:
            name = part.names[0] if part.names else "a name that no rule has"
            assert not had.allows_resource(part.verbs[0], part.groups[0], plural, subresource, name)


def test_a_right_that_is_missing_twice_is_named_twice() -> None:
    wanted = [PolicyRule(("get", "list"), ("g",), ("r",)), PolicyRule(("list",), ("g",), ("r", "s"))]
    assert missing_texts(missing_rules([], wanted)) == [
        '{APIGroups:["g"], Resources:["r"], Verbs:["get" "list" "list"]}',
        '{APIGroups:["g"], Resources:["s"], Verbs:["list"]}',
    ]


def test_missing_rights_of_many_verbs_are_found_in_linear_time() -> None:
    wanted = [PolicyRule(tuple(f"v{i}" for i in range(50_000)), ("g",), ("r",))]
    began = thread_time()
    (joined,) = compact(missing_rules([], wanted))
    assert thread_time() - began < 3
    assert len(joined.verbs) == 50_000


def test_comparing_is_charged_to_the_request() -> None:
    have = [PolicyRule(("get",), (f"g{i}",), ("r",)) for i in range(1000)]
    wanted = [PolicyRule(("get",), (f"h{i}",), ("r",)) for i in range(10_000)]
    began = thread_time()
    # A tenth of a request's: tracing takes ten times as long.
    with Budget(UNITS // 10), pytest.raises(BudgetExceeded):
        missing_rules(have, wanted)
    assert thread_time() - began < 3
