// Routes are in the URL's fragment, `#/acme/objects/demo.example.com/v1/backups?ns=shop`, which browsers never send to a server.
// `~` stands for the tenant of the credentials, `core` for the core group.

export const HOME = "~";
export const CORE = "core";
// Takes the place of the namespace of cluster-scoped objects.
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

/** Returns group, version and plural as route arguments. */
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
