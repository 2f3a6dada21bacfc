"""Type checking of a policy's expressions against the matched resources: warnings for its status. Pure.

Only validations and their message expressions are checked, and only for resources that rules name explicitly: a `*` has
no type. Follows apiserver pkg/admission/plugin/policy/validating/typechecking.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Final, NamedTuple

from registry.admission.environment import Scope, check_text
from registry.cel.checker.schema_types import declare
from registry.cel.common import types
from registry.cel.common.types import Type
from registry.schema.model import Structural
from registry.schema.objectmeta.structural import OBJECT_META, TEXT

Json = Mapping[str, Any]

# The kinds checked for one rule (maxTypesToCheck).
_MAX_KINDS: Final = 10


class TypedKind(NamedTuple):
    """A kind with the schema of its objects."""

    group: str
    version: str
    kind: str
    schema: Structural

    @property
    def title(self) -> str:
        return f"{self.group}/{self.version}, Kind={self.kind}"


# Takes group, version and plural of a resource and returns its kind; None where there is none.
Resolve = Callable[[str, str, str], TypedKind | None]


def type_warnings(policy: Json, resolve: Resolve, params: TypedKind | None) -> list[dict[str, str]]:
    """`[{"fieldRef": "spec.validations[0].expression", "warning": "g/v1, Kind=K: ERROR: ..."}]`.

    `params` is the kind of the parameters, None without parameters or where it is unknown.
    """
    spec = policy.get("spec") or {}
    kinds = _kinds(spec, resolve)
    scopes = [(kind, _scope(spec, kind, params)) for kind in kinds]
    warnings = []
    for i, validation in enumerate(spec.get("validations") or ()):
        for name in ("expression", "messageExpression"):
            text = validation.get(name)
            lines = _warning(text, scopes) if text else ""
            if lines:
                warnings.append({"fieldRef": f"spec.validations[{i}].{name}", "warning": lines})
    return warnings


def _kinds(spec: Json, resolve: Resolve) -> list[TypedKind]:
    """The kinds that the rules name, sorted; wildcards, subresources and unknown resources are left out."""
    kinds: dict[tuple[str, str, str], TypedKind] = {}
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        groups, versions = rule.get("apiGroups") or (), rule.get("apiVersions") or ()
        if any("*" in text for text in (*groups, *versions)):
            continue
        resources = sorted(text for text in rule.get("resources") or () if "*" not in text and "/" not in text)
        count = 0
        for group, version, resource in product(sorted(groups), sorted(versions), resources):
            kind = resolve(group, version, resource)
            if kind is None:
                continue
            kinds[kind[:3]] = kind
            count += 1
            if count == _MAX_KINDS:
                return [kinds[key] for key in sorted(kinds)]
    return [kinds[key] for key in sorted(kinds)]


def _scope(spec: Json, kind: TypedKind, params: TypedKind | None) -> Scope:
    scope = Scope(
        params=spec.get("paramKind") is not None,
        object=_type_of(kind),
        params_type=_type_of(params) if params is not None else types.DYN,
    )
    known: dict[str, Type] = {}
    for variable in spec.get("variables") or ():
        checked, issues = check_text(variable.get("expression") or "", replace(scope, variables=dict(known)))
        known[variable.get("name") or ""] = types.DYN if issues else checked.result
    return replace(scope, variables=known)


def _warning(text: str, scopes: Sequence[tuple[TypedKind, Scope]]) -> str:
    lines = []
    for kind, scope in scopes:
        try:
            issues = check_text(text, scope)[1]
        except RecursionError:
            continue
        if issues:
            lines.append(f"{kind.title}: {issues}\n")
    return "\n".join(lines)


def _type_of(kind: TypedKind) -> Type:
    schema = replace(
        kind.schema, properties={**kind.schema.properties, "apiVersion": TEXT, "kind": TEXT, "metadata": OBJECT_META}
    )
    declared = declare(schema, True, kind.kind)
    return declared.type if declared is not None else types.DYN
