// Names of the SQL views and columns of a definition, as docs/sql.md has them, and queries to begin with.

const LONGEST = 63;
const METADATA = new Set(["tenant", "namespace", "name", "uid", "labels", "annotations", "owner_references", "finalizers",
  "generation", "resource_version", "stored_version", "created_at", "updated_at", "deletion_timestamp", "ready",
  "ready_reason", "ready_since"]);

/** `crontabs_jobs_example_com`; null if it is too long, because then the server has chosen another one. */
export function viewName(plural, group) {
  const name = `${plural}.${group}`.replace(/[^a-z0-9]+/g, "_");
  return name.length + "_conditions_history".length <= LONGEST ? name : null;
}

/** `spec_maxReplicas` is spec_max_replicas: the path in snake case; null if it is too long. */
export function columnName(path) {
  const name = path
    .map((part) => part.replace(/([a-z0-9])([A-Z])/g, "$1_$2").replace(/([A-Z]+)([A-Z][a-z])/g, "$1_$2").toLowerCase().replace(/[^a-z0-9]+/g, "_"))
    .join("_");
  if (name.length > LONGEST) return null;
  return METADATA.has(name) ? `${name}_field` : name;
}

/** The columns of the leaves of a schema: `[{path, name, type}]`, in its order, at most `most`. */
export function columnsOf(schema, most = 200) {
  const out = [];
  collect(schema, [], out, most);
  return out;
}

const TYPES = { string: "text", integer: "bigint", number: "double precision", boolean: "boolean" };

function collect(schema, path, out, most) {
  if (out.length >= most || path.length > 16) return;
  const fields = Object.entries(schema?.properties ?? {});
  if (fields.length === 0 && path.length > 0) {
    if (schema.format === "password") return;
    const name = columnName(path);
    if (name) out.push({ path: path.join("."), name, type: typeOf(schema) });
    return;
  }
  for (const [name, inner] of fields) {
    if (path.length === 0 && ["apiVersion", "kind", "metadata"].includes(name)) continue;
    if (inner.type === "array" && inner.items?.type === "object") continue; // a view of its own
    collect(inner, [...path, name], out, most);
  }
}

function typeOf(schema) {
  if (schema["x-kubernetes-int-or-string"]) return "text";
  if (schema.format === "date-time") return "timestamptz";
  if (schema.format === "date") return "date";
  return TYPES[schema.type] ?? "jsonb";
}

/** Queries to begin with: `[{title, sql}]`. */
export function exampleQueries(view, columns, namespaced) {
  const who = namespaced ? "namespace, name" : "name";
  const spec = columns.filter((one) => one.type !== "jsonb").slice(0, 4).map((one) => one.name);
  const phase = columns.find((one) => /(phase|state)$/.test(one.name))?.name;
  const measured = phase ?? "ready";
  const grouped = phase ?? spec.find((name) => columns.find((one) => one.name === name).type !== "timestamptz") ?? "stored_version";
  return [
    { title: "All objects", sql: `SELECT ${[who, ...spec, "updated_at"].join(", ")}\nFROM reports.${view}\nORDER BY ${who};` },
    { title: `How many there are of each ${grouped}`, sql: `SELECT ${grouped}, count(*)\nFROM reports.${view}\nGROUP BY 1 ORDER BY 2 DESC;` },
    {
      title: "What was changed within a day, and by whom",
      sql: `SELECT valid_from, operation, user_name, ${who}\nFROM reports.${view}_history\n` +
        "WHERE valid_from > now() - interval '1 day'\nORDER BY revision DESC;",
    },
    { title: "As it was yesterday", sql: `SELECT ${[who, ...spec].join(", ")}\nFROM reports.${view}_as_of(now() - interval '1 day');` },
    {
      title: `Time in each ${measured} within a day`,
      sql: `SELECT ${who}, value, duration, stays, still\n` +
        `FROM reports.time_in_state('reports.${view}_history', '${measured}', now() - interval '1 day');`,
    },
  ];
}
