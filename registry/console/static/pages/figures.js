// Objects and writes of a kind over time, and how long its objects have been in their present state.
import { METADATA_LIST } from "../api.js";
import { conditionsOf } from "../logic/changes.js";
import { resourcePath } from "../logic/paths.js";
import { binned, countOverTime } from "../logic/scales.js";
import { countText, durationText } from "../logic/text.js";
import { forEachAtOnce } from "../relations.js";
import { Bars, TimePlot } from "../plots.js";
import { ErrorNotice, html, Loading, useConsole, useLoaded } from "../ui.js";
import { useState } from "../vendor/preact.js";

const HOUR = 3_600_000;
const PERIODS = [["1h", "an hour", HOUR], ["24h", "a day", 24 * HOUR], ["168h", "a week", 168 * HOUR]];
const PAGE = 500;
// Objects that are counted, and whose conditions are read.
const MOST = 20_000;
const MOST_WHOLE = 500;
// Histories that are read for the plot of writes.
const MOST_READ = 200;
const BINS = 48;

export function Figures({ kind, namespace = "" }) {
  const { api, tenant } = useConsole();
  const [chosen, setPeriod] = useState("");
  const lives = useLoaded((signal) => livesOf(api, tenant, kind, namespace, signal), [tenant, kind, namespace]);
  const states = useLoaded((signal) => statesOf(api, tenant, kind, namespace, signal), [tenant, kind, namespace]);
  const { found = [], at: to = Date.now(), partly, deletions } = lives.value ?? {};
  // At first the shortest period that shows when the oldest object was made.
  const oldest = found.reduce((least, one) => Math.min(least, one.from), to);
  const [period, , length] = PERIODS.find(([id, , ms]) => (chosen ? id === chosen : to - oldest < ms)) ?? PERIODS.at(-1);
  const from = to - length;
  const writes = useLoaded((signal) => lives.value && writesOf(api, tenant, kind, found, from, signal), [lives.value, period]);
  if (lives.error) return html`<${ErrorNotice} error=${lives.error} again=${lives.again} />`;
  if (!lives.value) return html`<${Loading} what="Counting" />`;
  return html`<div class="bar-row" role="group"
      aria-label="Period">${PERIODS.map(([id, text]) => html`<button type="button" key=${id}
      aria-pressed=${id === period} onClick=${() => setPeriod(id)}>${text}</button>`)}
      <button type="button" onClick=${() => (lives.again(), states.again())}>Count again</button></div>
    <section class="card"><h2>Objects</h2><${TimePlot} title="Objects"
        series=${[{ name: "objects", points: countOverTime(found, from, to) }]} from=${from} to=${to} />
      ${partly && html`<p class="quiet">Of the first ${countText(MOST)} objects.</p>`}
      ${!deletions && html`<p class="quiet">Without deleted objects, which are not open to you.</p>`}</section>
    <section class="card"><h2>Writes</h2>${writes.value ? html`<${Writes} writes=${writes.value} from=${from}
        to=${to} />` : writes.error ? html`<${ErrorNotice} error=${writes.error}
        again=${writes.again} />` : html`<${Loading} what="Reading histories" />`}</section>
    ${states.value?.map((one) => html`<section class="card"
        key=${one.type}><h2>${one.type}: time in the present state</h2><${Bars} title=${one.type} bars=${one.bars} />
      ${one.partly && html`<p class="quiet">Of the first ${MOST_WHOLE} objects.</p>`}</section>`)}`;
}

function Writes({ writes, from, to }) {
  const series = Object.entries(writes.times).map(([name, times]) => ({ name, points: binned(times, from, to, BINS) }));
  return html`<${TimePlot} title="Writes" kind="columns" from=${from} to=${to} series=${series} />
    ${writes.left > 0 && html`<p class="quiet">Of the ${countText(MOST_READ)} objects that were changed last;
      ${countText(writes.left)} more were changed in this time.</p>`}
    ${!writes.whole && html`<p class="quiet">Their histories are not open to you: of each object its creation, last change and deletion.</p>`}`;
}

/** When and how objects came and went: `{found: [{from, to, last, name, namespace}], partly, deletions, at}`, times in ms. */
async function livesOf(api, tenant, kind, namespace, signal) {
  const found = [];
  const life = (metadata, to) => {
    const from = Date.parse(metadata.creationTimestamp);
    const last = Math.max(from, to ?? 0, ...(metadata.managedFields ?? []).map((one) => Date.parse(one.time ?? 0) || 0));
    return { from, to, last, name: metadata.name, namespace: metadata.namespace ?? "" };
  };
  let next = "";
  do {
    const list = await api.get(resourcePath(tenant, kind, { namespace, query: { limit: PAGE, continue: next } }), { accept: METADATA_LIST, signal });
    found.push(...list.items.map((one) => life(one.metadata, undefined)));
    next = list.metadata.continue ?? "";
  } while (next && found.length < MOST);
  const partly = next !== "";
  let deletions = true;
  next = "";
  try {
    do {
      const list = await api.get(resourcePath(tenant, kind, { namespace, query: { deleted: true, limit: PAGE, continue: next } }), { signal });
      found.push(...list.items.filter((one) => one.object).map((one) => life(one.object.metadata, Date.parse(one.time))));
      next = list.metadata.continue ?? "";
    } while (next && found.length < MOST);
  } catch (error) {
    if (error.code !== 403) throw error;
    deletions = false;
  }
  return { found, partly, deletions, at: Date.now() };
}

/**
 * Every write since a time, from the histories of the objects that were changed last:
 * `{times: {created, changed, deleted}, whole, left}`; `left` objects were changed, too, and not read.
 */
async function writesOf(api, tenant, kind, found, since, signal) {
  const recent = found.filter((one) => one.last >= since).sort((a, b) => b.last - a.last);
  const read = recent.slice(0, MOST_READ);
  const times = { created: [], changed: [], deleted: [] };
  const names = { Create: "created", Update: "changed", Delete: "deleted" };
  const left = recent.length - read.length;
  try {
    await forEachAtOnce(read, async ({ namespace, name }) => {
      const path = resourcePath(tenant, kind, { namespace, name, subresource: "history", query: { diff: "none", limit: 500 } });
      const list = await api.get(path, { signal });
      for (const entry of list.items) times[names[entry.operation]].push(Date.parse(entry.time));
    }, signal);
    return { times, whole: true, left };
  } catch (error) {
    if (error.code !== 403) throw error;
    const changed = found.filter((one) => one.last > one.from + 1000 && one.last !== one.to).map((one) => one.last);
    return { times: { created: found.map((one) => one.from), changed, deleted: found.map((one) => one.to).filter(Boolean) }, whole: false, left: 0 };
  }
}

const CLASSES = [["under a minute", 60], ["under an hour", 3600], ["under a day", 86_400], ["under a week", 604_800], ["longer", Infinity]];

/** How long objects have been in the present state of their conditions: `[{type, bars, partly}]`, at most four types. */
async function statesOf(api, tenant, kind, namespace, signal) {
  const list = await api.get(resourcePath(tenant, kind, { namespace, query: { limit: MOST_WHOLE } }), { signal });
  const types = new Map();
  for (const object of list.items) {
    for (const one of conditionsOf(object)) {
      const key = `${one.type} is ${one.status}`;
      types.set(key, [...(types.get(key) ?? []), (Date.now() - Date.parse(one.lastTransitionTime)) / 1000]);
    }
  }
  return [...types].slice(0, 4).map(([type, seconds]) => {
    const known = seconds.filter((one) => one >= 0).sort((a, b) => a - b);
    let least = 0;
    const bars = CLASSES.map(([name, most]) => {
      const value = known.filter((one) => one >= least && one < most).length;
      least = most;
      return { name, value, text: countText(value) };
    });
    const median = known[Math.floor(known.length / 2)];
    return { type: `${type} (median ${median === undefined ? "unknown" : durationText(median)})`, bars, partly: Boolean(list.metadata.continue) };
  });
}
