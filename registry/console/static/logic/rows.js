// The rows of a list that is loaded page by page while a watch already reports changes.
//
// Pages are of the revision of the list, in the order of namespaces and names. A change of an object that no page has
// brought yet is kept until its page comes, because that page shows the object as it was before.

/** `{key, namespace, name, uid, created, deleting, labels, cells}` of a row of a Table. */
export function rowOf(entry) {
  const meta = entry.object?.metadata ?? {};
  return {
    key: meta.namespace ? `${meta.namespace}/${meta.name}` : (meta.name ?? ""),
    namespace: meta.namespace ?? "",
    name: meta.name ?? "",
    uid: meta.uid ?? "",
    created: meta.creationTimestamp ?? "",
    deleting: Boolean(meta.deletionTimestamp),
    labels: meta.labels ?? {},
    cells: entry.cells ?? [],
  };
}

export class Rows {
  #rows = new Map();
  #ahead = new Map();
  #last = "";
  complete = false;

  get size() {
    return this.#rows.size;
  }

  has(key) {
    return this.#rows.has(key);
  }

  values() {
    return [...this.#rows.values()];
  }

  /** The next page of the list; `complete` if it is the last. */
  addPage(rows, complete) {
    for (const row of rows) {
      const newer = this.#ahead.get(row.key);
      this.#ahead.delete(row.key);
      if (newer !== null) this.#rows.set(row.key, newer ?? row);
      if (row.key > this.#last) this.#last = row.key;
    }
    this.complete = complete;
    for (const [key, row] of this.#ahead) {
      if (!complete && key > this.#last) continue;
      this.#ahead.delete(key);
      if (row !== null) this.#rows.set(key, row);
    }
  }

  /** An event of the watch: ADDED, MODIFIED or DELETED. */
  apply(type, row) {
    const listed = this.complete || row.key <= this.#last || this.#rows.has(row.key);
    if (!listed) this.#ahead.set(row.key, type === "DELETED" ? null : row);
    else if (type === "DELETED") this.#rows.delete(row.key);
    else this.#rows.set(row.key, row);
  }
}

/** Rows whose name, namespace, labels or cells contain every word of `text`, in any case. */
export function filterRows(rows, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return rows;
  return rows.filter((row) => {
    const labels = Object.entries(row.labels).map(([name, value]) => `${name}=${value}`);
    const all = [row.namespace, row.name, ...row.cells, ...labels].join(" ").toLowerCase();
    return words.every((word) => all.includes(word));
  });
}

/**
 * Rows in the order of a column: `sort` is "namespace", "name", "age", or the index of a cell, with "-" in front for the
 * reverse. Empty cells are last in either order; equal rows are in the order of their keys.
 */
export function sortRows(rows, sort, columns) {
  const reverse = sort.startsWith("-");
  const by = reverse ? sort.slice(1) : sort;
  const value = sortValue(by, columns[Number(by)]);
  const keyed = rows.map((row) => [value(row), row]);
  keyed.sort(([a, x], [b, y]) => {
    const order = compareValues(a, b, reverse);
    return order || (x.key < y.key ? -1 : x.key > y.key ? 1 : 0);
  });
  return keyed.map(([, row]) => row);
}

function sortValue(by, column) {
  if (by === "" || by === "key") return () => "";
  if (by === "namespace") return (row) => row.namespace;
  if (by === "name") return (row) => row.name;
  if (by === "age") return (row) => (row.created ? -Date.parse(row.created) : null);
  const index = Number(by);
  if (column?.type === "date") return (row) => parseAge(row.cells[index]);
  return (row) => row.cells[index];
}

function compareValues(a, b, reverse) {
  const none = (value) => value === null || value === undefined || value === "" || value === "<none>";
  if (none(a) || none(b)) return Number(none(a)) - Number(none(b));
  const order = typeof a === "number" && typeof b === "number" ? a - b : naturalOrder.compare(String(a), String(b));
  return reverse ? -order : order;
}

// So that node-10 comes after node-9.
const naturalOrder = new Intl.Collator("en", { numeric: true });

/** Seconds of a duration as tables have it: "5d3h", "2y44d", "90s"; null for what is none. */
export function parseAge(text) {
  const units = { y: 31536000, d: 86400, h: 3600, m: 60, s: 1 };
  let seconds = null;
  for (const [, number, unit] of String(text ?? "").matchAll(/(\d+)([ydhms])/g)) {
    seconds = (seconds ?? 0) + Number(number) * units[unit];
  }
  return seconds;
}
