// Statistics of a kind (docs/statistics.md): objects, writes and conditions over time, and time in the current status.
import { resourcePath } from "../logic/paths.js";
import { conditionLines, pointsOf } from "../logic/scales.js";
import { countText, durationText, plural, timeText } from "../logic/text.js";
import { Bars, TimePlot } from "../plots.js";
import { ErrorNotice, html, Loading, useConsole, useLoaded } from "../ui.js";
import { useState } from "../vendor/preact.js";

const HOUR = 3600;
const PERIODS = [["Hour", HOUR], ["Day", 24 * HOUR], ["Week", 168 * HOUR], ["Month", 720 * HOUR]];

/** `created` is when the kind was defined; for a new one the first period is an hour. */
export function Figures({ kind, created, namespace = "" }) {
  const { api, tenant } = useConsole();
  const [seconds, setSeconds] = useState(Date.now() - Date.parse(created) < 6 * HOUR * 1000 ? HOUR : 24 * HOUR);
  const query = { statistics: true, sinceSeconds: seconds, buckets: 48, conditions: true };
  const found = useLoaded((signal) => api.get(resourcePath(tenant, kind, { namespace, query }), { signal }), [tenant, kind, namespace, seconds]);
  const periods = html`<div class="bar-row" role="group" aria-label="Period">${PERIODS.map(([text, length]) => html`<button
      type="button" key=${text} aria-pressed=${length === seconds} onClick=${() => setSeconds(length)}>${text}</button>`)}
    <button type="button" onClick=${found.again}>Refresh</button></div>`;
  if (found.error) return html`${periods}<${ErrorNotice} error=${found.error} again=${found.again} />`;
  if (!found.value) return html`${periods}<${Loading} what="Counting" />`;
  const { since, objects, conditions } = found.value;
  const { from, to, lines, writes } = pointsOf(found.value);
  return html`${periods}
    <section class="card"><h2>${plural(objects, "object")}</h2><${TimePlot} title="Objects" series=${lines} from=${from} to=${to} />
      <p class="quiet">Counted since ${timeText(since)}.</p></section>
    <section class="card"><h2>Writes</h2><${TimePlot} title="Writes" kind="columns" series=${writes} from=${from} to=${to} /></section>
    ${conditionLines(found.value).slice(0, 4).map(({ type, series }) => html`<section class="card" key=${type}><h2>${type}</h2>
      <${TimePlot} title=${type} series=${series} from=${from} to=${to} /></section>`)}
    <div class="cards">${conditions.states.slice(0, 8).map((state) => html`<${TimeInState}
        key=${`${state.type} ${state.status}`} state=${state} />`)}</div>
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
