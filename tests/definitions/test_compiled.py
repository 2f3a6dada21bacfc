from __future__ import annotations

from registry.definitions.compiled import compile_definition, schema_digest, schema_json
from registry.definitions.conversion import RULES
from registry.definitions.model import Column, Scale
from tests.definitions.crds import crd, established, prepared, version

SCHEMA = {"type": "object", "properties": {"spec": {"type": "object"}}}


def test_a_definition() -> None:
    body = crd(
        versions=[
            version("v1beta1", SCHEMA, storage=False, deprecated=True, deprecationWarning="old"),
            version(
                "v1",
                SCHEMA,
                subresources={
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.r", "statusReplicasPath": ".status.r"},
                },
                additionalPrinterColumns=[{"name": "A", "type": "date", "jsonPath": ".a", "priority": 1}],
                selectableFields=[{"jsonPath": ".spec.a"}],
            ),
            version("v2", SCHEMA, storage=False, served=False),
        ],
        names={"plural": "widgets", "kind": "Widget", "shortNames": ["w"], "categories": ["all"]},
    )
    found = compile_definition(established(body))
    assert (found.name, found.namespaced, found.uid, found.revision) == ("widgets.g.example.com", True, "u-1", 7)
    assert (found.names.singular, found.names.list_kind, found.names.short_names) == ("widget", "WidgetList", ("w",))
    assert list(found.versions) == ["v2", "v1", "v1beta1"]
    assert found.storage_version == "v1"
    assert found.established
    assert not found.terminating
    assert found.conversion == {"strategy": "None"}
    v1 = found.versions["v1"]
    assert v1.columns == (Column("A", "date", ".a", priority=1),)
    assert v1.scale == Scale(".spec.r", ".status.r")
    assert (v1.status, v1.selectable_fields) == (True, (".spec.a",))
    assert found.versions["v1beta1"].deprecation_warning == "old"


def test_accepted_names_are_served_instead_of_requested_ones() -> None:
    stored = established(crd())
    stored["spec"] = {**stored["spec"], "names": stored["spec"]["names"] | {"singular": "other"}}
    assert compile_definition(stored).names.singular == "widget"


def test_before_any_name_is_accepted() -> None:
    found = compile_definition(prepared(crd()))
    assert (found.names.plural, found.names.kind, found.established) == ("widgets", "Widget", False)


def test_schemas_are_kept_until_the_spec_changes() -> None:
    stored = established(crd(SCHEMA))
    stored["metadata"]["generation"] = 1
    before = compile_definition(stored)
    moved = {**stored, "metadata": {**stored["metadata"], "resourceVersion": "8", "annotations": {RULES: "[]"}}}
    after = compile_definition({**moved, "status": {**stored["status"], "conditions": []}}, before)
    assert after.versions is before.versions
    assert (after.revision, after.established, after.conversion_rules) == (8, False, "[]")
    versions = [version("v1", SCHEMA, deprecated=True)]
    changed = {**moved, "spec": {**stored["spec"], "versions": versions}}
    assert (
        compile_definition({**changed, "metadata": {**moved["metadata"], "uid": "u-2"}}, before)
        .versions["v1"]
        .deprecated
    )
    assert (
        compile_definition({**changed, "metadata": {**moved["metadata"], "generation": 2}}, before)
        .versions["v1"]
        .deprecated
    )


def test_equal_schemas_are_compiled_once() -> None:
    one, other = compile_definition(established(crd(SCHEMA))), compile_definition(established(crd(dict(SCHEMA))))
    assert one.versions["v1"].schema() is other.versions["v1"].schema()
    assert schema_json(one.versions["v1"]) == SCHEMA
    assert schema_digest(one.versions["v1"]) == schema_digest(other.versions["v1"])


def test_other_schemas_have_other_digests() -> None:
    one, other = compile_definition(established(crd(SCHEMA))), compile_definition(established(crd({"type": "object"})))
    assert schema_digest(one.versions["v1"]) != schema_digest(other.versions["v1"])
