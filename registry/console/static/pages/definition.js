// A definition: names and conditions, the schema as a tree, figures over time, SQL views.
import { DEFINITIONS, qualifiedName } from "../logic/kinds.js";
import { resourcePath } from "../logic/paths.js";
import { HOME, kindArgs, objectRoute } from "../logic/routes.js";
import { constraintsOf, fieldsOf, isDeprecated, rulesOf, typeText } from "../logic/schema.js";
import { columnsOf, exampleQueries, viewName } from "../logic/sql.js";
import { Age, Copyable, Empty, ErrorNotice, Heading, html, Loading, Notice, SmallTable, Status, Tabs, useConsole, useLoaded, useTitle } from "../ui.js";
import { useState } from "../vendor/preact.js";
import { Figures } from "./figures.js";

const TABS = [["about", "About"], ["schema", "Schema"], ["figures", "Over time"], ["sql", "SQL"]];

export default function Definition({ args, query }) {
  const [name] = args;
  useTitle(name);
  const { api, tenant, kinds, href } = useConsole();
  const loaded = useLoaded((signal) => api.get(resourcePath(tenant, DEFINITIONS, { name }), { signal }), [tenant, name]);
  const { tab = "about" } = query;
  if (loaded.error && !loaded.value) return html`<${Heading}
      parts=${[["Definitions", href({ page: "definitions" })], [name]]} /><${ErrorNotice} error=${loaded.error}
      again=${loaded.again} />`;
  if (!loaded.value) return html`<${Loading} />`;
  const definition = loaded.value;
  const { spec, metadata } = definition;
  const version = spec.versions.find((one) => one.name === query.version) ?? spec.versions.find((one) => one.storage);
  const served = kinds.find((one) => qualifiedName(one) === metadata.name && one.preferred);
  const kind = { ...DEFINITIONS, kind: "CustomResourceDefinition" };
  return html`<${Heading} parts=${[["Definitions", href({ page: "definitions" })], [spec.names.kind]]}
      about=${html`${metadata.name} · ${spec.scope} · created <${Age} time=${metadata.creationTimestamp} /> ago`}>
      <a class="button" href=${objectRoute(tenant, kind, "", name)}>As YAML</a>
      ${served && html`<a class="button main" href=${href({ page: "objects", args: kindArgs(served) })}>Objects</a>`}
    </>
    <${Tabs} tabs=${TABS} current=${tab}
        href=${(id) => href({ page: "definition", args, query: { tab: id === "about" ? "" : id, version: query.version } })} />
    ${tab === "about" && html`<${About} definition=${definition} />`}
    ${tab === "schema" && html`<${Schema} definition=${definition} version=${version}
        to=${(one) => href({ page: "definition", args, query: { tab, version: one } })} />`}
    ${tab === "figures" && (served ? html`<${Figures} kind=${served}
        created=${metadata.creationTimestamp} />` : html`<${Empty}>It is not served.</>`)}
    ${tab === "sql" && html`<${Sql} definition=${definition} tenant=${tenant === HOME ? "" : tenant} />`}`;
}

function About({ definition: { spec, status, metadata } }) {
  const conditions = status?.conditions ?? [];
  const annotations = Object.entries(metadata.annotations ?? {}).filter(([name]) => !name.startsWith("kubectl."));
  return html`<div class="cards">
      <section class="card"><h2>Names</h2><dl class="facts">
        <dt>Kind</dt><dd>${spec.names.kind}</dd><dt>Group</dt><dd>${spec.group}</dd><dt>Plural</dt><dd>${spec.names.plural}</dd>
        <dt>Short names</dt><dd>${(spec.names.shortNames ?? []).join(", ") || "none"}</dd>
        <dt>Categories</dt><dd>${(spec.names.categories ?? []).join(", ") || "none"}</dd>
        <dt>Conversion</dt><dd>${spec.conversion?.strategy ?? "None"}</dd>
        <dt>Stored versions</dt><dd>${(status?.storedVersions ?? []).join(", ")}</dd>
      </dl></section>
      <section class="card"><h2>Conditions</h2>${conditions.length === 0 && html`<p class="quiet">none</p>`}<dl class="facts">
        ${conditions.map((one) => html`<dt key=${one.type}>${one.type}</dt><dd><${Status}
            text=${one.status} /> <span class="quiet">${one.reason}, <${Age}
            time=${one.lastTransitionTime} /> ago<br />${one.message}</span></dd>`)}
      </dl></section>
      <section class="card"><h2>Annotations</h2>${annotations.length === 0 && html`<p class="quiet">none</p>`}<dl class="facts">
        ${annotations.map(([name, value]) => html`<dt key=${name}>${name}</dt><dd>${value}</dd>`)}
      </dl></section>
    </div>
    <h2>Versions</h2>
    <${SmallTable} label="Versions" wrap head=${["Version", "Served", "Stored", "Subresources", "Columns", "Selectable fields"]}>
      ${spec.versions.map((one) => html`<${Version} key=${one.name} version=${one} />`)}
    </>`;
}

function Version({ version }) {
  const columns = version.additionalPrinterColumns ?? [];
  return html`<tr>
    <td>${version.name}${version.deprecated && html` <${Status} text="deprecated" />`}
      <div class="quiet">${version.deprecationWarning ?? ""}</div></td>
    <td>${version.served ? "yes" : "no"}</td>
    <td>${version.storage ? "yes" : "no"}</td>
    <td>${Object.keys(version.subresources ?? {}).join(", ")}</td>
    <td>${columns.map((one) => html`<div title=${one.description}>${one.name} <code>${one.jsonPath}</code></div>`)}</td>
    <td>${(version.selectableFields ?? []).map((one) => html`<div><code>${one.jsonPath}</code></div>`)}</td>
  </tr>`;
}

function Schema({ definition, version, to }) {
  const schema = version.schema?.openAPIV3Schema;
  const fields = fieldsOf(schema).filter((one) => !["apiVersion", "kind", "metadata"].includes(one.name));
  return html`<div class="bar-row">${definition.spec.versions.map((one) => html`<a key=${one.name} class="chip"
      href=${to(one.name)} aria-current=${one === version ? "true" : undefined}>${one.name}</a>`)}
      <span class="quiet"><span class="required">*</span> required</span></div>
    ${version.deprecated && html`<${Notice} kind="warning">${version.deprecationWarning ?? `${version.name} is deprecated.`}</>`}
    ${!schema ? html`<${Empty}>This version has no schema.</>` : html`<section class="card">
      ${schema.description && html`<p>${schema.description}</p>`}
      <ul class="tree">${fields.map((one) => html`<${Field} key=${one.name} field=${one} depth=${0} />`)}</ul>
      <${Rules} schema=${schema} /></section>`}`;
}

/** A field; its children are rendered when it is opened, so that large schemas stay cheap. */
function Field({ field: { name, schema, required }, depth }) {
  const [open, setOpen] = useState(depth < 1);
  const inner = fieldsOf(schema);
  const label = html`<span class="name">${name}</span>${required && html`<span class="required"
      title="required">*</span>`}<span class="type">${typeText(schema)}</span>
    ${isDeprecated(schema) && html`<span class="chip">deprecated</span>`}${constraintsOf(schema).map((one) => html`<span class="chip" key=${one}>${one}</span>`)}`;
  const about = html`${schema.description && html`<p>${schema.description}</p>`}<${Rules} schema=${schema} />`;
  const kind = isDeprecated(schema) ? "deprecated" : "";
  if (inner.length === 0) return html`<li class=${kind}><div class="leaf">${label}</div>${about}</li>`;
  return html`<li class=${kind}><details open=${open}
      onToggle=${(event) => setOpen(event.currentTarget.open)}><summary>${label}</summary>${about}
    ${open && html`<ul>${inner.map((one) => html`<${Field} key=${one.name} field=${one}
        depth=${depth + 1} />`)}</ul>`}</details></li>`;
}

function Rules({ schema }) {
  return rulesOf(schema).map((one) => html`<p key=${one.rule}>Rule: <code>${one.rule}</code>${one.message ? html`<br />${one.message}` : ""}</p>`);
}

function Sql({ definition: { spec, metadata }, tenant }) {
  if (metadata.annotations?.["reporting.registry/views"] === "off") {
    return html`<${Empty}>This definition has no SQL views: its annotation reporting.registry/views is "off".</>`;
  }
  const stored = spec.versions.find((one) => one.storage);
  const view = viewName(spec.names.plural, spec.group);
  const marked = (metadata.annotations?.["reporting.registry/sensitive"] ?? "").split(",").filter((one) => one.trim());
  const hidden = marked.map((one) => one.trim().replace(/^\./, "").replace(/\[.*$/, ""));
  const columns = columnsOf(stored.schema?.openAPIV3Schema, hidden);
  const queries = view && exampleQueries(view, columns, spec.scope === "Namespaced");
  const who = `--tenant ${tenant || "<tenant>"}`;
  if (!view) {
    return html`<p>The name of this definition is long, so the server has shortened the names of its views. To list them:</p>
      <${Copyable} text="SELECT * FROM reports.definitions;" />`;
  }
  return html`<section class="card"><h2>Connect</h2>
      <${Copyable} label="On the server's machine"
          text=${`registry psql ${who} -- -c "SELECT * FROM reports.${view} LIMIT 10"`} />
      <${Copyable} label="A login for an analyst, which reads the views of this tenant and nothing else"
          text=${`registry sql grant analyst ${who}`} /></section>
    <section class="card"><h2>Queries</h2>
      ${queries.map((one) => html`<${Copyable} key=${one.title} label=${one.title} text=${one.sql} />`)}</section>
    <section class="card"><h2>Views</h2><p><code>${view}</code>, <code>${view}_conditions</code>, <code>${view}_raw</code>,
      <code>${view}_history</code>. Their columns:</p><${Copyable} label="In psql" text=${`\\d reports.${view}`} /></section>`;
}
