// The objects of a kind: printer columns, live, filtered and sorted.
import { METADATA_LIST } from "../api.js";
import { LiveList } from "../livelist.js";
import { findKind, qualifiedName } from "../logic/kinds.js";
import { resourcePath } from "../logic/paths.js";
import { CORE, formatRoute, kindArgs, objectRoute } from "../logic/routes.js";
import { filterRows, sortRows } from "../logic/rows.js";
import { countText, plural } from "../logic/text.js";
import { Age, Empty, ErrorNotice, Heading, html, Loading, Notice, Status, useConsole, useLoaded, useRights, useTitle, VirtualTable } from "../ui.js";
import { useCallback, useEffect, useMemo, useState } from "../vendor/preact.js";

const STATUS_COLUMN = /^(status|phase|ready|state|type|established|available|healthy)$/i;
// Of so many rows and more, filtering and sorting wait until typing has paused.
const MANY = 5000;

export default function Objects({ args, query }) {
  const { kinds, go } = useConsole();
  const [group, version, plural_] = args;
  const kind = findKind(kinds, group === CORE ? "" : group, version, plural_);
  useTitle(kind?.kind ?? plural_);
  if (!kind) return html`<${Unknown} args=${args} />`;
  const change = (fields) => go({ page: "objects", args, query: { ...query, ...fields } });
  return html`<${List} key=${`${query.ns ?? ""} ${query.labels ?? ""} ${query.filter ?? ""}`} kind=${kind}
      query=${query} change=${change} />`;
}

export function Unknown({ args }) {
  const { kinds, reloadKinds, href } = useConsole();
  const other = kinds.find((one) => one.group === args[0] && one.plural === args[2]);
  return html`<${Notice} kind="warning"><p>This tenant serves no ${args[2]} in ${args[0]}/${args[1]}.</p>
    ${other && html`<p><a href=${href({ page: "objects", args: kindArgs(other) })}>It serves ${other.version}.</a></p>`}
    <button type="button" onClick=${reloadKinds}>Look again</button></>`;
}

function List({ kind, query, change }) {
  const { api, tenant, go, href } = useConsole();
  const { ns = "", labels = "", filter: wanted = "", sort = "" } = query;
  const [, draw] = useState(0);
  const [filter, setFilter] = useState(query.q ?? "");
  const [wide, setWide] = useState(false);
  const [list, setList] = useState(null);
  useEffect(() => {
    const selectors = { labelSelector: labels, filter: wanted };
    const made = new LiveList(api, tenant, kind, { namespace: ns, query: selectors, onChange: () => draw((old) => old + 1) });
    setList(made.start());
    return () => made.stop();
  }, [api, tenant, kind]);
  const resource = { group: kind.group, resource: kind.plural, namespace: ns };
  const may = useRights({ create: { ...resource, verb: "create" }, deleted: { ...resource, verb: "list", subresource: "deleted" } });
  const columns = useMemo(() => columnsOf(kind, list?.columns ?? [], { ns, wide, tenant }), [kind, list?.columns, ns, wide, tenant]);
  const all = list?.rows.values() ?? [];
  const shown = useMemo(() => sortRows(filterRows(all, filter), sort, list?.columns ?? []), [list?.drawn, filter, sort, list, all.length > MANY ? 0 : all]);
  const onEnd = useCallback(() => filter === "" && list?.loadMore(), [list, filter]);
  if (!list) return null;
  const total = all.length + list.remaining;
  const where = ns ? ` in the namespace ${ns}` : "";
  const none = `There are none${where}${labels ? " with these labels" : ""}${wanted ? " of which the query is true" : ""}.`;
  const about = [qualifiedName(kind), kind.version, kind.namespaced ? ns || "all namespaces" : "cluster-wide"].join(" · ");
  return html`<${Heading} parts=${[[kind.kind]]} about=${about}>
      <${Live} list=${list} />
      ${may.deleted && html`<a class="button" href=${href({ page: "deleted", args: kindArgs(kind), query: { ns } })}>Deleted</a>`}
      ${may.create && kind.verbs.includes("create") && html`<a class="button main"
          href=${href({ page: "new", args: kindArgs(kind), query: { ns } })}>New</a>`}
    </>
    <div class="bar-row">
      ${kind.namespaced && html`<${NamespaceChoice} value=${ns} onChange=${(value) => change({ ns: value })} />`}
      <input type="search" aria-label="Filter the rows" placeholder="Filter" value=${filter}
          onInput=${(event) => setFilter(event.target.value)} />
      <form onSubmit=${(event) => (event.preventDefault(), change({ labels: new FormData(event.target).get("labels").trim() }))}>
        <input type="search" name="labels" aria-label="Label selector" placeholder="Labels: team=storage"
            value=${labels} spellcheck=${false} />
      </form>
      <form onSubmit=${(event) => (event.preventDefault(), change({ filter: new FormData(event.target).get("query").trim() }))}>
        <input type="search" name="query" class="query" aria-label="Query in CEL: objects of which it is true"
            placeholder="Query: object.spec.size > 3" value=${wanted} spellcheck=${false} />
      </form>
      ${list.columns.some((column) => column.priority > 0) && html`<label><input type="checkbox" checked=${wide}
          onChange=${() => setWide(!wide)} /> All columns</label>`}
      <span class="quiet" role="status">${counts(list, all.length, shown.length, total, filter)}</span>
      ${!list.complete && (filter || sort) && list.state !== "failed" && html`<button type="button"
          onClick=${() => list.loadAll()}>Load all ${countText(total)}</button>`}
    </div>
    ${list.error && html`<${ListError} error=${list.error} kind=${kind} ns=${ns}
        again=${() => go(location.hash) || location.reload()} />`}
    ${list.message && !list.error && html`<${Notice} kind="warning">${list.message}</>`}
    ${list.state === "loading" && all.length === 0 ? html`<${Loading} />`
      : all.length === 0 && !list.error && list.complete ? html`<${Empty}>${none}</>`
      : all.length > 0 && html`<${VirtualTable} label=${`${kind.kind} objects`} columns=${columns} rows=${shown}
          keyOf=${(row) => row.key} total=${total}
          sort=${sort || (ns ? "name" : "namespace")} onSort=${(value) => change({ sort: value })} onEnd=${onEnd}
          rowClass=${(row) => (row.deleting ? "deleting" : Date.now() - (list.changed.get(row.key) ?? 0) < 1500 ? "fresh" : "")} />`}`;
}

function counts(list, loaded, shown, total, filter) {
  if (list.state === "loading" && loaded === 0) return "";
  if (list.complete) return filter ? `${countText(shown)} of ${plural(loaded, "object")}` : plural(loaded, "object");
  return `${filter ? `${countText(shown)} among ` : ""}the first ${countText(loaded)} of ${countText(total)} objects`;
}

function Live({ list }) {
  const texts = { loading: "loading", live: "live", cut: "connection cut, trying again", static: "not live", failed: "" };
  if (!texts[list.state]) return null;
  return html`<span class=${`live ${{ live: "live-on", cut: "live-cut" }[list.state] ?? ""}`}
      role="status">${texts[list.state]}</span>`;
}

function ListError({ error, kind, ns, again }) {
  return html`<${ErrorNotice} error=${error} again=${again} />
    ${error.code === 403 && kind.namespaced && !ns && html`<p>You may not list all namespaces. Name a namespace that is open to you.</p>`}`;
}

/** A namespace by name, with those that the user may list to choose from. */
export function NamespaceChoice({ value, onChange }) {
  const { api, tenant } = useConsole();
  const path = resourcePath(tenant, { group: "", version: "v1", plural: "namespaces" }, { query: { limit: 500 } });
  const found = useLoaded((signal) => api.get(path, { accept: METADATA_LIST, signal }).catch(() => ({ items: [] })), [path]);
  const names = (found.value?.items ?? []).map((one) => one.metadata.name);
  const submit = (event) => {
    event.preventDefault();
    onChange(event.currentTarget.value.trim());
  };
  return html`<input type="search" aria-label="Namespace; empty for all" placeholder="All namespaces"
      list="namespaces" value=${value} onChange=${submit} spellcheck=${false} autocomplete="off" />
    <datalist id="namespaces">${names.map((name) => html`<option key=${name} value=${name} />`)}</datalist>`;
}

/** Columns as kubectl has them: namespace and name first, then the cells that are neither. */
function columnsOf(kind, definitions, { ns, wide, tenant }) {
  const link = (row) => html`<a href=${objectRoute(tenant, kind, row.namespace, row.name)}>${row.name}</a>`;
  const columns = [];
  if (kind.namespaced && !ns) {
    const of = (namespace) => formatRoute({ tenant, page: "objects", args: kindArgs(kind), query: { ns: namespace } });
    const cell = (row) => html`<a href=${of(row.namespace)} tabindex="-1">${row.namespace}</a>`;
    columns.push({ id: "namespace", title: "Namespace", cell });
  }
  const hasName = definitions.some((one) => one.format === "name");
  if (!hasName) columns.push({ id: "name", title: "Name", cell: link });
  definitions.forEach((definition, index) => {
    if (definition.priority > 0 && !wide) return;
    if (definition.format === "name") return columns.push({ id: "name", title: "Name", about: definition.description, cell: link });
    const isAge = definition.name === "Age" && (definition.type === "date" || definition.type === "string");
    const numeric = ["integer", "number"].includes(definition.type);
    columns.push({
      id: isAge ? "age" : String(index), title: definition.name, about: definition.description, numeric,
      cell: isAge ? (row) => (row.deleting ? html`<${Status} text="Terminating" />` : html`<${Age} time=${row.created} />`)
        : STATUS_COLUMN.test(definition.name) ? (row) => html`<${Status} text=${row.cells[index]} />`
        : (row) => cellText(row.cells[index]),
    });
  });
  return columns;
}

const cellText = (value) => (value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value));
