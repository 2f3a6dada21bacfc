"""Flags of `registry query` that are turned into groups and aggregates of a Query's spec."""

from __future__ import annotations

from typing import Any, cast

import pytest

from registry.cli.aggregates import FLAGS, is_aggregate, spec_of
from registry.cli.api_client import ApiClient
from registry.cli.errors import CommandError
from registry.cli.resource_names import NamedResource

BACKUPS = NamedResource("demo.example.com", "v1", "backups", "Backup", True, frozenset({"backups"}))
NO_CLIENT = cast(ApiClient, None)


def typed(**flags: Any) -> dict[str, Any]:
    none = dict.fromkeys([*FLAGS, "selector", "where", "order_by", "limit", "offset"])
    return {**none, **flags}


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "groups": ({"group_by": ["spec.a,spec.b", "team=metadata.labels['a,b']"]},
               {"groupBy": [{"field": "spec.a"}, {"field": "spec.b"}, {"name": "team", "field": "metadata.labels['a,b']"}]}),
    "a key": ({"group_by": ["metadata.labels['app.kubernetes.io/name']"]},
              {"groupBy": [{"name": "app_kubernetes_io_name", "field": "metadata.labels['app.kubernetes.io/name']"}]}),
    "a type": ({"group_by": ["spec.mem:Quantity"]}, {"groupBy": [{"field": "spec.mem", "type": "Quantity"}]}),
    "joined": ({"group_by": ["joined.spec.tier"]}, {"groupBy": [{"field": "spec.tier", "from": "Joined"}]}),
    "count": ({"aggregate": ["count()"]}, {"aggregates": [{"name": "count", "function": "Count"}]}),
    "sum": ({"aggregate": ["Sum(spec.size)"]}, {"aggregates": [{"name": "sum_size", "function": "Sum", "field": "spec.size"}]}),
    "named": ({"aggregate": ["x=distinct(spec.a)"]},
              {"aggregates": [{"name": "x", "function": "CountDistinct", "field": "spec.a"}]}),
    "percentile": ({"aggregate": ["p99.9(spec.a:Duration)"]},
                   {"aggregates": [{"name": "p99_9_a", "function": "Percentile", "percentile": 99.9, "field": "spec.a",
                                    "type": "Duration"}]}),
    "having alone": ({"having": "row.count > 1"}, {"aggregates": [{"name": "count", "function": "Count"}], "having": "row.count > 1"}),
    "the rest": ({"aggregate": ["count()"], "where": "true", "selector": "a=b", "order_by": "count", "limit": 3, "offset": 2},
                 {"aggregates": [{"name": "count", "function": "Count"}], "filter": "true", "labelSelector": "a=b",
                  "orderBy": "count", "limit": 3, "offset": 2}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_flags_become_a_spec(case: str) -> None:
    flags, expected = CASES[case]
    assert is_aggregate(typed(**flags))
    found = spec_of(typed(**flags), BACKUPS, "default", NO_CLIENT)
    resource = {"group": "demo.example.com", "version": "v1", "resource": "backups", "namespaces": ["default"]}
    assert found == {**resource, **expected}


WRONG: dict[str, dict[str, Any]] = {
    "no function": {"aggregate": ["spec.size"]},
    "an unknown one": {"aggregate": ["mode(spec.size)"]},
    "two joins": {"join": "a", "join_owner": "b"},
    "a filter of no join": {"join_filter": "true"},
    "no field": {"group_by": [""]},
}


@pytest.mark.parametrize("case", WRONG)
def test_invalid_flags(case: str) -> None:
    with pytest.raises(CommandError):
        spec_of(typed(**WRONG[case]), BACKUPS, "", NO_CLIENT)


def test_flags_of_lists_are_not_those_of_aggregates() -> None:
    assert not is_aggregate(typed(where="true", order_by="spec.size"))
