// Objects and writes of a kind over time, and how long its objects have been in their present state.
import { METADATA_LIST } from "../api.js";
import { conditionsOf } from "../logic/changes.js";
import { resourcePath } from "../logic/paths.js";
import { binned, countOverTime } from "../logic/scales.js";
import { countText, durationText } from "../logic/text.js";
import { Bars, TimePlot } from "../plots.js";
import { ErrorNotice, html, Loading, useConsole, useLoaded } from "../ui.js";
import { useState } from "../vendor/preact.js";

const HOUR = 3_600_000;
const PERIODS = [["1h", "an hour", HOUR], ["24h", "a day", 24 * HOUR], ["168h", "a week", 168 * HOUR]];
const PAGE = 500;
// Objects that are counted, and whose conditions are read.
const MOST = 20_000;
const MOST_WHOLE = 500;
const BINS = 48;

export function Figures({ kind, namespace = "" }) {
  const { api, tenant } = useConsole();
  const [chosen, setPeriod] = useState("");
  const lives = useLoaded((signal) => livesOf(api, tenant, kind, namespace, signal), [tenant, kind, namespace]);
  const states = useLoaded((signal) => statesOf(api, tenant, kind, namespace, signal), [tenant, kind, namespace]);
  if (lives.error) return html`<${ErrorNotice} error=${lives.error} again=${lives.again} />`;
  if (!lives.value) return html`<${Loading} what="Counting" />`;
  const to = lives.value.at;
  // At first the shortest that shows when the oldest object was made.
  const oldest = lives.value.found.reduce((least, one) => Math.min(least, one.from), to);
  const [period, , length] = PERIODS.find(([id, , ms]) => (chosen ? id === chosen : to - oldest < ms)) ?? PERIODS.at(-1);
  const from = to - length;
  const { found, partly, deletions } = lives.value;
  const created = found.map((one) => one.from);
  const deleted = found.map((one) => one.to).filter((time) => time !== undefined);
  const updated = lives.value.updated;
  return html`<div class="bar-row" role="group" aria-label="Period">${PERIODS.map(([id, text]) => html`<button type="button" key=${id} aria-pressed=${id === period} onClick=${() => setPeriod(id)}>${text}</button>`)}
      <button type="button" onClick=${() => (lives.again(), states.again())}>Count again</button></div>
    <section class="card"><h2>Objects</h2><${TimePlot} title="Objects" series=${[{ name: "objects", points: countOverTime(found, from, to) }]} from=${from} to=${to} />
      ${partly && html`<p class="quiet">Of the first ${countText(MOST)} objects.</p>`}
      ${!deletions && html`<p class="quiet">Without deleted objects, which are not open to you.</p>`}</section>
    <section class="card"><h2>Writes</h2>
      <${TimePlot} title="Writes" kind="columns" from=${from} to=${to} series=${[
        { name: "created", points: binned(created, from, to, BINS) }, { name: "last changed", points: binned(updated, from, to, BINS) }, { name: "deleted", points: binned(deleted, from, to, BINS) },
      ]} /></section>
    ${states.value?.map((one) => html`<section class="card" key=${one.type}><h2>${one.type}: time in the present state</h2><${Bars} title=${one.type} bars=${one.bars} />
      ${one.partly && html`<p class="quiet">Of the first ${MOST_WHOLE} objects.</p>`}</section>`)}`;
}

/** When objects came, were changed last, and went: `{found: [{from, to}], updated, partly, deletions, at}`. */
async function livesOf(api, tenant, kind, namespace, signal) {
  const found = [];
  const updated = [];
  let next = "";
  do {
    const list = await api.get(resourcePath(tenant, kind, { namespace, query: { limit: PAGE, continue: next } }), { accept: METADATA_LIST, signal });
    for (const { metadata } of list.items) {
      const from = Date.parse(metadata.creationTimestamp);
      found.push({ from, to: undefined });
      const last = Math.max(...(metadata.managedFields ?? []).map((one) => Date.parse(one.time ?? 0) || 0), 0);
      if (last > from + 1000) updated.push(last);
    }
    next = list.metadata.continue ?? "";
  } while (next && found.length < MOST);
  const partly = next !== "";
  let deletions = true;
  try {
    do {
      const list = await api.get(resourcePath(tenant, kind, { namespace, query: { deleted: true, limit: PAGE, continue: next } }), { signal });
      for (const entry of list.items) {
        if (entry.object) found.push({ from: Date.parse(entry.object.metadata.creationTimestamp), to: Date.parse(entry.time) });
      }
      next = list.metadata.continue ?? "";
    } while (next && found.length < MOST);
  } catch (error) {
    if (error.code !== 403) throw error;
    deletions = false;
  }
  return { found, updated, partly, deletions, at: Date.now() };
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
