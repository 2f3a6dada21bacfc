// All tenants, with what they use and may use: for those who may list them.
import { Rights } from "../api.js";
import { resourcePath, tenantPrefix } from "../logic/paths.js";
import { formatRoute, objectRoute } from "../logic/routes.js";
import { bytesText, countText, plural } from "../logic/text.js";
import { filterRows, sortRows } from "../logic/rows.js";
import { Age, Empty, ErrorNotice, Heading, html, Loading, Meter, Notice, Status, useConsole, useLoaded, useTitle, VirtualTable } from "../ui.js";
import { useMemo, useState } from "../vendor/preact.js";

export const SYSTEM = "system";
export const TENANTS = { group: "tenancy.registry", version: "v1", plural: "tenants", namespaced: false, kind: "Tenant" };
const FIRST = 100;
const PAGE = 500;

export default function Tenants({ query }) {
  useTitle("Tenants");
  const { api, go } = useConsole();
  const [text, setText] = useState("");
  const [rows, setRows] = useState([]);
  const loaded = useLoaded((signal) => loadTenants(api, setRows, signal), []);
  const { sort = "" } = query;
  const making = { verb: "create", group: TENANTS.group, resource: TENANTS.plural };
  const create = useLoaded(() => new Rights(api, tenantPrefix(SYSTEM)).may(making), []);
  const shown = useMemo(() => sortRows(filterRows(rows, text), sort, []), [rows, text, sort]);
  const figure = (index, format) => (row) => {
    const { used, limit } = row.figures[index];
    if (used === undefined) return "";
    return html`<${Meter} used=${used} limit=${limit}
        label=${["objects", "bytes", "definitions", "namespaces"][index]}
        text=${limit === undefined ? format(used) : `${format(used)} of ${format(limit)}`} />`;
  };
  const columns = [
    { id: "name", title: "Tenant", cell: (row) => html`<a href=${formatRoute({ tenant: row.name })}>${row.name}</a>` },
    { id: "4", title: "Name", cell: (row) => row.display },
    { id: "5", title: "Health", cell: (row) => html`<${Status} text=${row.health} />` },
    { id: "0", title: "Objects", cell: figure(0, countText) },
    { id: "1", title: "Stored", cell: figure(1, bytesText) },
    { id: "2", title: "Definitions", cell: figure(2, countText) },
    { id: "3", title: "Namespaces", cell: figure(3, countText) },
    { id: "6", title: "Parent", cell: (row) => row.parent },
    { id: "age", title: "Age", cell: (row) => html`<${Age} time=${row.created} />` },
    { id: "spec", title: "Object", sortable: false, cell: (row) => html`<a href=${objectRoute(SYSTEM, TENANTS, "", row.name)} tabindex="-1">YAML</a>` },
  ];
  const ill = rows.filter((row) => !["Active", "Ready"].includes(row.health)).length;
  return html`<${Heading} parts=${[["Tenants"]]}
      about=${`${plural(rows.length, "tenant")}${loaded.loading ? ", loading more" : ill ? `, ${ill} need attention` : ""}`}>
      ${create.value && html`<a class="button main"
          href=${formatRoute({ tenant: SYSTEM, page: "new", args: [TENANTS.group, TENANTS.version, TENANTS.plural] })}>New</a>`}</>
    <div class="bar-row"><input type="search" aria-label="Search tenants" placeholder="Search" value=${text}
        onInput=${(event) => setText(event.target.value)} />
      <button type="button" onClick=${loaded.again}>Look again</button></div>
    <${ErrorNotice} error=${loaded.error} again=${loaded.again} />
    ${loaded.value?.problem && html`<${Notice}
        kind="warning">What tenants use is not open to you: ${loaded.value.problem.message}</>`}
    ${rows.length === 0 ? !loaded.error && html`<${Loading} />` : shown.length === 0 ? html`<${Empty}>No tenant matches.</>`
      : html`<${VirtualTable} label="Tenants" columns=${columns} rows=${shown} keyOf=${(row) => row.name}
          sort=${sort || "name"} onSort=${(value) => go({ page: "tenants", query: { sort: value } })} />`}`;
}

/** Tenants, and what they use, page by page: `show` gets the rows that are known. */
async function loadTenants(api, show, signal) {
  const tenants = [];
  const used = new Map();
  let problem = null;
  const page = (query) => api.get(resourcePath(SYSTEM, TENANTS, { query }), { signal });
  let [next, nextUsage, limit] = ["", "", FIRST];
  while (next !== undefined || nextUsage !== undefined) {
    const [list, usage] = await Promise.all([
      next !== undefined && page({ limit, continue: next }),
      nextUsage !== undefined && page({ limit, continue: nextUsage, usage: true }).catch((error) => ((problem = error), null)),
    ]);
    if (list) tenants.push(...list.items);
    for (const one of usage?.items ?? []) used.set(one.name, one);
    show(tenants.map((one) => rowOfTenant(one, used.get(one.metadata.name))));
    next = list?.metadata?.continue || undefined;
    nextUsage = usage?.metadata?.continue || undefined;
    limit = PAGE;
  }
  return { problem };
}

/** "Active", "Suspended", "Terminating", or what a quota says: "quota nearly used". */
export function healthOf(tenant, usage) {
  const phase = tenant.metadata.deletionTimestamp ? "Terminating" : (tenant.status?.phase ?? (tenant.spec?.suspended ? "Suspended" : "Active"));
  const near = Object.entries(usage?.limits ?? {}).filter(([name, limit]) => limit > 0 && usage.used[name] / limit >= 0.95);
  return phase === "Active" && near.length > 0 ? `Quota of ${near.map(([name]) => name).join(", ")} nearly used` : phase;
}

function rowOfTenant(tenant, usage) {
  const { metadata, spec = {} } = tenant;
  const figures = ["objects", "bytes", "definitions", "namespaces"].map((name) => ({ used: usage?.used[name], limit: usage?.limits[name] }));
  const health = healthOf(tenant, usage);
  return {
    key: metadata.name, name: metadata.name, namespace: "", labels: metadata.labels ?? {}, created: metadata.creationTimestamp, health, figures,
    display: spec.displayName ?? "", parent: spec.parent ?? "",
    cells: [...figures.map((one) => one.used), spec.displayName ?? "", health, spec.parent ?? ""],
  };
}

/** `{used, limits}` of one tenant, or null if that is not open to the user. */
export async function usageOf(api, name, signal) {
  return api.get(resourcePath(SYSTEM, TENANTS, { name, subresource: "usage" }), { signal }).catch(() => null);
}

