"""The report of a stored definition: its shape, its indexed fields, and what was left out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from registry.codec.json_encode import encode_canonical
from registry.definitions.priority import priority_key
from registry.reporting import marking
from registry.reporting.facets import Documents, documents_for, facets_of
from registry.reporting.fields import has_ready, shape_of
from registry.schema.model import from_json
from registry.store.reporting.model import Facet, Path, Report, ReportKind, shape_to_json

READY = Facet("ready", ("status", "conditions"), ReportKind.BOOLEAN)


def report_of(crd: Mapping[str, Any]) -> Report:
    """The report of the storage version, which objects are stored at. `crd` is a stored definition, decoded."""
    spec = crd["spec"]
    annotations = marking.relevant(crd["metadata"].get("annotations"))
    version = next(v for v in spec["versions"] if v["storage"])
    accepted = (crd.get("status") or {}).get("acceptedNames") or {}
    schema = from_json((version.get("schema") or {}).get("openAPIV3Schema") or {})
    marks = marking.paths(annotations.get(marking.SENSITIVE, ""))
    shape, left_out = shape_of(
        schema,
        namespaced=spec["scope"] == "Namespaced",
        marks=marks,
        printed=_printed_fields(version.get("additionalPrinterColumns") or ()),
    )
    wanted = wanted_fields(spec["versions"], annotations)
    facets, refused = facets_of(schema, wanted, marks)
    reasons = [*left_out, *(f"an index of {'.'.join(path)}" for path in refused)]
    digest = hashlib.blake2b(encode_canonical(shape_to_json(shape)).encode(), digest_size=16).hexdigest()
    return Report(
        resource=crd["metadata"]["name"],
        plural=accepted.get("plural") or spec["names"]["plural"],
        group=spec["group"],
        version=version["name"],
        digest=digest,
        shape=shape,
        facets=(*facets, READY) if has_ready(schema) else facets,
        reason="left out: " + "; ".join(reasons) if reasons else "",
        enabled=not marking.is_off(annotations),
        wants_condition=marking.wants_condition(annotations),
        layout=documents_for(schema, wanted, marks).layout,
    )


def documents_of(crd: Mapping[str, Any]) -> Documents:
    """The Documents that build the documents of its objects."""
    spec = crd["spec"]
    annotations = marking.relevant(crd["metadata"].get("annotations"))
    version = next(v for v in spec["versions"] if v["storage"])
    schema = from_json((version.get("schema") or {}).get("openAPIV3Schema") or {})
    return documents_for(
        schema, wanted_fields(spec["versions"], annotations), marking.paths(annotations.get(marking.SENSITIVE, ""))
    )


def wanted_fields(versions: Sequence[Mapping[str, Any]], annotations: Mapping[str, str]) -> list[Path]:
    """The fields to index: first those of the annotation, then the selectable fields, in the order of api/served.py."""
    fields = list(marking.paths(annotations.get(marking.INDEXES, "")))
    for version in sorted(versions, key=lambda v: priority_key(v["name"])):
        for selectable in version.get("selectableFields") or ():
            fields.extend(marking.paths(selectable["jsonPath"]))
    return list(dict.fromkeys(fields))


def _printed_fields(columns: Sequence[Mapping[str, Any]]) -> dict[Path, str]:
    """The names of printer columns that show a field unchanged, by its path."""
    printed: dict[Path, str] = {}
    for column in columns:
        text = column.get("jsonPath") or ""
        if not any(c in text for c in "[]*?@(),"):
            for path in marking.paths(text):
                printed.setdefault(path, column.get("name") or "")
    return printed
