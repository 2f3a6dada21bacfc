// The history of an object: who changed what, differences between revisions, restore.
import { Difference } from "../editor.js";
import { changesOf, conditionSpans, quotaLines } from "../logic/changes.js";
import { resourcePath } from "../logic/paths.js";
import { timeText } from "../logic/text.js";
import { withoutManagedFields } from "../logic/yamldoc.js";
import { Spans, TimePlot } from "../plots.js";
import { Age, Dialog, Empty, ErrorNotice, html, Loading, useConsole, useLoaded } from "../ui.js";
import { useState } from "../vendor/preact.js";

const YAML = "application/yaml";
// Revisions whose conditions are plotted.
const DRAWN = 50;

export default function History({ kind, namespace, name, object, gone, may }) {
  const { api, tenant } = useConsole();
  const [more, setMore] = useState([]);
  const [chosen, setChosen] = useState([]);
  const [shown, setShown] = useState(null);
  const [restoring, setRestoring] = useState(null);
  const load = (query, signal) => api.get(resourcePath(tenant, kind, { namespace, name, subresource: "history", query }), { signal });
  const version = object?.metadata.resourceVersion;
  const first = useLoaded((signal) => (setMore([]), load({ limit: DRAWN, object: true }, signal)), [version, gone]);
  if (first.error && !first.value) return html`<${ErrorNotice} error=${first.error} again=${first.again} />`;
  if (!first.value) return html`<${Loading} />`;
  const pages = [first.value, ...more];
  const items = pages.flatMap((page) => page.items);
  const next = pages.at(-1).metadata.continue;
  const choose = (entry) => setChosen((old) => (old.includes(entry) ? old.filter((one) => one !== entry) : [...old.slice(-1), entry]));
  const [older, newer] = [...chosen].sort((a, b) => Number(a.resourceVersion) - Number(b.resourceVersion));
  const states = first.value.items.map((one) => ({ time: one.time, object: one.operation === "Delete" ? null : one.object })).reverse();
  const spans = conditionSpans(states, Date.now());
  const use = kind.plural === "resourcequotas" && !kind.group ? quotaLines(states) : [];
  return html`
    ${use.length > 0 && html`<section class="card"><h2>Used</h2><${TimePlot} title="Used" series=${use}
        from=${Math.min(...use.map(({ points }) => points[0][0]))} to=${Date.now()} /></section>`}
    ${spans.length > 0 && html`<section class="card"><h2>Time in state</h2><${Spans} rows=${spans} /></section>`}
    <div class="bar-row">
      <button type="button" disabled=${chosen.length !== 2} onClick=${() => setShown([older, newer])}>Compare selected</button>
      <span class="quiet">Select two revisions to compare. The history begins at revision ${first.value.metadata.retainedSince}.</span>
    </div>
    ${items.length === 0 ? html`<${Empty}>Its history is no longer kept.</>` : html`<ol class="timeline card"
        aria-label="History, newest first">
      ${items.map((entry, index) => html`<${Entry} key=${entry.resourceVersion} entry=${entry}
          chosen=${chosen.includes(entry)} choose=${() => choose(entry)}
          show=${() => setShown([before(items, index, entry), entry])}
        restore=${may.restore && object && !gone && entry.operation !== "Delete" && entry.resourceVersion !== version && (() => setRestoring(entry))} />`)}
    </ol>`}
    ${next && html`<p><button type="button"
        onClick=${async () => setMore([...more, await load({ limit: DRAWN, continue: next })])}>Older</button></p>`}
    ${shown && html`<${Compared} kind=${kind} namespace=${namespace} name=${name} pair=${shown}
        onClose=${() => setShown(null)} />`}
    ${restoring && html`<${Restoring} kind=${kind} namespace=${namespace} name=${name} entry=${restoring}
        uid=${object.metadata.uid} onClose=${() => setRestoring(null)} />`}`;
}

/** The entry before this one; null for a create. */
function before(items, index, entry) {
  if (!entry.previousResourceVersion) return null;
  return items[index + 1] ?? { resourceVersion: entry.previousResourceVersion, operation: "Update" };
}

function Entry({ entry, chosen, choose, show, restore }) {
  const { changes, more } = entry.operation === "Update" && entry.diff ? changesOf(entry.diff) : { changes: [], more: 0 };
  const how = [entry.verb, entry.fieldManager].filter(Boolean).join(", ");
  return html`<li>
    <div><label><input type="checkbox" checked=${chosen} onChange=${choose}
        aria-label=${`Compare revision ${entry.resourceVersion}`} /> ${timeText(entry.time)}</label>
      <div class="quiet"><${Age} time=${entry.time} /> ago · ${entry.resourceVersion}</div></div>
    <div><strong>${entry.operation}</strong> by ${entry.user || "the server"} <span class="quiet">(${how})</span>
      ${entry.message && html`<p class="quiet">${entry.message}</p>`}
      ${changes.map((one) => html`<p class="changes">${one.path}: ${one.text}</p>`)}${more > 0 && html`<p class="changes">and ${more} more</p>`}</div>
    <div class="actions"><button type="button"
        onClick=${show}>Difference</button>${restore && html`<button type="button" onClick=${restore}>Restore</button>`}</div>
  </li>`;
}

/** Returns the object at a revision as YAML; empty before it was created and after it was deleted. */
async function stateAt(api, tenant, kind, namespace, name, entry, signal) {
  if (!entry || entry.operation === "Delete") return "";
  const query = { atResourceVersion: entry.resourceVersion };
  const response = await api.send("GET", resourcePath(tenant, kind, { namespace, name, query }), { accept: YAML, signal });
  // The revision always differs, and is in the heading.
  return withoutManagedFields(await response.text()).replace(/^ {2}resourceVersion: .*\n/m, "");
}

/** Two texts, `load(signal)`, side by side; `children` is the footer. */
function Differences({ title, load, labels, error, onClose, children }) {
  const texts = useLoaded(load, []);
  return html`<${Dialog} title=${title} wide=${true} onClose=${onClose}>
    <div class="body"><${ErrorNotice} error=${error ?? texts.error} />
      ${texts.value ? html`<${Difference} left=${texts.value[0]} right=${texts.value[1]} leftLabel=${labels[0]} rightLabel=${labels[1]} />`
        : !texts.error && html`<${Loading} />`}</div>
    ${texts.value && children}</>`;
}

function Compared({ kind, namespace, name, pair, onClose }) {
  const { api, tenant } = useConsole();
  const load = (signal) => Promise.all(pair.map((entry) => stateAt(api, tenant, kind, namespace, name, entry, signal)));
  const label = (entry) => {
    if (!entry) return "Before it was created";
    if (entry.operation === "Delete") return "Deleted";
    return `Revision ${entry.resourceVersion}${entry.time ? `, ${timeText(entry.time)}` : ""}`;
  };
  return html`<${Differences} title=${`What changed in ${name}`} load=${load} labels=${pair.map(label)} onClose=${onClose} />`;
}

/** Shows the result of a restore, from a dry run, beside the current object. */
function Restoring({ kind, namespace, name, entry, uid, onClose }) {
  const { api, tenant, notify } = useConsole();
  const [error, setError] = useState(null);
  const body = { resourceVersion: entry.resourceVersion, preconditions: { uid } };
  const path = (query) => resourcePath(tenant, kind, { namespace, name, subresource: "restore", query });
  const load = async (signal) => {
    const now = await api.send("GET", resourcePath(tenant, kind, { namespace, name }), { accept: YAML, signal });
    const then = await api.send("POST", path({ dryRun: "All" }), { body, accept: YAML, signal });
    return [withoutManagedFields(await now.text()), withoutManagedFields(await then.text())];
  };
  const restore = async () => {
    try {
      await api.post(path({}), body);
      notify(`Restored as it was at revision ${entry.resourceVersion}.`);
      onClose();
    } catch (failure) {
      setError(failure);
    }
  };
  return html`<${Differences} title=${`Restore ${name}`} load=${load} error=${error} onClose=${onClose}
      labels=${["Now", `Restored from revision ${entry.resourceVersion}`]}>
    <footer><button type="button" onClick=${onClose}>Cancel</button>
      <button type="button" class="main" onClick=${restore}>Restore</button></footer></>`;
}
