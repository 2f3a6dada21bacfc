// OpenAPI schemas: lookup by path, and validation while the user types.
//
// The server decides. Types, required and unknown fields, enums, ranges, lengths and patterns are checked here; CEL rules are
// left to the server's dry run.

const ANY = {};

/** Returns the schema of a kind in an OpenAPI v3 document, with its `$ref`s (see `resolve`); undefined if there is none. */
export function schemaOfKind(document, group, version, kind) {
  const schemas = Object.values(document?.components?.schemas ?? {});
  return schemas.find((schema) =>
    (schema["x-kubernetes-group-version-kind"] ?? []).some(
      (one) => one.group === group && one.version === version && one.kind === kind,
    ),
  );
}

/** Follows the `$ref` of a schema; `{allOf: [{$ref}], description}` gives the referenced one with that description. */
export function resolve(schema, document) {
  let found = schema ?? ANY;
  for (let steps = 0; steps < 16; steps += 1) {
    const reference = found.$ref ?? (found.allOf?.length === 1 ? found.allOf[0].$ref : undefined);
    if (!reference) return found;
    const target = document?.components?.schemas?.[reference.split("/").pop()] ?? ANY;
    const { $ref: _ref, allOf: _allOf, ...own } = found;
    found = { ...target, ...own };
  }
  return found;
}

/** "string", "integer", "int-or-string", "map of string", "list of object", "any". */
export function typeText(schema, document) {
  const found = resolve(schema, document);
  if (found["x-kubernetes-int-or-string"]) return "int-or-string";
  if (found.type === "array") return `list of ${typeText(found.items, document)}`;
  if (found.type === "object" || found.properties) {
    const values = found.additionalProperties;
    return values && typeof values === "object" && !found.properties ? `map of ${typeText(values, document)}` : "object";
  }
  return found.type ? `${found.type}${found.format ? ` (${found.format})` : ""}` : "any";
}

/** Returns the fields of an object, or of the elements of a list or map: `[{name, schema, required}]`. */
export function fieldsOf(schema, document) {
  let found = resolve(schema, document);
  while (found.type === "array" || isMap(found)) {
    found = resolve(found.type === "array" ? found.items : found.additionalProperties, document);
  }
  const required = new Set(found.required ?? []);
  return Object.entries(found.properties ?? {}).map(([name, one]) => {
    return { name, schema: resolve(one, document), required: required.has(name) };
  });
}

const isMap = (schema) => typeof schema.additionalProperties === "object" && !schema.properties;

/** Describes the constraints of a schema: ["default: 7", "minimum: 1", "one of: a, b"]. */
export function constraintsOf(schema) {
  const out = [];
  if ("default" in schema) out.push(`default: ${JSON.stringify(schema.default)}`);
  if (schema.enum) out.push(`one of: ${schema.enum.map((one) => JSON.stringify(one)).join(", ")}`);
  for (const [word, text] of Object.entries(WORDS)) if (word in schema) out.push(`${text}: ${schema[word]}`);
  if (schema.uniqueItems) out.push("no item twice");
  if (schema.nullable) out.push("may be null");
  if (schema["x-kubernetes-preserve-unknown-fields"]) out.push("keeps unknown fields");
  if (schema["x-kubernetes-list-type"] === "map") {
    out.push(`items by ${(schema["x-kubernetes-list-map-keys"] ?? []).join(", ")}`);
  }
  if (schema["x-kubernetes-list-type"] === "set") out.push("a set");
  return out;
}

const WORDS = {
  minimum: "minimum", maximum: "maximum", multipleOf: "multiple of", minLength: "minimal length",
  maxLength: "maximal length", pattern: "pattern", minItems: "minimal items", maxItems: "maximal items",
  minProperties: "minimal properties", maxProperties: "maximal properties",
};

/** Rules in CEL: `[{rule, message}]`. */
export function rulesOf(schema) {
  return schema["x-kubernetes-validations"] ?? [];
}

/** Whether the description says that the field is deprecated. */
export function isDeprecated(schema) {
  return schema.deprecated === true || /^\s*deprecated\b/i.test(schema.description ?? "");
}

/** Returns the schema at a path such as ["spec", "rules", 0]; undefined if there is none. */
export function schemaAt(schema, path, document) {
  let found = resolve(schema, document);
  for (const part of path) {
    let next;
    if (typeof part === "number") next = found.items;
    else next = found.properties?.[part] ?? (typeof found.additionalProperties === "object" ? found.additionalProperties : undefined);
    if (next === undefined) return undefined;
    found = resolve(next, document);
  }
  return found;
}

const MOST = 100;

/** Validates a value: `[{path, message, severity}]`, at most 100; severity is "error" or "warning". */
export function validate(value, schema, document) {
  const faults = [];
  check(value, resolve(schema, document), [], { faults, document });
  return faults.slice(0, MOST);
}

function check(given, schema, path, context) {
  const value = typeof given === "bigint" ? Number(given) : given; // larger integers than 2^53 are parsed as such
  if (context.faults.length >= MOST || path.length > 64) return;
  const fail = (message) => context.faults.push({ path, message, severity: "error" });
  const type = schema["x-kubernetes-int-or-string"] ? "int-or-string" : schema.type;
  // The server drops nulls where there is a default.
  const isNullable = schema.nullable || "default" in schema;
  if (value === undefined || (value === null && isNullable)) return;
  if (TYPES[type] && !TYPES[type][1](value)) return void fail(`must be ${TYPES[type][0]}`);
  if (schema.enum && !schema.enum.some((one) => JSON.stringify(one) === JSON.stringify(value))) {
    fail(`must be one of ${schema.enum.map((one) => JSON.stringify(one)).join(", ")}`);
  }
  for (const [word, [applies, isMet, text]] of Object.entries(LIMITS)) {
    if (word in schema && TYPES[applies][1](value) && !isMet(value, schema[word])) fail(text.replace("#", () => schema[word]));
  }
  if (Array.isArray(value)) {
    const items = resolve(schema.items, context.document);
    value.forEach((item, index) => check(item, items, [...path, index], context));
  } else if (TYPES.object[1](value)) checkFields(value, schema, path, context);
}

const isText = (value) => typeof value === "string";
const TYPES = {
  string: ["a string", isText],
  boolean: ["a boolean", (value) => typeof value === "boolean"],
  integer: ["an integer", Number.isInteger],
  number: ["a number", (value) => typeof value === "number"],
  array: ["an array (list)", Array.isArray],
  object: ["an object", (value) => typeof value === "object" && value !== null && !Array.isArray(value)],
  "int-or-string": ["an integer or a string", (value) => isText(value) || Number.isInteger(value)],
};
const LIMITS = {
  minimum: ["number", (value, limit) => value >= limit, "must be at least #"],
  maximum: ["number", (value, limit) => value <= limit, "must be at most #"],
  minLength: ["string", (value, limit) => [...value].length >= limit, "must have at least # characters"],
  maxLength: ["string", (value, limit) => [...value].length <= limit, "must have at most # characters"],
  pattern: ["string", matches, "must match #"],
  minItems: ["array", (value, limit) => value.length >= limit, "must have at least # items"],
  maxItems: ["array", (value, limit) => value.length <= limit, "must have at most # items"],
};

/** Also true for patterns that are specific to RE2, or that could backtrack for long: the server checks them. */
function matches(value, pattern) {
  if (value.length > 1000 || pattern.length > 200 || /[*+}]\)*[*+{]|\(\?[^:]/.test(pattern)) return true;
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true;
  }
}

function checkFields(value, schema, path, context) {
  for (const name of schema.required ?? []) {
    if (!(name in value)) context.faults.push({ path, message: `${name} is required`, severity: "error" });
  }
  const others = schema.additionalProperties;
  const isOpen = !schema.properties || schema["x-kubernetes-preserve-unknown-fields"] || others === true;
  const isEmbedded = schema["x-kubernetes-embedded-resource"];
  for (const [name, inner] of Object.entries(value)) {
    const known = schema.properties?.[name] ?? (typeof others === "object" ? others : undefined);
    if (known) check(inner, resolve(known, context.document), [...path, name], context);
    else if (!isOpen && !(isEmbedded && ["apiVersion", "kind", "metadata"].includes(name))) {
      context.faults.push({ path: [...path, name], message: `the schema has no field ${name}`, severity: "warning" });
    }
  }
}

/** Returns a value with the required fields, from defaults and first enum values. */
export function skeleton(schema, document, depth = 0) {
  const found = resolve(schema, document);
  if ("default" in found) return found.default;
  if (found.enum?.length) return found.enum[0];
  switch (found.type) {
    case "object": {
      const out = {};
      if (depth < 6) {
        for (const name of found.required ?? []) {
          if (found.properties?.[name]) out[name] = skeleton(found.properties[name], document, depth + 1);
        }
      }
      return out;
    }
    case "array": return found.minItems > 0 ? [skeleton(found.items, document, depth + 1)] : [];
    case "integer": case "number": return Math.max(found.minimum ?? 0, 0);
    case "boolean": return false;
    default: return "";
  }
}
