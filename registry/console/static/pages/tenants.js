// All tenants with usage, limits and health, for users who may list them.
import { Rights } from "../api.js";
import { resourcePath, tenantPrefix } from "../logic/paths.js";
import { formatRoute, objectRoute } from "../logic/routes.js";
import { bytesText, countText } from "../logic/text.js";
import { Age, html, Meter, Notice, Status, useConsole, useLoaded, useTitle } from "../ui.js";
import { Listing } from "./objects.js";

export const SYSTEM = "system";
export const TENANTS = { group: "tenancy.registry", version: "v1", plural: "tenants", namespaced: false, kind: "Tenant", verbs: ["list", "watch"] };
export const FIGURES = [["objects", "Objects", countText], ["bytes", "Stored", bytesText], ["definitions", "Definitions", countText],
  ["namespaces", "Namespaces", countText]];

export default function Tenants({ query }) {
  useTitle("Tenants");
  const { api } = useConsole();
  const used = useLoaded((signal) => loadUsage(api, signal), []);
  const making = { verb: "create", group: TENANTS.group, resource: TENANTS.plural };
  const create = useLoaded(() => new Rights(api, tenantPrefix(SYSTEM)).may(making), []);
  const usage = (row) => used.value?.get(row.name);
  const columns = [
    { id: "name", title: "Tenant", order: "metadata.name", cell: (row) => html`<a href=${formatRoute({ tenant: row.name })}>${row.name}</a>` },
    { id: "display", title: "Name", order: "spec.displayName", cell: (row) => row.object.spec?.displayName },
    { id: "health", title: "Health", cell: (row) => html`<${Status} text=${healthOf(row.object, usage(row))} />` },
    ...FIGURES.map(([id, title]) => ({ id, title, cell: (row) => usage(row) && html`<${Usage} usage=${usage(row)} name=${id} />` })),
    { id: "parent", title: "Parent", order: "spec.parent", cell: (row) => row.object.spec?.parent },
    { id: "age", title: "Age", order: "metadata.creationTimestamp", cell: (row) => html`<${Age} time=${row.created} />` },
    { id: "spec", title: "Object", cell: (row) => html`<a href=${objectRoute(SYSTEM, TENANTS, "", row.name)} tabindex="-1">YAML</a>` },
  ];
  return html`<${Listing} kind=${TENANTS} tenant=${SYSTEM} query=${query} title="Tenants" columns=${() => columns} accept="application/json"
      bar=${() => html`<button type="button" onClick=${used.again}>Refresh</button>`}
      actions=${create.value && html`<a class="button main"
          href=${formatRoute({ tenant: SYSTEM, page: "new", args: [TENANTS.group, TENANTS.version, TENANTS.plural] })}>New</a>`} />
    ${used.error && html`<${Notice} kind="warning">You cannot see what tenants use: ${used.error.message}</>`}`;
}

/** One figure of `usage`, with its limit. */
export function Usage({ usage: { used, limits }, name }) {
  const format = FIGURES.find(([id]) => id === name)[2];
  const text = limits[name] === undefined ? format(used[name]) : `${format(used[name])} of ${format(limits[name])}`;
  return html`<${Meter} used=${used[name]} limit=${limits[name]} label=${name} text=${text} />`;
}

/** Returns the usage of every tenant by name. */
async function loadUsage(api, signal) {
  const found = new Map();
  for (let next = ""; next !== undefined; ) {
    const list = await api.get(resourcePath(SYSTEM, TENANTS, { query: { usage: true, limit: 500, continue: next } }), { signal });
    for (const one of list.items) found.set(one.name, one);
    next = list.metadata.continue;
  }
  return found;
}

/** Returns "Active", "Suspended", "Terminating", or a warning such as "Quota of objects nearly used". */
export function healthOf(tenant, usage) {
  const phase = tenant.metadata.deletionTimestamp ? "Terminating" : (tenant.status?.phase ?? (tenant.spec?.suspended ? "Suspended" : "Active"));
  const near = Object.entries(usage?.limits ?? {}).filter(([name, limit]) => limit > 0 && usage.used[name] / limit >= 0.95);
  return phase === "Active" && near.length > 0 ? `Quota of ${near.map(([name]) => name).join(", ")} nearly used` : phase;
}

/** Returns `{used, limits}` of a tenant, or null if the user may not read it. */
export async function usageOf(api, name, signal) {
  return api.get(resourcePath(SYSTEM, TENANTS, { name, subresource: "usage" }), { signal }).catch(() => null);
}
