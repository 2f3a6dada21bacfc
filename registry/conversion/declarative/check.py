"""Validation of a definition's conversion rules against its schemas, on every write of the definition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from registry.conversion.declarative.model import PLACE, REFUSE, Link, read_rules
from registry.conversion.declarative.shapes import check_conversion
from registry.definitions.conversion import RULES
from registry.schema.field import FieldError, forbidden, invalid
from registry.schema.model import from_json

Json = Mapping[str, Any]


def validate_rules(crd: Json) -> list[FieldError]:
    """The errors of a v1 definition's rules annotation, none where it has none. The definition itself must be valid."""
    text = (crd["metadata"].get("annotations") or {}).get(RULES)
    if text is None:
        return []
    spec = crd["spec"]
    if (spec.get("conversion") or {}).get("strategy") == "Webhook":
        return [forbidden(PLACE, "spec.conversion.strategy is Webhook: either the webhook converts, or the rules do")]
    links, errors = read_rules(text)
    if errors:
        return errors
    schemas = {v["name"]: (v.get("schema") or {}).get("openAPIV3Schema") for v in spec["versions"]}
    errors = _validate_versions(links, schemas) or _validate_tree(links, list(schemas))
    if errors:
        return errors
    for link in links:
        errors += _validate_link(link, schemas)
    return errors


def _validate_versions(links: list[Link], schemas: Json) -> list[FieldError]:
    errors = []
    for link in links:
        for name, version in (("from", link.forward.source), ("to", link.forward.target)):
            if version not in schemas:
                errors.append(invalid(f"{link.where}.{name}", version, "spec.versions has no such version"))
            elif schemas[version] is None:
                errors.append(invalid(f"{link.where}.{name}", version, "the version has no schema"))
    return errors


def _validate_tree(links: list[Link], versions: list[str]) -> list[FieldError]:
    """Checks that the links form a tree: every version is reached from every other, by exactly one path."""
    group = {version: version for version in versions}
    errors = []
    for link in links:
        one, other = group[link.forward.source], group[link.forward.target]
        if one == other:
            why = "makes a cycle: there is another path between these versions"
            errors.append(invalid(link.where, f"{link.forward.source} to {link.forward.target}", why))
        group = {version: one if of == other else of for version, of in group.items()}
    first = group[versions[0]]
    alone = [version for version in versions if group[version] != first]
    if alone:
        errors.append(invalid(f"{PLACE}.conversions", alone, f"dead end: no path leads there from {versions[0]}"))
    return errors


def _validate_link(link: Link, schemas: Json) -> list[FieldError]:
    errors, losses = _check_link(link, schemas)
    if losses and link.loss == REFUSE and not errors:
        errors.append(
            forbidden(
                f"{link.where}.loss",
                "data would be lost (say Keep to keep it in an annotation, or Drop): " + "; ".join(losses),
            )
        )
    return errors


def losses_of(crd: Json) -> list[str]:
    """The losses of a valid definition's rules, whether acknowledged or not."""
    links, _ = read_rules((crd["metadata"].get("annotations") or {}).get(RULES) or "")
    schemas = {v["name"]: v["schema"]["openAPIV3Schema"] for v in crd["spec"]["versions"]}
    return [loss for link in links for loss in _check_link(link, schemas)[1]]


def _check_link(link: Link, schemas: Json) -> tuple[list[FieldError], list[str]]:
    """The errors and the losses of both directions."""
    errors: list[FieldError] = []
    losses: list[str] = []
    for conversion in (link.forward, link.back):
        source, target = conversion.source, conversion.target
        verdict = check_conversion(conversion, schemas[source], schemas[target], from_json(schemas[source]))
        errors += verdict.errors
        losses += [f"from {source} to {target}: {loss}" for loss in verdict.losses]
    return errors, losses
