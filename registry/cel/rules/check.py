"""Checks all x-kubernetes-validations of a definition's schema when the definition is written.

`check_rules(schema, path)` walks the decoded JSON of an openAPIV3Schema and returns the errors in kube-apiserver's
order: first those of the entries themselves (blank rules, unknown reasons, field paths that do not exist); then,
children before their parents, rules that do not compile, cost too much, or use oldSelf where there is none; last the
total cost of all rules. The depth of the schema must have been bounded.

Follows ValidateCustomResourceDefinitionOpenAPISchema and cel_validation.go of apiextensions-apiserver
pkg/apis/apiextensions/validation at v0.36.2, but visits properties by name, where kube-apiserver has a random order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from registry.cel.checker.cost_ranges import LIMIT
from registry.cel.checker.schema_types import MAX_REQUEST_BYTES, Declared, declare
from registry.cel.rules.expressions import MESSAGE, RULE, RuleExpression, compile_expression
from registry.codec.go_text import GoText, go_json
from registry.schema.field import ErrorType, FieldError, forbidden, index, invalid, key, not_supported, required
from registry.schema.field_paths import SchemaPathError, resolve
from registry.schema.model import Structural, ValidationRule, from_json
from registry.schema.structural.go_schema import go_rule
from registry.schema.structural.structural import find_unsupported

Json = Mapping[str, Any]

RULE_COST_LIMIT: Final = 10_000_000
TOTAL_COST_LIMIT: Final = 100_000_000
MAX_SIZE: Final = 100_000  # nodes of all expressions of a schema: our own limit, far above real definitions
REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")

_VALIDATIONS: Final = "x-kubernetes-validations"
_MOST_EXPENSIVE: Final = 4


def check_rules(
    schema: Json, path: str, *, faulty: Sequence[str] = (), compiles: bool = True, unchanged: bool = False
) -> list[FieldError]:
    """The errors of all rules in `schema`, whose path is `path`.

    Rules are not compiled at and above the `faulty` paths, which have errors of other kinds, and not at all unless
    `compiles`, which means that the schema is structural. The rules of an `unchanged` schema have no cost limit of
    their own.
    """
    if not _mentions_rules(schema):
        return []
    walk = Walk(tuple(faulty), unchanged)
    walk.entries(schema, path)
    if compiles:
        walk.blocked += tuple(error.field for error in walk.errors)
        root = from_json(schema)
        walk.compile(SchemaNode(root, None, None, bool(root.validations), 1), path, None)
        walk.total(path)
    return walk.errors


def _mentions_rules(schema: Any) -> bool:
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            if node.get(_VALIDATIONS):
                return True
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
    return False


@dataclass(slots=True)
class SchemaNode:
    """A node of the schema on the way down: its type, and how often it can occur.

    `cardinality` is None if some list or map above it has no limit.
    """

    schema: Structural
    parent: SchemaNode | None
    name: str | None  # of the property; None for items and additionalProperties
    in_scope: bool
    cardinality: int | None
    declared: Declared | None = None
    failed: bool = False

    def child(self, schema: Structural, name: str | None = None) -> SchemaNode:
        cardinality = self.cardinality
        if cardinality is not None:
            limit = _max_elements(self.schema)
            cardinality = None if limit is None else min(cardinality * limit, LIMIT)
        return SchemaNode(schema, self, name, self.in_scope or bool(schema.validations), cardinality)

    def type(self) -> Declared | None:
        """The type of this node, taken from its parent's type if the parent needs one for rules of its own or above."""
        if self.declared is None and not self.failed:
            self.declared = self._type()
            self.failed = self.declared is None
        return self.declared

    def _type(self) -> Declared | None:
        parent = self.parent
        if parent is not None and parent.in_scope:
            above = parent.type()
            if above is None:
                return None
            type_ = above.element if self.name is None else above.property(self.name)
            if type_ is not None:
                return type_
        return declare(self.schema, parent is None or self.schema.embedded_resource)


def _max_elements(schema: Structural) -> int | None:
    if schema.type == "object" and schema.additional_properties is not None:
        limit = schema.max_properties
    elif schema.type == "array":
        limit = schema.max_items
    else:
        return 1
    return None if limit is None else max(limit, 0)


class _Fields:
    """The fields of a schema, which must not change. One that cannot be structural may have any."""

    def __init__(self, schema: Json) -> None:
        self._schema = schema
        self._may_have_any: bool | None = None

    def may_have(self, path: str) -> bool:
        try:
            resolve(path, self._schema)
        except SchemaPathError:
            if self._may_have_any is None:
                self._may_have_any = find_unsupported(self._schema) is not None
            return self._may_have_any
        return True


@dataclass(slots=True)
class Walk:
    """The walk over one schema: the errors so far, the paths of schema errors, and the cost of all rules."""

    blocked: tuple[str, ...]
    unchanged: bool
    errors: list[FieldError] = field(default_factory=list)
    total_cost: int = 0
    size: int = 0
    costs: list[tuple[int, str]] = field(default_factory=list)

    def entries(self, schema: Json, path: str) -> None:
        """Collects the errors of the entries themselves, including those at nodes where rules are not allowed."""
        additional = schema.get("additionalProperties")
        if isinstance(additional, dict):
            self.entries(additional, f"{path}.additionalProperties")
        for name, of in sorted((schema.get("properties") or {}).items()):
            self.entries(of, key(f"{path}.properties", name))
        if isinstance(schema.get("not"), dict):
            self.entries(schema["not"], f"{path}.not")
        for junctor in ("allOf", "oneOf", "anyOf"):
            for position, clause in enumerate(schema.get(junctor) or ()):
                self.entries(clause, index(f"{path}.{junctor}", position))
        if isinstance(schema.get("items"), dict):
            self.entries(schema["items"], f"{path}.items")
        fields = _Fields(schema)
        for position, entry in enumerate(schema.get(_VALIDATIONS) or ()):
            self.errors.extend(entry_errors(entry or {}, fields, f"{path}.{_VALIDATIONS}[{position}]"))

    def compile(self, node: SchemaNode, path: str, uncorrelatable: str | None) -> None:
        """Compiles the rules at `node` and below. `uncorrelatable` is the path of the outermost enclosing list whose
        items do not correlate with old items."""
        schema = node.schema
        if isinstance(schema.additional_properties, Structural):
            self.compile(node.child(schema.additional_properties), f"{path}.additionalProperties", uncorrelatable)
        for name in sorted(schema.properties):
            self.compile(node.child(schema.properties[name], name), key(f"{path}.properties", name), uncorrelatable)
        if schema.items is not None:
            within = path if uncorrelatable is None and schema.list_type != "map" else uncorrelatable
            self.compile(node.child(schema.items), f"{path}.items", within)
        if schema.validations and not self.has_schema_errors(path):
            self.node(node, f"{path}.{_VALIDATIONS}", uncorrelatable)

    def has_schema_errors(self, path: str) -> bool:
        length = len(path)
        return any(field.startswith(path) and field[length : length + 1] in ("", ".", "[") for field in self.blocked)

    def node(self, node: SchemaNode, path: str, uncorrelatable: str | None) -> None:
        declared = node.type()
        if declared is None:
            why = (
                "internal error: failed to construct type information for "
                "x-kubernetes-validations rules: unable to convert structural schema to CEL declarations"
            )
            self.errors.append(FieldError(ErrorType.INTERNAL, path, "", why))
            return
        cardinality = node.cardinality
        if cardinality is None:
            cardinality = MAX_REQUEST_BYTES // (declared.min_bytes + 1)
        for position, rule in enumerate(node.schema.validations):
            if not rule.rule.strip() or self.size > MAX_SIZE:
                continue
            self.rule(rule, declared, cardinality, f"{path}[{position}]", uncorrelatable)
            if self.size > MAX_SIZE:
                why = f"the expressions of the schema are too large to be checked: they have more than {MAX_SIZE} nodes"
                self.errors.append(forbidden(f"{path}[{position}]", why))

    def rule(
        self, rule: ValidationRule, declared: Declared, cardinality: int, path: str, uncorrelatable: str | None
    ) -> None:
        optional = bool(rule.optional_old_self)
        compiled = compile_expression(rule.rule, declared, RULE, optional_old_self=optional)
        self.size += compiled.size
        if compiled.error:
            self.errors.append(invalid(f"{path}.rule", _go_text(rule), compiled.error))
        else:
            self.observe(f"{path}.rule", min(compiled.cost * cardinality, LIMIT), "estimated rule cost")
            if rule.message_expression:
                message = compile_expression(rule.message_expression, declared, MESSAGE, optional_old_self=optional)
                self.size += message.size
                self.message(rule, message, f"{path}.messageExpression")
        if compiled.uses_old_self:
            if uncorrelatable is not None:
                why = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelatable}"
                self.errors.append(invalid(f"{path}.rule", rule.rule, why))
        elif rule.optional_old_self is not None:
            why = "may not be set if oldSelf is not used in rule"
            self.errors.append(invalid(f"{path}.optionalOldSelf", rule.optional_old_self, why))

    def message(self, rule: ValidationRule, compiled: RuleExpression, path: str) -> None:
        if compiled.error:
            self.errors.append(invalid(path, _go_text(rule), compiled.error))
        else:
            self.observe(path, compiled.cost, "estimated messageExpression cost")

    def observe(self, path: str, cost: int, name: str) -> None:
        """Adds the cost of one expression to the total; reports it if it exceeds the limit by itself."""
        if not self.unchanged and cost > RULE_COST_LIMIT:
            self.errors.append(forbidden(path, _too_expensive(name, cost, RULE_COST_LIMIT)))
        self.total_cost = min(self.total_cost + cost, LIMIT)
        if cost >= TOTAL_COST_LIMIT // 100:
            self.costs.append((cost, path))

    def total(self, path: str) -> None:
        if self.total_cost <= TOTAL_COST_LIMIT:
            return
        self.costs.sort(key=lambda cost: -cost[0])
        for _, expensive in self.costs[:_MOST_EXPENSIVE]:
            why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
            self.errors.append(forbidden(expensive, why))
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        self.errors.append(forbidden(path, _too_expensive(name, self.total_cost, TOTAL_COST_LIMIT)))


def entry_errors(entry: Json, fields: _Fields, path: str) -> list[FieldError]:
    """The errors of one entry of x-kubernetes-validations of a schema with the `fields`, without compiling it."""
    errors = []
    rule, message = entry.get("rule") or "", entry.get("message") or ""
    if not rule.strip():
        errors.append(required(f"{path}.rule", "rule is not specified"))
    elif message and not message.strip():
        errors.append(invalid(f"{path}.message", message, "must be non-empty if specified"))
    elif _has_line_breaks(message.strip()):
        errors.append(invalid(f"{path}.message", message, "must not contain line breaks"))
    elif _has_line_breaks(rule.strip()) and not message.strip():
        errors.append(required(f"{path}.message", "message must be specified if rule contains line breaks"))
    expression = entry.get("messageExpression") or ""
    if expression and not expression.strip():
        errors.append(required(f"{path}.messageExpression", "messageExpression must be non-empty if specified"))
    reason = entry.get("reason")
    if reason is not None and reason not in REASONS:
        errors.append(not_supported(f"{path}.reason", GoText(go_json(reason)), list(REASONS)))
    field_path = entry.get("fieldPath") or ""
    if field_path and not field_path.strip():
        errors.append(invalid(f"{path}.fieldPath", field_path, "must be non-empty if specified"))
    if _has_line_breaks(field_path):
        errors.append(invalid(f"{path}.fieldPath", field_path, "must not contain line breaks"))
    if field_path and not fields.may_have(field_path):
        errors.append(invalid(f"{path}.fieldPath", field_path, "must be a valid path"))
    return errors


def _has_line_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


def _go_text(rule: ValidationRule) -> GoText:
    """The rule as errors print it: the JSON of the Go struct."""
    return GoText(
        go_rule(
            {
                "rule": rule.rule,
                "message": rule.message,
                "messageExpression": rule.message_expression,
                "reason": rule.reason,
                "fieldPath": rule.field_path,
                "optionalOldSelf": rule.optional_old_self,
            }
        )
    )


def _too_expensive(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    if factor > 100:
        text = "more than 100x"
    elif factor < 1.5:
        text = f"{factor:f}x"
    else:
        text = f"{factor:.1f}x"
    return (
        f"{name} exceeds budget by factor of {text} (try simplifying the rule, or adding maxItems, maxProperties, "
        "and maxLength where arrays, maps, and strings are declared)"
    )
