// The objects of a kind: printer columns, live, filtered and sorted by the server, page by page.
import { METADATA_LIST, TABLE } from "../api.js";
import { PAGE, useList } from "../list.js";
import { DEFINITIONS, findKind, isBuiltin, qualifiedName } from "../logic/kinds.js";
import { resourcePath } from "../logic/paths.js";
import { CORE, formatRoute, kindArgs, objectRoute } from "../logic/routes.js";
import { filterOf, orderBy, orderOf, rowsOf } from "../logic/tables.js";
import { countText, plural } from "../logic/text.js";
import {
  Age, Empty, ErrorNotice, Field, Heading, html, Loading, Notice, Status, Table, useConsole, useLoaded, useRights, useTitle,
} from "../ui.js";
import { useState } from "../vendor/preact.js";

const STATUS_COLUMN = /^(status|phase|ready|state|type|established|available|healthy)$/i;

export default function Objects({ args, query }) {
  const kind = useKind(args);
  useTitle(kind?.kind ?? args[2]);
  return kind ? html`<${Known} kind=${kind} query=${query} />` : html`<${Unknown} args=${args} />`;
}

/** Returns the kind that a route names; undefined if the tenant does not serve it. */
export function useKind([group, version, name]) {
  return findKind(useConsole().kinds, group === CORE ? "" : group, version, name);
}

export function Unknown({ args }) {
  const { kinds, reloadKinds, href } = useConsole();
  const other = kinds.find((one) => one.group === args[0] && one.plural === args[2]);
  return html`<${Notice} kind="warning"><p>This tenant serves no ${args[2]} in ${args[0]}/${args[1]}.</p>
    ${other && html`<p><a href=${href({ page: "objects", args: kindArgs(other) })}>It serves ${other.version}.</a></p>`}
    <button type="button" onClick=${reloadKinds}>Refresh</button></>`;
}

function Known({ kind, query }) {
  const { api, tenant, href } = useConsole();
  const { ns = "" } = query;
  const [wide, setWide] = useState(false);
  const resource = { group: kind.group, resource: kind.plural, namespace: ns };
  const may = useRights({ create: { ...resource, verb: "create" }, deleted: { ...resource, verb: "list", subresource: "deleted" } });
  // The fields of the printer columns, to sort by. Without the right to read definitions: name and age only.
  const definition = useLoaded((signal) => {
    return isBuiltin(kind) ? null : api.get(resourcePath(tenant, DEFINITIONS, { name: qualifiedName(kind) }), { signal }).catch(() => null);
  }, [tenant, kind]).value;
  const version = definition?.spec.versions.find((one) => one.name === kind.version);
  const paths = Object.fromEntries((version?.additionalPrinterColumns ?? []).map((one) => [one.name, orderOf(one.jsonPath)]));
  const about = [qualifiedName(kind), kind.version, kind.namespaced ? ns || "all namespaces" : "cluster-wide"].join(" · ");
  return html`<${Listing} kind=${kind} tenant=${tenant} namespace=${ns} query=${query} title=${kind.kind} about=${about}
    columns=${(list) => columnsOf(kind, list?.columnDefinitions ?? [], paths, { ns, wide, tenant })}
    actions=${html`
      ${definition && html`<a class="button" href=${href({ page: "definition", args: [qualifiedName(kind)] })}>Definition</a>`}
      ${may.deleted && html`<a class="button" href=${href({ page: "deleted", args: kindArgs(kind), query: { ns } })}>Deleted</a>`}
      ${may.create && kind.verbs.includes("create") && html`<a class="button main"
          href=${href({ page: "new", args: kindArgs(kind), query: { ns } })}>New</a>`}`}
    bar=${(list, change) => html`
      ${kind.namespaced && html`<${NamespaceChoice} value=${ns} onChange=${(value) => change({ ns: value })} />`}
      ${list?.columnDefinitions?.some((column) => column.priority > 0) && html`<label><input type="checkbox" checked=${wide}
          onChange=${() => setWide(!wide)} /> All columns</label>`}`} />`;
}

/**
 * A live list with filters and pages, whose state is in the route: `query` is `{filter, labels, sort, page}`. `columns(list)`
 * returns the columns of the Table, `bar(list, change)` more controls beside the filters.
 */
export function Listing({ kind, tenant, namespace = "", query, title, about, columns, actions, bar, accept = TABLE }) {
  const { go } = useConsole();
  const { filter = "", labels = "", sort = "", page = "1" } = query;
  const selection = { labelSelector: labels, filter: filterOf(filter), orderBy: orderBy(sort) };
  const found = useList(kind, { tenant, namespace, query: selection, page: Number(page) || 1, accept });
  const { hash } = location;
  const change = (fields) => go(`${hash.split("?")[0]}${formatRoute({ query: { ...query, page: "", ...fields } }).replace(/^[^?]*/, "")}`);
  const rows = found.error ? [] : rowsOf(found.list);
  const first = (Number(page) - 1) * PAGE;
  const turn = (to, text, is) => html`<button type="button" disabled=${!is} onClick=${() => change({ page: to })}>${text}</button>`;
  return html`<${Heading} parts=${[[title]]} about=${about}><${Live} state=${found.state} />${actions}</>
    <div class="bar-row"><${Field} name="filter" value=${filter} onEnter=${(text) => change({ filter: text })}
        label="Filter: parts of names, or an expression in CEL" placeholder="Name, or object.spec.size > 3" />
      <${Field} name="labels" value=${labels} onEnter=${(text) => change({ labels: text })} label="Label selector"
        placeholder="Labels: team=storage" />${bar?.(found.list, change)}
      <span class="quiet" role="status">${found.total >= 0 && !found.error ? plural(found.total, "object") : ""}</span></div>
    ${found.error && html`<${ListError} found=${found} kind=${kind} namespace=${namespace}
        undo=${filter || sort ? () => change({ filter: "", sort: "" }) : null} />`}
    ${found.message && !found.error && html`<${Notice} kind="warning">${found.message}</>`}
    ${!found.list ? !found.error && html`<${Loading} />`
      : rows.length === 0 ? !found.error && html`<${Empty}>${filter || labels ? "No objects match." : "There are no objects."}</>`
      : html`<${Table} label=${`${title} objects`} columns=${columns(found.list)} rows=${rows} keyOf=${(row) => row.key} total=${found.total}
          sort=${sort} onSort=${(value) => change({ sort: value })}
          rowClass=${(row) => (row.deleting ? "deleting" : found.fresh.has(row.uid) ? "fresh" : "")} />`}
    ${(first > 0 || found.more) && html`<nav class="bar-row" aria-label="Pages">
      ${turn("", "First", first > 0)}${turn(Number(page) - 1, "Previous", first > 0)}
      <span class="quiet">${countText(first + 1)} to ${countText(first + rows.length)}${found.total ? ` of ${countText(found.total)}` : ""}</span>
      ${turn(Number(page) + 1, "Next", found.more)}</nav>`}`;
}

function Live({ state }) {
  const texts = { loading: "loading", live: "live", cut: "connection cut, trying again", static: "not live" };
  if (!texts[state]) return null;
  return html`<span class=${`live ${{ live: "live-on", cut: "live-cut" }[state] ?? ""}`} role="status">${texts[state]}</span>`;
}

function ListError({ found: { error, again }, kind, namespace, undo }) {
  return html`<${ErrorNotice} error=${error} again=${again} />
    ${undo && html`<p>The server cannot list it this way. <button type="button" onClick=${undo}>Clear filter and sorting</button></p>`}
    ${error.code === 403 && kind.namespaced && !namespace && html`<p>You may not list all namespaces. Choose a namespace that you have access to.</p>`}`;
}

/** An input for a namespace, which suggests those that the user may list. */
export function NamespaceChoice({ value, onChange }) {
  const { api, tenant } = useConsole();
  const path = resourcePath(tenant, { group: "", version: "v1", plural: "namespaces" }, { query: { limit: 500 } });
  const found = useLoaded((signal) => api.get(path, { accept: METADATA_LIST, signal }).catch(() => ({ items: [] })), [path]);
  return html`<${Field} label="Namespace; empty for all" placeholder="All namespaces" list="namespaces" value=${value} onEnter=${onChange}
      onChange=${(event) => onChange(event.target.value.trim())}>
    <datalist id="namespaces">${rowsOf(found.value).map(({ name }) => html`<option key=${name} value=${name} />`)}</datalist></>`;
}

/** The columns of kubectl: namespace and name, then the printer columns. */
function columnsOf(kind, definitions, paths, { ns, wide, tenant }) {
  const link = (row) => html`<a href=${objectRoute(tenant, kind, row.namespace, row.name)}>${row.name}</a>`;
  const inNamespace = (row) => formatRoute({ tenant, page: "objects", args: kindArgs(kind), query: { ns: row.namespace } });
  const columns = definitions.filter(({ priority }) => wide || !priority).map((definition) => {
    const { name, type, format, description: about } = definition;
    const index = definitions.indexOf(definition);
    if (format === "name") return { id: "name", title: "Name", about, order: "metadata.name", cell: link };
    if (name === "Age" && ["date", "string"].includes(type)) {
      const age = (row) => (row.deleting ? html`<${Status} text="Terminating" />` : html`<${Age} time=${row.created} />`);
      return { id: "age", title: name, about, order: "metadata.creationTimestamp", cell: age };
    }
    const status = (row) => html`<${Status} text=${row.cells[index]} />`;
    const cell = STATUS_COLUMN.test(name) ? status : (row) => cellText(row.cells[index]);
    return { id: name, title: name, about, numeric: ["integer", "number"].includes(type), order: paths[name], cell };
  });
  if (!kind.namespaced || ns) return columns;
  const cell = (row) => html`<a href=${inNamespace(row)} tabindex="-1">${row.namespace}</a>`;
  return [{ id: "namespace", title: "Namespace", order: "metadata.namespace", cell }, ...columns];
}

const cellText = (value) => (value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value));
