// Objects and writes of a kind over time, and how long its conditions have had their status: the server's figures
// (docs/statistics.md).
import { resourcePath } from "../logic/paths.js";
import { pointsOf } from "../logic/scales.js";
import { countText, durationText, plural, timeText } from "../logic/text.js";
import { Bars, TimePlot } from "../plots.js";
import { ErrorNotice, html, Loading, useConsole, useLoaded } from "../ui.js";
import { useState } from "../vendor/preact.js";

const HOUR = 3600;
const PERIODS = [["an hour", HOUR], ["a day", 24 * HOUR], ["a week", 168 * HOUR], ["a month", 720 * HOUR]];

export function Figures({ kind, namespace = "" }) {
  const { api, tenant } = useConsole();
  const [seconds, setSeconds] = useState(24 * HOUR);
  const query = { statistics: true, sinceSeconds: seconds, buckets: 48, conditions: true };
  const found = useLoaded((signal) => api.get(resourcePath(tenant, kind, { namespace, query }), { signal }), [tenant, kind, namespace, seconds]);
  const periods = html`<div class="bar-row" role="group" aria-label="Period">${PERIODS.map(([text, length]) => html`<button
      type="button" key=${text} aria-pressed=${length === seconds} onClick=${() => setSeconds(length)}>${text}</button>`)}
    <button type="button" onClick=${found.again}>Count again</button></div>`;
  if (found.error) return html`${periods}<${ErrorNotice} error=${found.error} again=${found.again} />`;
  if (!found.value) return html`${periods}<${Loading} what="Counting" />`;
  const { since, objects, conditions } = found.value;
  const { from, to, lines, writes } = pointsOf(found.value);
  return html`${periods}
    <section class="card"><h2>${plural(objects, "object")}</h2><${TimePlot} title="Objects" series=${lines} from=${from} to=${to} />
      <p class="quiet">Counted since ${timeText(since)}.</p></section>
    <section class="card"><h2>Writes</h2><${TimePlot} title="Writes" kind="columns" series=${writes} from=${from} to=${to} /></section>
    ${conditions.states.slice(0, 6).map((state) => html`<${TimeInState} key=${`${state.type} ${state.status}`} state=${state} />`)}
    ${!conditions.complete && html`<p class="quiet">Conditions are those of the first ${countText(conditions.examined)} objects.</p>`}`;
}

function TimeInState({ state: { type, status, objects, medianSeconds, durations = [] } }) {
  const bars = durations.map(({ belowSeconds, objects: value }) => {
    return { name: belowSeconds ? `under ${durationText(belowSeconds)}` : "longer", value, text: countText(value) };
  });
  const median = medianSeconds === undefined ? "" : `, for ${durationText(medianSeconds)} in the median`;
  return html`<section class="card"><h2>${type} is ${status}: ${plural(objects, "object")}${median}</h2>
    ${bars.length > 0 && html`<${Bars} title=${`${type} is ${status}`} bars=${bars} />`}</section>`;
}
