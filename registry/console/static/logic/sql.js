// Names of the SQL views and columns of a definition (docs/sql.md), and example queries.

const LONGEST = 63;
const METADATA = new Set(["tenant", "namespace", "name", "uid", "labels", "annotations", "owner_references", "finalizers",
  "generation", "resource_version", "stored_version", "created_at", "updated_at", "deletion_timestamp", "ready",
  "ready_reason", "ready_since"]);

/** Returns `crontabs_jobs_example_com`; null if it is too long, because the server then chooses another one. */
export function viewName(plural, group) {
  const name = `${plural}.${group}`.replace(/[^a-z0-9]+/g, "_");
  return name.length + "_conditions_history".length <= LONGEST ? name : null;
}

/** Returns the path in snake case: ["spec", "maxReplicas"] is spec_max_replicas; null if it is too long. */
export function columnName(path) {
  const name = path
    .map((part) => part.replace(/([a-z0-9])([A-Z])/g, "$1_$2").replace(/([A-Z]+)([A-Z][a-z])/g, "$1_$2").toLowerCase().replace(/[^a-z0-9]+/g, "_"))
    .join("_");
  if (name.length > LONGEST) return null;
  return METADATA.has(name) ? `${name}_field` : name;
}

/** Returns the first twelve columns of scalar fields, `[{name, type}]`, without those at or below one of `hidden`. */
export function columnsOf(schema, hidden = []) {
  const leaves = (inner, path) => {
    if (inner.properties) return Object.entries(inner.properties).flatMap(([name, one]) => leaves(one, [...path, name]));
    return ["string", "integer", "number", "boolean"].includes(inner.type) && inner.format !== "password" ? [{ path, inner }] : [];
  };
  const { spec = {}, status = {} } = schema?.properties ?? {};
  return [...leaves(spec, ["spec"]), ...leaves(status, ["status"])]
    .filter(({ path }) => !hidden.some((one) => `${path.join(".")}.`.startsWith(`${one}.`)))
    .map(({ path, inner }) => ({ name: columnName(path), type: inner.format === "date-time" ? "time" : inner.type }))
    .filter(({ name }) => name)
    .slice(0, 12);
}

/** Returns example queries: `[{title, sql}]`. */
export function exampleQueries(view, columns, namespaced) {
  const who = namespaced ? "namespace, name" : "name";
  const spec = columns.slice(0, 4).map((one) => one.name);
  const phase = columns.find((one) => /(phase|state)$/.test(one.name))?.name;
  const measured = phase ?? "ready";
  const grouped = phase ?? spec.find((name) => columns.find((one) => one.name === name).type !== "time") ?? "stored_version";
  return [
    { title: "All objects", sql: `SELECT ${[who, ...spec, "updated_at"].join(", ")}\nFROM reports.${view}\nORDER BY ${who};` },
    { title: `Objects by ${grouped}`, sql: `SELECT ${grouped}, count(*)\nFROM reports.${view}\nGROUP BY 1 ORDER BY 2 DESC;` },
    {
      title: "Changes of the last day",
      sql: `SELECT valid_from, operation, user_name, ${who}\nFROM reports.${view}_history\n` +
        "WHERE valid_from > now() - interval '1 day'\nORDER BY revision DESC;",
    },
    { title: "State 24 hours ago", sql: `SELECT ${[who, ...spec].join(", ")}\nFROM reports.${view}_as_of(now() - interval '1 day');` },
    {
      title: `Time in each ${measured} over the last day`,
      sql: `SELECT ${who}, value, duration, stays, still\n` +
        `FROM reports.time_in_state('reports.${view}_history', '${measured}', now() - interval '1 day');`,
    },
  ];
}
