// An overview of a tenant: usage, objects of each kind, quotas.
import { DEFINITIONS, isBuiltin, qualifiedName } from "../logic/kinds.js";
import { resourcePath } from "../logic/paths.js";
import { HOME, kindArgs } from "../logic/routes.js";
import { countText } from "../logic/text.js";
import { Bars } from "../plots.js";
import { countObjects, forEachAtOnce } from "../relations.js";
import { ErrorNotice, Heading, html, Meter, Status, useConsole, useLoaded, useRights, useTitle } from "../ui.js";
import { useEffect, useState } from "../vendor/preact.js";
import { FIGURES, healthOf, SYSTEM, TENANTS, Usage, usageOf } from "./tenants.js";

// Kinds that are counted before the user asks for more.
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
    }, abort.signal);
    return () => abort.abort();
  }, [api, tenant, kinds, most]);
  const name = tenant === HOME ? "" : tenant;
  const state = useLoaded(async (signal) => {
    const usage = name && (await usageOf(api, name, signal));
    return usage && { usage, object: await api.get(resourcePath(SYSTEM, TENANTS, { name }), { signal }).catch(() => null) };
  }, [name]);
  const quotas = useLoaded((signal) => api.get(resourcePath(tenant, QUOTAS, { query: { limit: 100 } }), { signal }).catch(() => null), [tenant]);
  const may = useRights({ define: { verb: "create", group: DEFINITIONS.group, resource: DEFINITIONS.plural } });
  const version = useLoaded((signal) => api.get("/version", { signal }), []);
  const to = (kind) => href({ page: "objects", args: kindArgs(kind) });
  const countOf = (kind) => counts.get(qualifiedName(kind));
  const counted = custom.filter((kind) => countOf(kind) > 0).sort((a, b) => countOf(b) - countOf(a));
  const bars = counted.slice(0, 12).map((kind) => ({ name: kind.kind, value: countOf(kind), text: countText(countOf(kind)), href: to(kind) }));
  const others = custom.slice(0, most).filter((kind) => !counted.slice(0, 12).includes(kind));
  const isCounting = counts.size < Math.min(most, custom.length);
  const create = { page: "new", args: [DEFINITIONS.group, "v1", DEFINITIONS.plural] };
  return html`<${Heading} parts=${[[name || "Your tenant"]]} about=${state.value?.object?.spec?.displayName ?? ""} />
    <div class="stats">
      ${state.value && html`<${Use} ...${state.value} />`}
      <section class="card"><h2>Custom kinds</h2><p class="figure">${countText(custom.length)}</p>
        <p><a href=${href({ page: "definitions" })}>Definitions</a> · <a href=${href({ page: "kinds" })}>All kinds</a></p></section>
      <section class="card"><h2>Signed in as</h2><p class="figure name">${user ?? "…"}</p>
        <p class="quiet">Kubernetes API ${version.value?.gitVersion ?? "…"}</p></section>
    </div>
    <${ErrorNotice} error=${version.error} again=${version.again} />
    <section class="card"><h2>Objects</h2>
      ${custom.length === 0 && html`<p>This tenant has no kinds of its own yet. ${may.define && html`<a
          href=${href(create)}>Define one</a>, or apply a definition with kubectl.`}</p>`}
      ${bars.length > 0 ? html`<${Bars} title="Objects of each kind" bars=${bars} />`
        : custom.length > 0 && html`<p class="quiet">None that you can see${isCounting ? " yet: counting" : ""}.</p>`}
      ${others.length > 0 && html`<p>${others.map((kind) => html`<a key=${qualifiedName(kind)} class="chip"
          href=${to(kind)}>${kind.kind} ${countOf(kind) >= 0 ? countText(countOf(kind)) : ""}</a>`)}</p>`}
      ${custom.length > most && html`<button type="button"
          onClick=${() => setMost(most + 100)}>Count ${Math.min(100, custom.length - most)} more kinds</button>`}</section>
    ${quotas.value?.items.length > 0 && html`<section class="card"><h2>Quotas of namespaces</h2><dl class="facts">
      ${quotas.value.items.flatMap(quotaMeters)}</dl></section>`}`;
}

function Use({ usage, object }) {
  return html`<section class="card"><h2>Usage ${object && html`· <${Status} text=${healthOf(object, usage)} />`}</h2><dl class="facts">
    ${FIGURES.map(([name, title]) => html`<dt key=${name}>${title}</dt><dd><${Usage} usage=${usage} name=${name} /></dd>`)}</dl></section>`;
}

function quotaMeters({ metadata, status }) {
  return Object.entries(status?.hard ?? {}).map(([name, limit]) => {
    const used = status.used?.[name] ?? "0";
    return html`<dt>${metadata.namespace} · ${name}</dt><dd><${Meter} label=${name} used=${Number(used)}
        limit=${Number(limit)} text=${`${used} of ${limit}`} /></dd>`;
  });
}
