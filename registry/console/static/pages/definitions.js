// The definitions of a tenant: versions, scope, conditions.
import { resourcePath } from "../logic/paths.js";
import { filterRows } from "../logic/rows.js";
import { plural } from "../logic/text.js";
import { Age, Empty, ErrorNotice, Heading, html, Loading, Status, useConsole, useLoaded, useRights, useTitle, VirtualTable } from "../ui.js";
import { useMemo, useState } from "../vendor/preact.js";

export const DEFINITIONS = { group: "apiextensions.k8s.io", version: "v1", plural: "customresourcedefinitions", namespaced: false };
const PAGE = 50; // whole definitions are large

export default function Definitions() {
  useTitle("Definitions");
  const { api, tenant, href } = useConsole();
  const [text, setText] = useState("");
  const [rows, setRows] = useState([]);
  const loaded = useLoaded(async (signal) => {
    let next = "";
    let all = [];
    do {
      const list = await api.get(resourcePath(tenant, DEFINITIONS, { query: { limit: PAGE, continue: next } }), { signal });
      all = [...all, ...list.items.map(rowOfDefinition)];
      setRows(all);
      next = list.metadata.continue;
    } while (next);
    return all;
  }, [tenant]);
  const may = useRights({ create: { group: DEFINITIONS.group, resource: DEFINITIONS.plural, verb: "create" } });
  const shown = useMemo(() => filterRows(rows, text), [rows, text]);
  const columns = [
    { id: "kind", title: "Kind", cell: (row) => html`<a href=${href({ page: "definition", args: [row.name] })}>${row.kind}</a>` },
    { id: "name", title: "Name", cell: (row) => row.name },
    { id: "versions", title: "Versions", cell: (row) => row.versions },
    { id: "scope", title: "Scope", cell: (row) => row.scope },
    { id: "state", title: "Established", cell: (row) => html`<${Status} text=${row.established} />` },
    { id: "fault", title: "Faults", cell: (row) => row.faults },
    { id: "age", title: "Age", cell: (row) => html`<${Age} time=${row.created} />` },
  ];
  return html`<${Heading} parts=${[["Definitions"]]}
      about=${`${plural(rows.length, "definition")}${loaded.loading ? ", loading more" : ""}`}>
      ${may.create && html`<a class="button main"
          href=${href({ page: "new", args: [DEFINITIONS.group, "v1", DEFINITIONS.plural] })}>New</a>`}</>
    <div class="bar-row"><input type="search" aria-label="Search definitions" placeholder="Search" value=${text}
        onInput=${(event) => setText(event.target.value)} /></div>
    <${ErrorNotice} error=${loaded.error} again=${loaded.again} />
    ${rows.length > 0 ? html`<${VirtualTable} label="Definitions" columns=${columns} rows=${shown} keyOf=${(row) => row.name} />`
      : loaded.loading ? html`<${Loading} />` : !loaded.error && html`<${Empty}>There are no definitions yet.</>`}`;
}

function rowOfDefinition({ metadata, spec, status }) {
  const conditions = status?.conditions ?? [];
  const of = (type) => conditions.find((one) => one.type === type);
  // What is a fault when it is true; the others are when they are false.
  const isBad = { Terminating: () => false, NonStructuralSchema: (one) => one.status === "True" };
  const faults = conditions.filter((one) => (isBad[one.type] ?? (() => one.status === "False"))(one));
  const marks = (one) => [one.storage && "stored", !one.served && "not served", one.deprecated && "deprecated"].filter(Boolean);
  const versions = spec.versions.map((one) => [one.name, ...marks(one).map((mark) => `(${mark})`)].join(" ")).join(", ");
  return {
    name: metadata.name, kind: spec.names.kind, namespace: "", labels: metadata.labels ?? {}, created: metadata.creationTimestamp, versions, scope: spec.scope,
    established: metadata.deletionTimestamp ? "Terminating" : (of("Established")?.status ?? "Unknown"),
    faults: faults.map((one) => `${one.type}: ${one.reason}`).join(", "),
    cells: [spec.names.kind, spec.group, ...(spec.names.shortNames ?? []), ...(spec.names.categories ?? []), versions],
  };
}
