// Paths of the REST API, and field paths as in the causes of a Status.
import { HOME } from "./routes.js";

/** `/clusters/acme`, or nothing for the tenant of the credentials. */
export function tenantPrefix(tenant) {
  return tenant === HOME ? "" : `/clusters/${encodeURIComponent(tenant)}`;
}

/** `/apis/demo.example.com/v1/namespaces/shop/backups/nightly/status?limit=5`, below the prefix of a tenant. */
export function resourcePath(tenant, kind, { namespace = "", name = "", subresource = "", query = {} } = {}) {
  const parts = kind.group ? ["apis", kind.group, kind.version] : ["api", kind.version];
  if (namespace && kind.namespaced) parts.push("namespaces", namespace);
  parts.push(kind.plural);
  if (name) parts.push(name);
  if (subresource) parts.push(subresource);
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const search = new URLSearchParams(given).toString();
  return `${tenantPrefix(tenant)}/${parts.map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

/**
 * Parses the field of a cause into keys and indexes:
 * `spec.rules[0].host` is ["spec", "rules", 0, "host"], `metadata.labels[a.b/c]` is ["metadata", "labels", "a.b/c"].
 */
export function parseFieldPath(text) {
  const path = [];
  for (const [, name, index] of text.matchAll(/([^.[\]]+)|\[([^\]]*)\]/g)) {
    if (name !== undefined) path.push(name);
    else path.push(/^\d+$/.test(index) ? Number(index) : index.replace(/^"(.*)"$/, "$1"));
  }
  return path[0] === "<nil>" ? [] : path;
}

/** The inverse; keys that are not plain names are in brackets. */
export function formatFieldPath(path) {
  return path
    .map((part) => (typeof part === "number" || !/^[\w$-]+$/.test(part) ? `[${part}]` : `.${part}`))
    .join("")
    .replace(/^\./, "");
}
