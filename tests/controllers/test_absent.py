from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from registry.api.dependents import DeletedObject
from registry.controllers.garbage.absent_owner_cache import AbsentOwnerCache
from registry.store.types import DomainId, Guards, Tenant, TenantId, TenantName, Uid

ACME = Tenant(TenantId(1), TenantName("acme"), DomainId(1), Guards(0, 0))
OTHER = Tenant(TenantId(2), TenantName("other"), DomainId(1), Guards(0, 0))
REFERENCE = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "a", "uid": "u"}

CASES: dict[str, tuple[dict[str, Any], str, bool]] = {
    "the same": ({}, "here", True),
    "another version of it": ({"apiVersion": "example.com/v2"}, "here", True),
    "another namespace": ({}, "there", False),
    "another name": ({"name": "b"}, "here", False),
    "another kind": ({"kind": "widget"}, "here", False),
    "another group": ({"apiVersion": "v1"}, "here", False),
    "another uid": ({"uid": "v"}, "here", False),
}


@pytest.mark.parametrize("changed, namespace, known", CASES.values(), ids=CASES)
def test_an_owner_is_identified_by_all_fields_of_its_reference(
    changed: dict[str, Any], namespace: str, known: bool
) -> None:
    absent = AbsentOwnerCache()
    absent.add(ACME, DeletedObject("example.com", "Widget", "here", "a", Uid("u")))
    assert absent.knows(ACME, namespace, REFERENCE | changed) is known
    assert not absent.knows(OTHER, namespace, REFERENCE | changed)


def test_a_cluster_scoped_owner_is_shared_by_all_namespaces() -> None:
    absent = AbsentOwnerCache()
    absent.add(ACME, DeletedObject("example.com", "Widget", "", "a", Uid("u")))
    assert absent.knows(ACME, "here", REFERENCE)
    assert absent.knows(ACME, "", REFERENCE)


def test_the_oldest_entries_are_evicted() -> None:
    absent = AbsentOwnerCache(limit=2)
    for uid in "uvw":
        absent.add(ACME, DeletedObject("example.com", "Widget", "", "a", Uid(uid)))
    assert [absent.knows(ACME, "", REFERENCE | {"uid": uid}) for uid in "uvw"] == [False, True, True]


def test_a_tenant_that_deletes_much_evicts_none_of_another() -> None:
    """Whose dependents were never collected then, if the definition of their owner was deleted, too."""
    absent = AbsentOwnerCache(limit=4)
    for uid in ("o1", "o2"):
        absent.add(OTHER, DeletedObject("example.com", "Widget", "", "a", Uid(uid)))
    for number in range(10):
        absent.add(ACME, DeletedObject("example.com", "Widget", "", "a", Uid(f"u{number}")))
    known = [uid for uid in ("o1", "o2") if absent.knows(OTHER, "", REFERENCE | {"uid": uid})]
    assert known == ["o1", "o2"]
    known = [f"u{number}" for number in range(10) if absent.knows(ACME, "", REFERENCE | {"uid": f"u{number}"})]
    assert known == ["u8", "u9"]
    absent.add(OTHER, DeletedObject("example.com", "Widget", "", "a", Uid("o3")))
    assert not absent.knows(OTHER, "", REFERENCE | {"uid": "o1"})  # the least recently used of all, of as many


def test_the_owners_of_deleted_objects_are_not_kept() -> None:
    """A hundred objects of 20,000 owners each kept 600 MB."""
    absent = AbsentOwnerCache()
    tracemalloc.start()
    try:
        for number in range(100):
            owners = [{**REFERENCE, "uid": f"{number}-{i}"} for i in range(200)]
            absent.add(ACME, DeletedObject("example.com", "Widget", "", "a", Uid(f"u{number}"), owners))
        del owners
        assert tracemalloc.get_traced_memory()[0] < 200_000
    finally:
        tracemalloc.stop()
    assert absent.knows(ACME, "", REFERENCE | {"uid": "u1"})
