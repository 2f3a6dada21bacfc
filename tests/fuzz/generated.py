"""Plans that nobody has recorded: definitions of any structural schema with rules, columns, conversions and policies,
and objects of them. Most of what is made is valid, so that mutations begin where decoding and validation have ended.
"""

from __future__ import annotations

import json
import random
from typing import Any

from registry.definitions.decode import decode_definition
from registry.definitions.defaulting import default_definition
from registry.definitions.strategy import prepare_for_create
from registry.definitions.validation import validate_create
from tests.fuzz.calls import PREFIX
from tests.fuzz.sources import CRDS, Plan, instance_of, step_of
from tests.fuzz.values import EXPRESSIONS, TEXTS

Json = Any
_CRDS = CRDS.removeprefix(PREFIX)
# fmt: off
_NAMES = ("a", "b", "spec", "status", "self", "size", "namespace", "a-b", "a.b", "a/b", "__a__", "1", "", "\u00fc",
          "x\x00", "items",
          "type", "kind", "metadata", "replicas", "class", "__class__", "*", "$ref", "~", "a b")
_FORMATS = ("date-time", "date", "duration", "byte", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "uuid", "mac",
            "int32", "int64",
            "float", "double", "quantity", "password", "x", "bsonobjectid", "isbn", "creditcard", "hexcolor",
            "k8s-short-name")
_PATTERNS = ("^[a-z]+$", "a|b", "", "^$", "[0-9]{1,3}", "(a*)*", "\\p{L}", "^.{2,5}$")
_RULES = {
    "object": ("has(self.a) || true", "self == oldSelf", "!has(self.b) || true", "!has(self.a) || self.a == self.a",
               "[self] != []"),
    "map": ("size(self) < 9", "self == oldSelf", "self.all(k, k != 'x')", "self.exists(k, self[k] == self[k]) || true",
            "'a' in self"),
    "array": ("self.size() < 4", "self.all(x, x == x)", "self.exists_one(x, x == x) || true", "self == oldSelf",
              "self.map(x, x).size() >= 0",
              "self.filter(x, true).size() <= 9", "self.isSorted()", "self.sum() > 0", "self.indexOf(1) < 5",
              "self.distinct().size() > 0"),
    "string": ("self.matches('^a')", "self.size() > 0", "self.split(',').size() > 0", "self.format([])",
               "quantity(self).isInteger()",
               "isURL(self) || !isURL(self)", "ip(self).family() == 4", "self.lowerAscii() == self",
               "duration(self) > duration('1s')",
               "timestamp(self) > timestamp('2024-01-01T00:00:00Z')", "self.substring(1, 2) == 'a'", "int(self) > 0",
               "self.charAt(0) == 'a'",
               "self.replace('a', 'bb', 3).size() < 9", "self.find('[0-9]+') == ''", "self.findAll('.', 2).size() > 0"),
    "integer": ("self > 0", "self * 2 / 2 == self", "100 / self > 0", "self % 3 == 1", "string(self) != ''",
                "self == oldSelf + 1",
                "double(self) > 1.5", "uint(self) > 1u", "self + 9223372036854775807 > 0"),
    "number": ("self > 0.0", "self / 0.0 > 1.0", "int(self) > 0", "math.greatest(self, 1.0) > 0.0"),
    "boolean": ("self", "!self || true", "self == oldSelf"),
}
_PATHS = (".spec.a", ".metadata.name", ".spec", ".spec.list[0]", ".spec.list[*].a", "..a", ".spec['a']", ".status.b",
          ".metadata.labels.a",
          ".spec.list[?(@.a==1)].b", ".spec.list[-1:]", ".metadata.creationTimestamp", ".spec.a\\.b",
          ".spec.list[0:2]", ".x")
# fmt: on


def generated(rng: random.Random, number: int) -> Plan:
    crd, schema = _acceptable(rng)
    spec = crd["spec"]
    version = spec["versions"][0]["name"]
    place = "namespaces/default/" if spec["scope"] == "Namespaced" else ""
    base = f"/apis/{spec['group']}/{version}/{place}{spec['names']['plural']}"
    head = {"apiVersion": f"{spec['group']}/{version}", "kind": spec["names"]["kind"]}
    setup = [step_of("POST", _CRDS, crd)] + (_policy(rng, spec) if rng.random() < 0.3 else [])
    steps: list[dict[str, Json]] = []
    for i in range(3):
        body = {**instance_of(schema, rng), **head, "metadata": {"name": f"a{i}", "labels": {"a": "b"}}}
        other = {**instance_of(schema, rng), **head, "metadata": {"name": f"a{i}"}}
        path = f"{base}/a{i}"
        steps += [
            step_of("POST", base, body),
            step_of("PUT", path, other),
            step_of("PATCH", path, {"spec": other.get("spec")}),
            step_of("PATCH", f"{path}?fieldManager=m", body, "application/apply-patch+yaml"),
            step_of("PATCH", f"{path}?fieldManager=n&force=true", other, "application/apply-patch+yaml"),
            step_of("PATCH", path, [{"op": "copy", "from": "/spec", "path": "/status"}], "application/json-patch+json"),
            step_of("PUT", f"{path}/status", body),
            step_of("GET", f"{path}/scale"),
            step_of("GET", path),
            step_of("GET", base),
            step_of("GET", f"{base}?watch=true"),
            step_of("GET", f"{path}/history?diff=merge"),
            step_of("DELETE", path),
            step_of("PUT", f"{_CRDS}/{crd['metadata']['name']}", _acceptable(rng)[0]),
        ]
        for other_version in spec["versions"][1:]:
            steps.append(step_of("GET", base.replace(f"/{version}/", f"/{other_version['name']}/")))
    return Plan(f"generated {number}", setup, steps)


def _acceptable(rng: random.Random) -> tuple[Json, Json]:
    """A definition that the server takes, where a few tries find one, and its schema."""
    for _ in range(8):
        crd, schema = _definition(rng)
        errors = _errors(crd)
        if any("x-kubernetes-validations" in error for error in errors):
            crd = _without_rules(crd)
            errors = _errors(crd)
        if not errors:
            break
    return crd, schema


def _errors(crd: Json) -> list[str]:
    decoded = decode_definition(json.loads(json.dumps(crd).replace("${group}", "g.example.com"))).value
    default_definition(decoded)
    return [error.message() for error in validate_create(prepare_for_create(decoded))]


def _without_rules(node: Json) -> Json:
    if isinstance(node, dict):
        return {key: _without_rules(value) for key, value in node.items() if key != "x-kubernetes-validations"}
    return [_without_rules(value) for value in node] if isinstance(node, list) else node


def _definition(rng: random.Random) -> tuple[Json, Json]:
    root: Json = {
        "type": "object",
        "properties": {"spec": _schema(rng, 0, "object"), "status": _schema(rng, 2, "object")},
    }
    if rng.random() < 0.2:
        root["x-kubernetes-validations"] = [_rule(rng, "object")]
    # Each its own: what all versions have alike stands elsewhere, and selectable fields must not then.
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == "v1",
            "schema": {"openAPIV3Schema": {**root, "description": name}},
        }
        for name in ("v1", "v1beta1", "v2")[: rng.choice((1, 1, 2, 3))]
    ]
    for version in versions:
        if rng.random() < 0.5:
            version["subresources"] = {
                "status": {},
                "scale": {
                    "specReplicasPath": rng.choice((".spec.replicas", ".spec.a")),
                    "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": rng.choice((".status.a", ".spec.b")),
                },
            }
        if rng.random() < 0.5:
            version["additionalPrinterColumns"] = [
                {
                    "name": rng.choice(("A", "B")),
                    "type": rng.choice(("string", "integer", "number", "boolean", "date")),
                    "jsonPath": rng.choice(_PATHS),
                }
                for _ in range(rng.choice((1, 3)))
            ]
        fields = [
            f".{part}.{name}"
            for part in ("spec", "status")
            for name in ("a", "b")
            if root["properties"][part].get("properties", {}).get(name, {}).get("type")
            in ("string", "integer", "boolean")
        ]
        if fields and rng.random() < 0.3:
            version["selectableFields"] = [{"jsonPath": rng.choice(fields)}]
    crd: Json = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.${group}"},
        "spec": {
            "group": "${group}",
            "scope": rng.choice(("Namespaced", "Namespaced", "Cluster")),
            "names": {"plural": "things", "kind": "Thing", "listKind": "ThingList"},
            "versions": versions,
        },
    }
    if len(versions) == 2 and rng.random() < 0.6:
        crd["metadata"]["annotations"] = {
            "conversion.registry/rules": json.dumps(
                {
                    "conversions": [
                        {
                            "from": "v1beta1",
                            "to": "v1",
                            "loss": rng.choice(("Keep", "Drop")),
                            "rules": [_conversion(rng) for _ in range(rng.choice((1, 2)))],
                        }
                    ]
                }
            )
        }
    return crd, root


def _conversion(rng: random.Random) -> Json:
    path = f"spec.{rng.choice(('a', 'b', 'list[*].a', 'x'))}"
    return rng.choice(
        (
            {"move": {"from": path, "to": "spec.c"}},
            {"rename": {"path": path, "to": "d"}},
            {"drop": path},
            {"map": {"path": path, "values": {"a": "b", "c": "d"}}},
            {"default": {"path": path, "value": rng.choice((1, "a", {}))}},
            {"set": {"path": path, "cel": rng.choice(("self.spec.a", "'a'", "1", "self", *EXPRESSIONS))}},
        )
    )


def _schema(rng: random.Random, depth: int, kind: str = "") -> dict[str, Json]:
    kind = kind or rng.choice(
        ("object", "array", "string", "string", "integer", "number", "boolean", "any", "intorstring")
    )
    if depth > 3 and kind in ("object", "array"):
        kind = "string"
    schema: dict[str, Json] = {"type": kind}
    match kind:
        case "any":
            return {"x-kubernetes-preserve-unknown-fields": True}
        case "intorstring":
            return {"x-kubernetes-int-or-string": True}
        case "object":
            _object(schema, rng, depth)
        case "array":
            _array(schema, rng, depth)
        case "string":
            # Without bounds the estimated cost of a rule is beyond what is allowed.
            schema["maxLength"] = rng.choice((5, 30, 64))
            schema |= _some(
                rng,
                minLength=rng.choice((0, 1, 5)),
                format=rng.choice(_FORMATS),
                pattern=rng.choice(_PATTERNS),
                enum=["a", "b", rng.choice(TEXTS)],
            )
            if "enum" in schema:
                schema["default"] = "a"
                schema.pop("format", None)
                schema.pop("pattern", None)
                schema.pop("minLength", None)
        case "integer":
            schema |= _some(
                rng,
                minimum=rng.choice((0, -5, 1)),
                maximum=rng.choice((10, 2**31, 2**63 - 1)),
                multipleOf=rng.choice((1, 2)),
                format=rng.choice(("int32", "int64")),
                default=rng.choice((1, 2)),
                enum=[1, 2, 3],
            )
        case "number":
            schema |= _some(
                rng, minimum=rng.choice((0, 0.5)), exclusiveMinimum=True, maximum=rng.choice((1e9, 10)), multipleOf=0.5
            )
        case _:
            schema |= _some(rng, default=True)
    if rng.random() < 0.15:
        schema["nullable"] = True
    if rng.random() < 0.25:
        kind = "map" if "additionalProperties" in schema else kind
        schema["x-kubernetes-validations"] = [_rule(rng, kind) for _ in range(rng.choice((1, 1, 2)))]
    return schema


def _object(schema: dict[str, Json], rng: random.Random, depth: int) -> None:
    if depth and rng.random() < 0.25:
        schema |= {"additionalProperties": _schema(rng, depth + 1), "maxProperties": 4}
        return
    names = rng.sample(_NAMES, rng.choice((1, 2, 4)))
    schema["properties"] = {name: _schema(rng, depth + 1) for name in ("a", "b", *names)}
    if depth == 0:
        schema["properties"] |= {"list": _schema(rng, depth + 1, "array"), "replicas": {"type": "integer"}}
    schema |= _some(rng, minProperties=0, **{"x-kubernetes-map-type": rng.choice(("atomic", "granular"))})
    if rng.random() < 0.2:
        schema["required"] = [rng.choice(("a", "b"))]
    if rng.random() < 0.1:
        schema["x-kubernetes-preserve-unknown-fields"] = True
    if depth and rng.random() < 0.1:
        schema |= {"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    if rng.random() < 0.1:
        schema[rng.choice(("anyOf", "oneOf", "allOf"))] = [{"required": ["a"]}, {"required": ["b"]}]


def _array(schema: dict[str, Json], rng: random.Random, depth: int) -> None:
    style = rng.choice(("", "atomic", "set", "map"))
    schema |= {"maxItems": rng.choice((1, 3, 8))} | _some(rng, minItems=rng.choice((0, 1)))
    match style:
        case "map":
            key = rng.choice(("a", "name", "\u00fc", "a-b", ""))
            items = {
                "type": "object",
                "required": [key],
                "properties": {key: {"type": rng.choice(("string", "integer"))}, "v": _schema(rng, depth + 2)},
            }
            schema |= {"items": items, "x-kubernetes-list-map-keys": [key]}
        case "set":
            schema["items"] = {"type": rng.choice(("string", "integer"))}
        case _:
            schema["items"] = _schema(rng, depth + 1)
    if style:
        schema["x-kubernetes-list-type"] = style


def _rule(rng: random.Random, kind: str) -> dict[str, Json]:
    rule = rng.choice(_RULES.get(kind) or EXPRESSIONS) if rng.random() < 0.9 else rng.choice(EXPRESSIONS)
    return {"rule": rule} | _some(
        rng,
        message="no",
        messageExpression=rng.choice(("'a' + string(self)", "string(1/0)", "self")),
        reason=rng.choice(("FieldValueInvalid", "FieldValueRequired")),
    )


def _policy(rng: random.Random, spec: Json) -> list[dict[str, Json]]:
    """A policy of the definition's objects and its binding."""
    admission, name = "/apis/admissionregistration.k8s.io/v1", "p-${tail}"
    rules = [{"apiGroups": [spec["group"]], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}]
    expressions = (
        "true",
        "object.spec.a == oldObject.spec.a",
        "has(object.spec)",
        "variables.v == 1",
        "request.name.startsWith('a')",
        "object.metadata.labels.a == 'b'",
        "object.spec.list.all(x, x != object.spec.a)",
        "authorizer.path('/a').check('get').allowed()",
        *EXPRESSIONS,
    )
    said = _some(rng, messageExpression=rng.choice(("'a'", "string(variables.v)")))
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": rng.choice(("Fail", "Ignore")),
            "matchConstraints": {"resourceRules": rules},
            "variables": [{"name": "v", "expression": rng.choice(expressions)}],
            "matchConditions": [
                {"name": "m", "expression": rng.choice(("true", "has(object.spec)", "request.operation != 'DELETE'"))}
            ],
            "validations": [{"expression": rng.choice(expressions)} | said],
            "auditAnnotations": [{"key": "k", "valueExpression": rng.choice(("'a'", "string(object.spec.a)"))}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": [rng.choice(("Deny", "Warn", "Audit"))]},
    }
    return [
        step_of("POST", f"{admission}/validatingadmissionpolicies", policy),
        step_of("POST", f"{admission}/validatingadmissionpolicybindings", binding),
    ]


def _some(rng: random.Random, **members: Json) -> dict[str, Json]:
    return {name: value for name, value in members.items() if rng.random() < 0.2}
