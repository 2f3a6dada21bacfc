import assert from "node:assert/strict";
import { test } from "node:test";
import { constraintsOf, fieldsOf, isDeprecated, schemaAt, schemaOfKind, skeleton, typeText, validate } from "../../../registry/console/static/logic/schema.js";

const OBJECT = {
  type: "object", required: ["size"],
  properties: {
    size: { type: "integer", minimum: 1, maximum: 9, default: 3 },
    mode: { type: "string", enum: ["a", "b"] },
    name: { type: "string", minLength: 2, maxLength: 4, pattern: "^[a-z]+$" },
    port: { "x-kubernetes-int-or-string": true },
    tags: { type: "array", maxItems: 2, items: { type: "string" } },
    labels: { type: "object", additionalProperties: { type: "string" } },
    free: { type: "object", "x-kubernetes-preserve-unknown-fields": true, properties: {} },
    maybe: { type: "string", nullable: true },
  },
};

for (const [name, value, faults] of [
  ["nothing wrong", { size: 3, mode: "a", name: "abc", port: "http", tags: ["x"], labels: { a: "b" } }, []],
  ["a required field", {}, [": size is required"]],
  ["a wrong type", { size: "3" }, ["size: must be an integer"]],
  ["a fraction", { size: 1.5 }, ["size: must be an integer"]],
  ["below the minimum", { size: 0 }, ["size: must be at least 1"]],
  ["above the maximum", { size: 10 }, ["size: must be at most 9"]],
  ["not in the enumeration", { size: 1, mode: "c" }, ['mode: must be one of "a", "b"']],
  ["too short", { size: 1, name: "a" }, ["name: must have at least 2 characters"]],
  ["characters, not UTF-16 units", { size: 1, name: "a😀" }, ["name: must match ^[a-z]+$"]],
  ["too many items", { size: 1, tags: ["a", "b", "c"] }, ["tags: must have at most 2 items"]],
  ["an item's type", { size: 1, tags: [1] }, ["tags.0: must be a string"]],
  ["a value of a map", { size: 1, labels: { a: 1 } }, ["labels.a: must be a string"]],
  ["an unknown field", { size: 1, nope: 1 }, ["nope: the schema has no field nope"]],
  ["free form", { size: 1, free: { anything: [1] } }, []],
  ["null where it may be", { size: 1, maybe: null }, []],
  ["null where it may not be", { size: 1, mode: null }, ["mode: must be a string"]],
  ["null where there is a default", { size: null }, []],
  ["a large integer", { size: 12345678901234567890n }, ["size: must be at most 9"]],
  ["an integer or a string", { size: 1, port: 1.5 }, ["port: must be an integer or a string"]],
]) {
  test(`validate: ${name}`, () => {
    assert.deepEqual(validate(value, OBJECT).map((one) => `${one.path.join(".")}: ${one.message}`), faults);
  });
}

test("patterns that could be slow, or are not JavaScript's, are left to the server", () => {
  for (const pattern of ["^(a+)+$", "(?i)abc", "(", "^(?P<x>a)$"]) {
    assert.deepEqual(validate("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!", { type: "string", pattern }), []);
  }
});

test("at most 100 faults, however many there are, and no stack overflow", () => {
  assert.equal(validate(Array(5000).fill(1), { type: "array", items: { type: "string" } }).length, 100);
  const deep = { type: "object", properties: {} };
  deep.properties.a = deep;
  let value = {};
  for (let depth = 0; depth < 20_000; depth += 1) value = { a: value };
  validate(value, deep);
});

test("references are followed, also circular ones", () => {
  const document = { components: { schemas: {
    "io.Meta": { type: "object", properties: { name: { type: "string" } } },
    "io.Loop": { $ref: "#/components/schemas/io.Loop" },
    "io.Widget": { type: "object", properties: { metadata: { allOf: [{ $ref: "#/components/schemas/io.Meta" }], description: "meta" } }, "x-kubernetes-group-version-kind": [{ group: "g", version: "v1", kind: "Widget" }] },
  } } };
  const schema = schemaOfKind(document, "g", "v1", "Widget");
  assert.equal(schemaAt(schema, ["metadata", "name"], document).type, "string");
  assert.equal(schemaAt(schema, ["metadata"], document).description, "meta");
  assert.deepEqual(validate({ metadata: { name: 1 } }, schema, document).map((one) => one.path), [["metadata", "name"]]);
  validate({}, { $ref: "#/components/schemas/io.Loop" }, document);
});

test("what a field is, in words", () => {
  assert.equal(typeText({ type: "array", items: { type: "string" } }), "list of string");
  assert.equal(typeText({ type: "object", additionalProperties: { type: "integer", format: "int64" } }), "map of integer (int64)");
  assert.deepEqual(constraintsOf({ default: false, minimum: 1 }), ["default: false", "minimum: 1"]);
  assert.equal(isDeprecated({ description: "Deprecated: use b." }), true);
  assert.deepEqual(fieldsOf({ type: "array", items: OBJECT }).slice(0, 2).map((one) => [one.name, one.required]), [["size", true], ["mode", false]]);
});

test("a first text has the required fields, with defaults", () => {
  assert.deepEqual(skeleton(OBJECT), { size: 3 });
});
