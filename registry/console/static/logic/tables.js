// Rows of Tables, and what the server is asked for to filter and sort them.

/** The parts of a row that pages need: `{key, uid, namespace, name, created, deleting, cells}`; of a Table or a list. */
export function rowsOf(list) {
  return (list?.rows ?? list?.items ?? []).map((entry) => {
    const object = entry.object ?? entry;
    const { uid, namespace = "", name = "", creationTimestamp: created = "", deletionTimestamp } = object.metadata ?? {};
    const key = namespace ? `${namespace}/${name}` : name;
    return { key, uid, namespace, name, created, deleting: Boolean(deletionTimestamp), cells: entry.cells ?? [], object };
  });
}

/**
 * The filter, in CEL, of what was typed: an expression over `object` as it is, words as parts of names.
 * `Night ly` is `object.metadata.name.contains("night") && object.metadata.name.contains("ly")`.
 */
export function filterOf(text) {
  if (/\bobject\b/.test(text)) return text.trim();
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return words.map((word) => `object.metadata.name.contains(${JSON.stringify(word)})`).join(" && ");
}

/** The field to order by of a printer column: `.spec.keep` is `spec.keep`; empty for more than the path of a field. */
export function orderOf(jsonPath = "") {
  return /^(\.[\w-]+)+$/.test(jsonPath) ? jsonPath.slice(1) : "";
}

/** The parameter `orderBy` of a sort: "-spec.keep" is "spec.keep desc". */
export function orderBy(sort) {
  return sort.startsWith("-") ? `${sort.slice(1)} desc` : sort;
}
