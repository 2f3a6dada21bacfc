"""Tables of built-in kinds: columns and cells."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from registry.api.tables.builtin import builtin_table

NOW = datetime.datetime(2026, 11, 21, 12, 0, 0, tzinfo=datetime.UTC).timestamp()
META = {"name": "a", "creationTimestamp": "2026-11-21T11:00:00Z"}
RBAC, ADMISSION = "rbac.authorization.k8s.io", "admissionregistration.k8s.io"
BINDING = {
    "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "x"},
    "subjects": [
        {"kind": "User", "name": "u"},
        {"kind": "ServiceAccount", "namespace": "n", "name": "s"},
        {"kind": "User", "name": "v"},
        {"kind": "Group", "name": "g"},
    ],
}


@pytest.mark.parametrize(
    "group, kind, obj, cells",
    [
        pytest.param(
            "", "ConfigMap", {"data": {"x": "1", "y": "2"}, "binaryData": {"z": ""}}, ["a", 3, "60m"], id="config map"
        ),
        pytest.param("", "ConfigMap", {"data": None}, ["a", 0, "60m"], id="empty config map"),
        pytest.param("", "Secret", {"type": "Opaque", "data": {"x": ""}}, ["a", "Opaque", 1, "60m"], id="secret"),
        pytest.param("", "ServiceAccount", {}, ["a", "60m"], id="service account"),
        pytest.param("", "Namespace", {"status": {"phase": "Active"}}, ["a", "Active", "60m"], id="namespace"),
        pytest.param(
            "coordination.k8s.io", "Lease", {"spec": {"holderIdentity": "me"}}, ["a", "me", "60m"], id="lease"
        ),
        pytest.param("coordination.k8s.io", "Lease", {"spec": {}}, ["a", "", "60m"], id="lease of nobody"),
        pytest.param(
            "",
            "ResourceQuota",
            {"status": {"hard": {"requests.cpu": "1", "pods": "3", "limits.cpu": "2"}, "used": {"pods": "1"}}},
            ["a", "pods: 1/3, requests.cpu: 0/1", "limits.cpu: 0/2", "60m"],
            id="quota",
        ),
        pytest.param("", "ResourceQuota", {}, ["a", "", "", "60m"], id="quota without status"),
        pytest.param(RBAC, "RoleBinding", BINDING, ["a", "Role/x", "60m", "u, v", "g", "n/s"], id="binding"),
        pytest.param(
            RBAC,
            "ClusterRoleBinding",
            {"roleRef": {"kind": "ClusterRole", "name": "x"}},
            ["a", "ClusterRole/x", "60m", "", "", ""],
            id="binding of nobody",
        ),
        pytest.param(RBAC, "Role", {}, ["a", "2026-11-21T11:00:00Z"], id="role"),
        pytest.param(
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            {
                "spec": {
                    "group": "g",
                    "scope": "Cluster",
                    "names": {"kind": "K", "shortNames": ["x", "y"]},
                    "versions": [
                        {"name": "v2", "served": True, "storage": True},
                        {"name": "v1", "served": True, "storage": False},
                        {"name": "v0", "served": False, "storage": False},
                    ],
                },
                "status": {"conditions": [{"type": "Established", "status": "True"}]},
            },
            ["a", "Cluster", "v1,v2(storage)", "2026-11-21T11:00:00Z", "g", "K", "x,y", True],
            id="definition",
        ),
        pytest.param(
            ADMISSION,
            "ValidatingAdmissionPolicy",
            {"spec": {"validations": [{}, {}], "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}},
            ["a", 2, "v1/ConfigMap", "60m"],
            id="policy",
        ),
        pytest.param(
            ADMISSION,
            "MutatingAdmissionPolicy",
            {"spec": {"mutations": [{}]}},
            ["a", 1, "<unset>", "60m"],
            id="mutating policy",
        ),
        pytest.param(
            ADMISSION,
            "ValidatingAdmissionPolicyBinding",
            {"spec": {"policyName": "p", "paramRef": {"namespace": "n", "name": "c"}}},
            ["a", "p", "n/c", "60m"],
            id="policy binding",
        ),
        pytest.param(
            ADMISSION,
            "MutatingAdmissionPolicyBinding",
            {"spec": {"policyName": "p", "paramRef": {"name": "c"}}},
            ["a", "p", "*/c", "60m"],
            id="policy binding to a parameter without a namespace",
        ),
        pytest.param(
            ADMISSION,
            "ValidatingAdmissionPolicyBinding",
            {
                "spec": {
                    "policyName": "p",
                    "paramRef": {
                        "namespace": "n",
                        "selector": {
                            "matchLabels": {"b": "1", "a": "2"},
                            "matchExpressions": [{"key": "k", "operator": "In", "values": ["x", "y"]}],
                        },
                    },
                }
            },
            [
                "a",
                "p",
                "&LabelSelector{MatchLabels:map[string]string{a: 2,b: 1,},MatchExpressions:[]LabelSelectorRequirement{"
                "LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},},}",
                "60m",
            ],
            id="policy binding by a selector",
        ),
        pytest.param(
            ADMISSION,
            "MutatingAdmissionPolicyBinding",
            {"spec": {"policyName": "p"}},
            ["a", "p", "<unset>", "60m"],
            id="policy binding without parameters",
        ),
        pytest.param(ADMISSION, "MutatingWebhookConfiguration", {"webhooks": [{}, {}]}, ["a", 2, "60m"], id="webhooks"),
        pytest.param(
            "",
            "Event",
            {
                "lastTimestamp": "2026-11-21T11:59:00Z",
                "firstTimestamp": "2026-11-21T11:58:00Z",
                "type": "Normal",
                "reason": "R",
                "message": " m\n",
                "count": 2,
                "source": {"component": "c", "host": "h"},
                "involvedObject": {"kind": "Widget", "name": "w", "fieldPath": "spec.x"},
            },
            ["60s", "Normal", "R", "widget/w", "spec.x", "c, h", "m", "2m", 2, "a"],
            id="event",
        ),
        pytest.param(
            "events.k8s.io",
            "Event",
            {
                "eventTime": "2026-11-21T11:58:00.000000Z",
                "type": "Warning",
                "reason": "R",
                "note": "n",
                "reportingController": "c",
                "reportingInstance": "i",
                "regarding": {"kind": "Widget"},
                "series": {"count": 5, "lastObservedTime": "2026-11-21T11:59:59.000000Z"},
            },
            ["1s", "Warning", "R", "widget", "", "c, i", "n", "2m", 5, "a"],
            id="event in the other group",
        ),
        pytest.param(
            "",
            "Event",
            {
                "series": {},
                "lastTimestamp": "2026-11-21T11:59:00Z",
                "firstTimestamp": "2026-11-21T11:58:00Z",
                "count": 2,
            },
            ["<unknown>", "", "", "", "", "", "", "2m", 0, "a"],
            id="event with an empty series",
        ),
        pytest.param(
            "storagemigration.k8s.io",
            "StorageVersionMigration",
            {"spec": {"resource": {"group": "g.example.com", "resource": "widgets"}}},
            ["a", "widgets.g.example.com", "Unknown"],
            id="migration",
        ),
        pytest.param(
            "storagemigration.k8s.io",
            "StorageVersionMigration",
            {"spec": {"resource": {"group": "", "resource": "configmaps"}}},
            ["a", "configmaps", "Unknown"],
            id="migration of the core group",
        ),
        pytest.param(
            "storagemigration.k8s.io",
            "StorageVersionMigration",
            {
                "spec": {"resource": {"group": "", "resource": "configmaps"}},
                "status": {
                    "conditions": [
                        {"type": "Running", "status": "False"},
                        {"type": "Succeeded", "status": "True"},
                        {"type": "Other", "status": "True"},
                    ]
                },
            },
            ["a", "configmaps", "Succeeded"],
            id="migration that succeeded",
        ),
        pytest.param("", "Event", {}, ["<unknown>", "", "", "", "", "", "", "<unknown>", 1, "a"], id="empty event"),
    ],
)
def test_cells(group: str, kind: str, obj: dict[str, Any], cells: list[Any]) -> None:
    table = builtin_table(group, kind)
    assert table.row({"metadata": META, **obj}, NOW)["cells"] == cells
    assert len(table.columns) == len(cells)


@pytest.mark.parametrize(
    "group, kind, names, wide",
    [
        ("", "ConfigMap", "Name Data Age", ""),
        ("", "Secret", "Name Type Data Age", ""),
        (RBAC, "RoleBinding", "Name Role Age", "Users Groups ServiceAccounts"),
        (RBAC, "ClusterRole", "Name Created-At", ""),
        ("", "LimitRange", "Name Created-At", ""),
        ("", "Event", "Last-Seen Type Reason Object Message", "Subobject Source First-Seen Count Name"),
    ],
)
def test_columns(group: str, kind: str, names: str, wide: str) -> None:
    columns = builtin_table(group, kind).columns
    by_priority = {
        priority: " ".join(column["name"].replace(" ", "-") for column in columns if column["priority"] == priority)
        for priority in (0, 1)
    }
    assert by_priority == {0: names, 1: wide}
    assert all(column["description"] for column in columns)


def test_rows_of_empty_tables() -> None:
    assert builtin_table("", "ConfigMap").document([], {})["rows"] == []
    assert builtin_table(RBAC, "Role").document([], {})["rows"] is None
