"""The nodes of a schema that have rules, and their compiled rules.

`node_of(root)` is the tree of the nodes that have rules themselves or below; a node's types, view and programs are
compiled on first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from registry.cel.checker.schema_types import Declared, declare
from registry.cel.common.values import EvalError
from registry.cel.ext.strings import trim_space
from registry.cel.interpreter.compile import Program, compile_program
from registry.cel.interpreter.view import CONTAINERS, View
from registry.cel.interpreter.views import view_of
from registry.cel.rules.expressions import MESSAGE, OLD_SELF, RULE, SELF, compile_expression
from registry.schema.field_paths import SchemaPathError, resolve
from registry.schema.model import Structural, ValidationRule

Json = Any


@dataclass(slots=True, eq=False)
class Node:
    """A node of the schema with rules, or with rules somewhere below."""

    schema: Structural
    parent: Node | None
    name: str  # of the property; "" for items and map values
    resource: bool
    properties: Mapping[str, Node] = field(default_factory=dict)
    items: Node | None = None
    values: Node | None = None
    expected: type | None = None  # the Python type of values that rules can be evaluated on; set by rules()
    _rules: tuple[CompiledRule, ...] | None = None
    _view: View | None = None
    _declared: Declared | None = None

    def view(self) -> View:
        if self._view is None:
            parent = self.parent
            if parent is not None and parent.schema.validations and not parent.resource:
                above = parent.view()
                self._view = above.properties.get(self.name) if self.name else above.element
            if self._view is None:
                self._view = view_of(self.schema, resource=self.resource)
        return self._view

    def declared(self) -> Declared | None:
        if self._declared is None:
            parent = self.parent
            if parent is not None and parent.schema.validations:
                above = parent.declared()
                if above is not None:
                    self._declared = above.property(self.name) if self.name else above.element
            if self._declared is None:
                self._declared = declare(self.schema, self.resource)
        return self._declared

    def complaint(self, value: Json) -> str:
        """The error of a value that rules cannot be evaluated on."""
        try:
            self.view().convert(value)
        except EvalError as error:
            return str(error)
        return "invalid data"

    def rules(self) -> tuple[CompiledRule, ...]:
        if self._rules is None:
            self.expected = CONTAINERS.get(self.view().kind)
            rules = self.schema.validations
            # Rules of a node without a type have one error for all of them.
            rules = rules[:1] if self.declared() is None else tuple(rule for rule in rules if rule.rule.strip())
            self._rules = tuple(CompiledRule(rule, self) for rule in rules)
        return self._rules


def node_of(schema: Structural, parent: Node | None, name: str, *, resource: bool = False) -> Node | None:
    """The node of a schema; None if it contains no rules. Nodes without a CEL type are skipped."""
    node = Node(schema, parent, name, resource or schema.embedded_resource)
    children = {}
    for property_name, property_schema in schema.properties.items():
        if _has_type(property_schema):
            below = node_of(property_schema, node, property_name)
            if below is not None:
                children[property_name] = below
    node.properties = children
    if schema.items is not None:
        node.items = node_of(schema.items, node, "")
    if isinstance(schema.additional_properties, Structural):
        node.values = node_of(schema.additional_properties, node, "")
    return node if schema.validations or children or node.items or node.values else None


def _has_type(schema: Structural | None) -> bool:
    while schema is not None:
        if schema.int_or_string:
            return True
        if schema.type == "array":
            schema = schema.items
        elif schema.type == "object" and isinstance(schema.additional_properties, Structural):
            schema = schema.additional_properties
        else:
            return schema.type in ("object", "string", "boolean", "number", "integer")
    return False


class CompiledRule:
    """A rule with its programs. `error` is that of compiling it, "" for rules of an accepted definition."""

    __slots__ = (
        "error",
        "expression",
        "field_path",
        "label",
        "message",
        "optional",
        "program",
        "reason",
        "simple",
        "source",
        "text",
        "uses_old",
    )

    def __init__(self, rule: ValidationRule, node: Node) -> None:
        self.source = rule.rule
        self.optional = bool(rule.optional_old_self)
        self.reason = rule.reason
        self.label = trim_space(rule.message) if rule.message else trim_space(rule.rule)
        self.text = trim_space(rule.message) if rule.message else f"failed rule: {trim_space(rule.rule)}"
        self.expression = rule.message_expression
        self.field_path = _field_path(rule.field_path, node.schema)
        self.message: Program | None = None
        self.uses_old = False
        self.simple = False  # compiled, and does not use oldSelf
        declared = node.declared()
        if declared is None:
            self.error = "rule compiler initialization error: failed to convert to declType for CEL validation rules"
            return
        view = node.view()
        compiled = compile_expression(rule.rule, declared, RULE, optional_old_self=self.optional)
        self.error = f"rule compile error: {compiled.error}" if compiled.error else ""
        if self.error:
            return
        self.uses_old = compiled.uses_old_self
        variables: dict[str, View | None] = {SELF: view, OLD_SELF: None if self.optional else view}
        self.program = compile_program(compiled.checked, variables)
        self.simple = not self.uses_old
        if rule.message_expression:
            message = compile_expression(rule.message_expression, declared, MESSAGE, optional_old_self=self.optional)
            if not message.error:
                self.message = compile_program(message.checked, {SELF: view, OLD_SELF: view})


def _field_path(path: str, schema: Structural) -> str:
    """`.spec['a.b']` as errors print it; it was checked when the definition was written."""
    if not path:
        return ""
    try:
        return resolve(path, _shape(schema)).path
    except SchemaPathError:
        return ""


def _shape(schema: Structural) -> dict[str, Any]:
    """The parts of a schema that resolving a field path needs."""
    shape: dict[str, Any] = {"properties": {name: _shape(below) for name, below in schema.properties.items()}}
    if isinstance(schema.additional_properties, Structural):
        shape["additionalProperties"] = _shape(schema.additional_properties)
    return shape
