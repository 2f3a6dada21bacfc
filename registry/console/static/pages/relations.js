// Owners and dependents of an object, as a graph.
import { BOX, layout } from "../logic/graph.js";
import { kindOfReference } from "../logic/kinds.js";
import { objectRoute } from "../logic/routes.js";
import { findDependents, findOwners, forEachAtOnce } from "../relations.js";
import { Empty, ErrorNotice, html, Loading, useConsole, useLoaded } from "../ui.js";

// Boxes drawn in one column; a note says that there are more.
const DRAWN = 40;
const STEPS = 3;

export default function Relations({ kind, namespace, object }) {
  const { api, tenant, kinds } = useConsole();
  const found = useLoaded((signal) => relationsOf(api, tenant, kinds, kind, namespace, object, signal), [object.metadata.uid, kinds]);
  if (found.error) return html`<${ErrorNotice} error=${found.error} again=${found.again} />`;
  if (!found.value) return html`<${Loading} what="Looking for owners and dependents" />`;
  const { nodes, edges, more } = found.value;
  if (nodes.length === 1) return html`<${Empty}>It has no owners, and no dependents that you can list.</>`;
  const graph = layout(nodes, edges);
  return html`<div class="card graph" tabindex="0" role="region" aria-label="Owners and dependents">
      <svg width=${graph.width + 4} height=${graph.height + 4} viewBox=${`-2 -2 ${graph.width + 4} ${graph.height + 4}`}
          role="group" aria-label="Owners are left of what they own">
        ${graph.edges.map((edge) => html`<path key=${`${edge.from} ${edge.to}`} d=${edge.path} />`)}
        ${graph.nodes.map((node) => html`<${Box} key=${node.id} node=${node} tenant=${tenant} />`)}
      </svg></div>
    ${more && html`<p class="quiet">Not all of them are drawn.</p>`}
    <p><button type="button" onClick=${found.again}>Refresh</button></p>`;
}

function Box({ node, tenant }) {
  const cut = (text) => (text.length > 29 ? `${text.slice(0, 28)}…` : text);
  const inside = html`<title>${`${node.title} ${node.name}`}</title><rect width=${BOX.width} height=${BOX.height} rx="7" />
    <text x="10" y="18" class="quiet">${cut(node.title)}</text><text x="10" y="35">${cut(node.name)}</text>`;
  const place = `translate(${node.x} ${node.y})`;
  if (!node.kind || node.level === 0) {
    return html`<g transform=${place} class=${node.level === 0 ? "here" : "missing"}>${inside}</g>`;
  }
  return html`<a href=${objectRoute(tenant, node.kind, node.namespace, node.name, { tab: "relations" })}
      transform=${place} class=${node.missing ? "missing" : ""}>${inside}</a>`;
}

/** `{nodes, edges, more}` of the owners, the object, and three steps of dependents. */
async function relationsOf(api, tenant, kinds, kind, namespace, { metadata }, signal) {
  const here = { id: metadata.uid, level: 0, title: kind.kind, name: metadata.name, kind, namespace };
  const nodes = new Map([[metadata.uid, here]]);
  const edges = [];
  for (const { reference, of, isThere, ...place } of await findOwners(api, tenant, kinds, metadata, signal)) {
    const level = Math.min(nodes.get(of).level - 1, nodes.get(reference.uid)?.level ?? 0);
    nodes.set(reference.uid, { ...place, id: reference.uid, level, title: reference.kind, name: reference.name, missing: !isThere });
    edges.push({ from: reference.uid, to: of });
  }
  let more = false;
  let above = [here];
  for (let step = 1; step <= STEPS; step += 1) {
    const next = [];
    await forEachAtOnce(above.filter((one) => one.kind), async (owner) => {
      const found = await findDependents(api, tenant, owner.kind, owner, { limit: DRAWN, signal });
      more ||= found.more;
      for (const { apiVersion, kind: title, metadata: one } of found.items) {
        const isNew = !nodes.has(one.uid);
        if (isNew && next.length >= DRAWN) more = true;
        else edges.push({ from: owner.id, to: one.uid });
        if (!isNew || next.length >= DRAWN) continue;
        const node = { id: one.uid, level: step, title, name: one.name, namespace: one.namespace ?? "", kind: kindOfReference(kinds, apiVersion, title) };
        nodes.set(one.uid, node);
        next.push(node);
      }
    }, signal);
    above = next;
  }
  return { nodes: [...nodes.values()], edges, more };
}
