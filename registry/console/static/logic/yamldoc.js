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

/** The path of the field at an offset: ["spec", "containers", 0, "name"]. */
export function pathAt(document, offset) {
  const path = [];
  let node = document.contents;
  while (node) {
    let next;
    if (isMap(node)) {
      // The last field that begins before the offset: a field without a value is still the one that is typed in.
      const pair = node.items.filter((one) => one.key?.range && one.key.range[0] <= offset).pop();
      if (!pair) break;
      path.push(String(pair.key.value));
      next = pair.value;
    } else if (isSeq(node)) {
      const index = node.items.findLastIndex((one) => one?.range && one.range[0] <= offset);
      if (index < 0) break;
      path.push(index);
      next = node.items[index];
    }
    if (!next?.range || offset < next.range[0] || offset > next.range[2]) break;
    node = next;
  }
  return path;
}
