// What the fragment of the page's URL says: `#/acme/objects/demo.example.com/v1/backups?ns=shop`. Browsers send it to no
// server, so no log has it. `~` is the tenant of the credentials, the group of Kubernetes' core is written `core`.

export const HOME = "~";
export const CORE = "core";
// In the place of a namespace, for an object that has none.
export const NONE = "_";

/** `{tenant: "acme", page: "objects", args: ["demo.example.com", "v1", "backups"], query: {ns: "shop"}}` */
export function parseRoute(hash) {
  const [path, search = ""] = hash.replace(/^#?\/?/, "").split(/\?(.*)/s);
  const parts = path.split("/").filter((part) => part !== "").map(decoded);
  const [tenant = HOME, page = "overview", ...args] = parts;
  return { tenant, page, args, query: Object.fromEntries(new URLSearchParams(search)) };
}

/** The inverse of `parseRoute`; empty and absent values of `query` are left out. */
export function formatRoute({ tenant = HOME, page = "overview", args = [], query = {} }) {
  const path = [tenant, page, ...args].map(encodeURIComponent).join("/");
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const search = new URLSearchParams(given).toString();
  return `#/${path}${search ? `?${search}` : ""}`;
}

/** Where a kind is in routes: its group, version and plural. */
export function kindArgs(kind) {
  return [kind.group || CORE, kind.version, kind.plural];
}

/** The route of one object. */
export function objectRoute(tenant, kind, namespace, name, query = {}) {
  return formatRoute({ tenant, page: "object", args: [...kindArgs(kind), namespace || NONE, name], query });
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
