// YAML text with the positions of its fields, to show problems where they are.
import { isMap, isScalar, isSeq, parseDocument, stringify } from "../vendor/yaml.js";

/**
 * Returns `{value, errors: [{from, to, message}], document}`; `value` is undefined if the text is not valid YAML. Integers are
 * BigInts, so that large ones stay exact.
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
 * Removes metadata.managedFields from an object's YAML. It works on text, because JavaScript's numbers would change some
 * values.
 */
export function withoutManagedFields(text) {
  const { document, errors } = parseYaml(text);
  if (errors.length > 0 || !document.hasIn(["metadata", "managedFields"])) return text;
  document.deleteIn(["metadata", "managedFields"]);
  return document.toString({ lineWidth: 0 });
}

/** Replaces metadata.resourceVersion in an object's YAML. */
export function withResourceVersion(text, version) {
  const { document, errors } = parseYaml(text);
  if (errors.length > 0) return text;
  document.setIn(["metadata", "resourceVersion"], version);
  return document.toString({ lineWidth: 0 });
}

/** Writes values as YAML 1.1, as the server reads it: "no" is quoted; long strings are not folded. */
export function toYaml(value) {
  return stringify(value, { lineWidth: 0, version: "1.1", aliasDuplicateObjects: false });
}

/** Returns the position of a field's key, `{from, to}`, or that of the nearest parent that exists. */
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
 * Returns the path of the field on a line by indentation, ["spec", "items", 0, "name"], which also works on invalid YAML. All
 * list items have the index 0. While a field name is being `typed`, it is the path of its parent.
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
