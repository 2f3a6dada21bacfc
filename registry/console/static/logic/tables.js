// Rows of Tables, and the parameters that filter and sort them.

/** Returns the rows of a Table or list: `[{key, uid, namespace, name, created, deleting, cells, object}]`. */
export function rowsOf(list) {
  return (list?.rows ?? list?.items ?? []).map((entry) => {
    const object = entry.object ?? entry;
    const { uid, namespace = "", name = "", creationTimestamp: created = "", deletionTimestamp } = object.metadata ?? {};
    const key = namespace ? `${namespace}/${name}` : name;
    return { key, uid, namespace, name, created, deleting: Boolean(deletionTimestamp), cells: entry.cells ?? [], object };
  });
}

/**
 * Converts the filter input to CEL: an expression over `object` is kept, words match parts of names.
 * `Night ly` becomes `object.metadata.name.contains("night") && object.metadata.name.contains("ly")`.
 */
export function filterOf(text) {
  if (/\bobject\b/.test(text)) return text.trim();
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return words.map((word) => `object.metadata.name.contains(${JSON.stringify(word)})`).join(" && ");
}

/** Converts the JSONPath of a printer column to a field: `.spec.keep` is `spec.keep`; empty if it is not a plain path. */
export function orderOf(jsonPath = "") {
  return /^(\.[\w-]+)+$/.test(jsonPath) ? jsonPath.slice(1) : "";
}

/** Converts a sort to the parameter `orderBy`: "-spec.keep" is "spec.keep desc". */
export function orderBy(sort) {
  return sort.startsWith("-") ? `${sort.slice(1)} desc` : sort;
}
