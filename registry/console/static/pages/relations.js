// Owners and dependents of an object, as a graph.
import { BOX, layout } from "../logic/graph.js";
import { objectRoute } from "../logic/routes.js";
import { findDependents, findOwners } from "../relations.js";
import { Empty, ErrorNotice, html, Loading, useConsole, useLoaded } from "../ui.js";
import { useState } from "../vendor/preact.js";

// Boxes that are drawn of a step; more are counted.
const DRAWN = 40;
const STEPS = 3;

export default function Relations({ kind, namespace, object }) {
  const { api, tenant, kinds } = useConsole();
  const [progress, setProgress] = useState("");
  const { uid } = object.metadata;
  const found = useLoaded((signal) => relationsOf(api, tenant, kinds, kind, namespace, object, signal, setProgress), [uid, kinds]);
  if (found.error) return html`<${ErrorNotice} error=${found.error} again=${found.again} />`;
  if (!found.value) return html`<${Loading} what=${`Looking for owners and dependents ${progress}`} />`;
  const { nodes, edges, hidden, partly } = found.value;
  if (nodes.length === 1) return html`<${Empty}>It has no owner, and nothing that you can see has it as an owner.<${Partly} partly=${partly} /></>`;
  const graph = layout(nodes, edges);
  return html`<div class="card graph" tabindex="0" role="region" aria-label="Owners and dependents">
      <svg width=${graph.width + 4} height=${graph.height + 4}
          viewBox=${`-2 -2 ${graph.width + 4} ${graph.height + 4}`} role="group" aria-label="Owners are left of what they own">
        ${graph.edges.map((edge) => html`<path key=${`${edge.from} ${edge.to}`} d=${edge.path} />`)}
        ${graph.nodes.map((node) => html`<${Box} key=${node.id} node=${node} tenant=${tenant} />`)}
      </svg></div>
    ${hidden > 0 && html`<p class="quiet">${hidden} more are not drawn.</p>`}
    <${Partly} partly=${partly} />
    <p><button type="button" onClick=${found.again}>Look again</button></p>`;
}

function Partly({ partly }) {
  if (partly.length === 0) return null;
  return html`<p class="quiet">Not looked through: ${partly.slice(0, 6).join("; ")}${partly.length > 6 ? ` and ${partly.length - 6} more kinds` : ""}</p>`;
}

function Box({ node, tenant }) {
  const cut = (text) => (text.length > 29 ? `${text.slice(0, 28)}…` : text);
  const inside = html`<title>${`${node.title} ${node.name}`}</title><rect width=${BOX.width} height=${BOX.height} rx="7" />
    <text x="10" y="18" class="quiet">${cut(node.title)}</text><text x="10" y="35">${cut(node.name)}</text>`;
  const place = `translate(${node.x} ${node.y})`;
  if (!node.kind || node.level === 0) return html`<g transform=${place}
      class=${node.level === 0 ? "here" : "missing"}>${inside}</g>`;
  return html`<a href=${objectRoute(tenant, node.kind, node.namespace, node.name, { tab: "relations" })}
      transform=${place} class=${node.missing ? "missing" : ""}>${inside}</a>`;
}

/** `{nodes, edges, hidden, partly}` of the owners, the object, and three steps of dependents. */
async function relationsOf(api, tenant, kinds, kind, namespace, object, signal, report) {
  const { metadata } = object;
  const nodes = [{ id: metadata.uid, level: 0, title: kind.kind, name: metadata.name, kind, namespace }];
  const edges = [];
  const known = new Set([metadata.uid]);
  let hidden = 0;
  const add = (node) => !known.has(node.id) && (known.add(node.id), nodes.push(node));
  const levels = new Map([[metadata.uid, 0]]);
  for (const owner of await findOwners(api, tenant, kinds, metadata, signal)) {
    const level = (levels.get(owner.of) ?? 0) - 1;
    levels.set(owner.reference.uid, Math.min(level, levels.get(owner.reference.uid) ?? 0));
    const { uid: id, kind: title, name } = owner.reference;
    add({ id, level, title, name, kind: owner.kind, namespace: owner.namespace, missing: !owner.metadata });
    edges.push({ from: owner.reference.uid, to: owner.of });
  }
  let level = [metadata.uid];
  let partly = [];
  for (let step = 1; step <= STEPS && level.length > 0; step += 1) {
    const progress = (done, all) => report(`(step ${step}: ${done} of ${all} kinds)`);
    const result = await findDependents(api, tenant, kinds, level, namespace, { signal, progress });
    partly = result.partly;
    const above = new Set(level);
    level = [];
    for (const { kind: found, metadata: one } of result.found) {
      const isNew = !known.has(one.uid);
      if (isNew && level.length >= DRAWN) {
        hidden += 1;
        continue;
      }
      for (const owner of one.ownerReferences ?? []) if (above.has(owner.uid)) edges.push({ from: owner.uid, to: one.uid });
      if (!isNew) continue;
      add({ id: one.uid, level: step, title: found.kind, name: one.name, kind: found, namespace: one.namespace ?? "" });
      level.push(one.uid);
    }
  }
  return { nodes, edges, hidden, partly };
}
