// A YAML text with the places of its fields, so that faults of the schema and of the server are shown where they are.
import { isMap, isScalar, isSeq, parseDocument, stringify } from "../vendor/yaml.js";

/**
 * `{value, errors: [{from, to, message}], document}`; `value` is undefined if the text is no YAML. Integers are BigInts, so
 * that large ones keep their digits.
 */
export function parseYaml(text) {
  const document = parseDocument(text, { prettyErrors: false, version: "1.2", intAsBigInt: true });
  const errors = document.errors.map((error) => {
    return { from: error.pos[0], to: error.pos[1], message: error.message };
  });
  let value;
  try {
    value = errors.length > 0 ? undefined : document.toJS({ maxAliasCount: 100 });
  } catch (error) {
    errors.push({ from: 0, to: 0, message: error.message });
  }
  return { value, errors, document };
}

/**
 * An object as the server writes it in YAML, without what nobody reads. Texts and not values are passed on, because
 * JavaScript's numbers would change some of them.
 */
export function withoutManagedFields(text) {
  const { document, errors } = parseYaml(text);
  if (errors.length > 0 || !document.hasIn(["metadata", "managedFields"])) return text;
  document.deleteIn(["metadata", "managedFields"]);
  return document.toString({ lineWidth: 0 });
}

/** The text with another resource version: what is saved over the version that it names. */
export function withResourceVersion(text, version) {
  const { document, errors } = parseYaml(text);
  if (errors.length > 0) return text;
  document.setIn(["metadata", "resourceVersion"], version);
  return document.toString({ lineWidth: 0 });
}

/** Plain values as YAML, long texts unfolded; "no" is quoted, because the server reads YAML 1.1. */
export function toYaml(value) {
  return stringify(value, { lineWidth: 0, version: "1.1", aliasDuplicateObjects: false });
}

/** Where the field of a path is, or the nearest thing above it that is there: `{from, to}` of its key. */
export function rangeOf(document, path) {
  let node = document.contents;
  let place = { from: 0, to: 0 };
  for (const part of path) {
    if (isMap(node)) {
      const pair = node.items.find((one) => (isScalar(one.key) ? String(one.key.value) : undefined) === String(part));
      if (!pair) break;
      if (pair.key.range) place = { from: pair.key.range[0], to: pair.key.range[1] };
      node = pair.value;
    } else if (isSeq(node)) {
      const item = node.items[Number(part)];
      if (!item) break;
      if (item.range) place = { from: item.range[0], to: Math.min(item.range[1], item.range[0] + 40) };
      node = item;
    } else break;
  }
  return place;
}

/**
 * The path of the field of a line, by indentation, which also works while the text is no YAML: ["spec", "items", 0, "name"].
 * Items of lists are all 0. While a field is `typed` there, it is the path above it.
 */
export function pathOfLine(lines, number, typed = false) {
  const path = [];
  let column = Infinity; // what begins further right is not above the field
  for (let at = number; at >= 0 && column > 0; at -= 1) {
    const [, lead, name] = /^(\s*(?:- )*)(?:([\w./-]+):)?/.exec(lines[at] ?? "");
    const isTyped = typed && at === number;
    if ((!name && !isTyped) || lead.length > column) continue;
    if (lead.length < column && !isTyped) path.unshift(name);
    const dash = lead.indexOf("-"); // the first field of an item, above or beside the field
    if (dash >= 0) path.unshift(0);
    column = dash >= 0 ? dash + 1 : lead.length;
  }
  return path;
}
