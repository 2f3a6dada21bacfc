// A tenant at a glance: who you are, what is used, what kinds there are and how many objects they have.
import { isBuiltin, qualifiedName } from "../logic/kinds.js";
import { resourcePath } from "../logic/paths.js";
import { HOME, kindArgs } from "../logic/routes.js";
import { bytesText, countText } from "../logic/text.js";
import { countObjects, forEachAtOnce } from "../relations.js";
import { Bars } from "../plots.js";
import { ErrorNotice, Heading, html, Meter, Status, useConsole, useLoaded, useRights, useTitle } from "../ui.js";
import { useEffect, useState } from "../vendor/preact.js";
import { DEFINITIONS } from "./definitions.js";
import { healthOf, SYSTEM, TENANTS, usageOf } from "./tenants.js";

// Kinds that are counted without being asked to.
const COUNTED = 24;
const QUOTAS = { group: "", version: "v1", plural: "resourcequotas", namespaced: true };

export default function Overview() {
  const { api, tenant, kinds, user, href } = useConsole();
  useTitle(tenant === HOME ? "Overview" : tenant);
  const custom = kinds.filter((kind) => kind.preferred && !isBuiltin(kind) && kind.verbs.includes("list"));
  const [most, setMost] = useState(COUNTED);
  const [counts, setCounts] = useState(new Map());
  useEffect(() => {
    const abort = new AbortController();
    forEachAtOnce(custom.slice(0, most), async (kind) => {
      const count = await countObjects(api, tenant, kind, { signal: abort.signal });
      if (!abort.signal.aborted) setCounts((old) => new Map(old).set(qualifiedName(kind), count));
    }, abort.signal).catch(() => {});
    return () => abort.abort();
  }, [api, tenant, kinds, most]);
  const name = tenant === HOME ? "" : tenant;
  const state = useLoaded(async (signal) => {
    if (!name) return null;
    const usage = await usageOf(api, name, signal);
    return usage && { usage, object: await api.get(resourcePath(SYSTEM, TENANTS, { name }), { signal }).catch(() => null) };
  }, [name]);
  const quotas = useLoaded((signal) => api.get(resourcePath(tenant, QUOTAS, { query: { limit: 100 } }), { signal }).catch(() => ({ items: [] })), [tenant]);
  const may = useRights({ define: { verb: "create", group: DEFINITIONS.group, resource: DEFINITIONS.plural } });
  const version = useLoaded((signal) => api.get("/version", { signal }), []);
  const isCounting = counts.size < Math.min(most, custom.length);
  const countOf = (kind) => counts.get(qualifiedName(kind));
  const bars = custom
    .filter((kind) => countOf(kind) > 0)
    .sort((a, b) => countOf(b) - countOf(a))
    .slice(0, 12)
    .map((kind) => ({ name: kind.kind, value: countOf(kind), text: countText(countOf(kind)) }));
  return html`<${Heading} parts=${[[name || "Your tenant"]]} about=${state.value?.object?.spec?.displayName ?? ""} />
    <div class="cards">
      <section class="card"><h2>You</h2><p class="mono">${user ?? "…"}</p><p class="quiet">Kubernetes API ${version.value?.gitVersion ?? "…"}</p></section>
      <section class="card"><h2>Kinds</h2><p class="figure">${countText(custom.length)}</p>
        <p><a href=${href({ page: "definitions" })}>Definitions</a> · <a href=${href({ page: "kinds" })}>all kinds</a></p></section>
      ${state.value && html`<${Usage} usage=${state.value.usage}
          health=${state.value.object && healthOf(state.value.object, state.value.usage)} />`}
    </div>
    ${version.error && html`<${ErrorNotice} error=${version.error} again=${version.again} />`}
    <section class="card"><h2>Objects</h2>
      ${custom.length === 0 && html`<p>This tenant has no kinds of its own yet. ${may.define && html`<a
          href=${href({ page: "new", args: [DEFINITIONS.group, "v1", DEFINITIONS.plural] })}>Define one</a>,
          or apply a definition with kubectl.`}</p>`}
      ${bars.length > 0 ? html`<${Bars} title="Objects of each kind" bars=${bars} />`
        : custom.length > 0 && html`<p class="quiet">None that you can see${isCounting ? " yet: counting" : ""}.</p>`}
      <p>${custom.slice(0, most).map((kind) => html`<a key=${qualifiedName(kind)} class="chip"
          href=${href({ page: "objects", args: kindArgs(kind) })}>${kind.kind} ${countOf(kind) === undefined ? "" : countText(countOf(kind))}</a>`)}</p>
      ${custom.length > most && html`<button type="button"
          onClick=${() => setMost(most + 100)}>Count ${Math.min(100, custom.length - most)} more kinds</button>`}</section>
    ${quotas.value?.items.length > 0 && html`<section class="card"><h2>Quotas of namespaces</h2><${Quotas}
        items=${quotas.value.items} /></section>`}`;
}

function Usage({ usage, health }) {
  const rows = [["objects", countText], ["bytes", bytesText], ["definitions", countText], ["namespaces", countText]];
  return html`<section class="card"><h2>Use ${health && html`· <${Status} text=${health} />`}</h2><dl class="facts">
    ${rows.map(([name, format]) => html`<dt key=${name}>${name}</dt><dd><${Meter} label=${name}
        used=${usage.used[name]} limit=${usage.limits[name]}
        text=${usage.limits[name] === undefined ? format(usage.used[name]) : `${format(usage.used[name])} of ${format(usage.limits[name])}`} /></dd>`)}
  </dl></section>`;
}

function Quotas({ items }) {
  return html`<dl class="facts">${items.flatMap(({ metadata, status }) => Object.entries(status?.hard ?? {}).map(([name, limit]) => {
    const used = status.used?.[name] ?? "0";
    return html`<dt>${metadata.namespace} · ${name}</dt><dd><${Meter} label=${name} used=${Number(used)}
        limit=${Number(limit)} text=${`${used} of ${limit}`} /></dd>`;
  }))}</dl>`;
}
