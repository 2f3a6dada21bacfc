// Small SVG plots. Colours are classes in app.css; the accessible label of a plot has its last values.
import { countText, durationText, timeText } from "./logic/text.js";
import { niceTicks, timeTicks } from "./logic/scales.js";
import { html, Meter } from "./ui.js";
import { useLayoutEffect, useRef, useState } from "./vendor/preact.js";

const LEFT = 48;

/** Returns `[ref, width in pixels]` of an element: plots are drawn at their real size, so that text is not scaled. */
function useWidth() {
  const box = useRef();
  const [width, setWidth] = useState(640);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.max(240, Math.floor(entry.contentRect.width))));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return [box, width];
}

/** Lines or columns over time. `series`: `[{name, points: [[ms, value]]}]`; `kind` is "line" (steps) or "columns" (stacked). */
export function TimePlot({ title, series, from, to, kind = "line", height = 190 }) {
  const [box, width] = useWidth();
  const bottom = height - 22;
  const stacked = kind === "columns";
  const tops = stacked ? sums(series) : series.flatMap((one) => one.points.map(([, value]) => value));
  const ticks = niceTicks(Math.max(1, ...tops));
  const x = (time) => LEFT + ((time - from) / (to - from || 1)) * (width - LEFT - 8);
  const y = (value) => bottom - (value / ticks.at(-1)) * (bottom - 10);
  return html`<figure class="plot-box" ref=${box}>
    <svg class="plot" width=${width} height=${height} role="img" aria-label=${`${title}: ${summary(series)}`}>
      ${ticks.map((tick) => html`<g key=${tick}><line class="axis" x1=${LEFT} x2=${width - 8} y1=${y(tick)} y2=${y(tick)} />
        <text class="quiet" x=${LEFT - 6} y=${y(tick) + 4} text-anchor="end">${countText(tick)}</text></g>`)}
      ${timeTicks(from, to).map(([time, text]) => html`<text key=${time} class="quiet" x=${x(time)} y=${height - 5}
          text-anchor="middle">${text}</text>`)}
      ${stacked ? columns(series, x, y, from, to) : series.map((one, index) => html`<path key=${one.name}
          class=${`series-${numberOf(one, index)}`} d=${steps(one.points, x, y, to)} />`)}
    </svg>
    ${series.length > 1 && html`<${Legend} names=${series.map((one) => one.name)} numbers=${series.map(numberOf)} />`}
  </figure>`;
}

// Each status of a condition has the same colour in all plots.
const STATES = { True: 3, False: 2, Unknown: 5 };
const numberOf = ({ name }, index) => STATES[name] ?? (index % 5) + 1;

function Legend({ names, numbers }) {
  const mark = (number) => html`<svg viewBox="0 0 10 10" aria-hidden="true">
    <rect width="10" height="10" rx="2" class=${`series-${number}`} /></svg>`;
  return html`<figcaption class="legend">
    ${names.map((name, index) => html`<span key=${name}>${mark(numbers[index])}${name}</span>`)}</figcaption>`;
}

function sums(series) {
  return (series[0]?.points ?? []).map((_point, index) => series.reduce((sum, one) => sum + (one.points[index]?.[1] ?? 0), 0));
}

function steps(points, x, y, to) {
  if (points.length === 0) return "";
  let path = `M${x(points[0][0]).toFixed(1)},${y(points[0][1]).toFixed(1)}`;
  for (const [time, value] of points.slice(1)) path += `H${x(time).toFixed(1)}V${y(value).toFixed(1)}`;
  return `${path}H${x(to).toFixed(1)}`;
}

function columns(series, x, y, from, to) {
  const count = series[0]?.points.length ?? 0;
  const width = Math.max(1, (x(to) - x(from)) / Math.max(1, count) - 2);
  return Array.from({ length: count }, (_one, index) => {
    let base = 0;
    return series.map((one, number) => {
      const [time, value] = one.points[index];
      const top = y(base + value);
      const bar = value > 0 && html`<rect key=${one.name} class=${`series-${number + 1}`} x=${x(time) + 1} y=${top}
          width=${width} height=${y(base) - top}><title>${`${timeText(time)}: ${value} ${one.name}`}</title></rect>`;
      base += value;
      return bar;
    });
  });
}

const summary = (series) => series.map((one) => `${one.name} ${countText(one.points.at(-1)?.[1] ?? 0)}`).join(", ");

/** The conditions of an object over time; `rows` come from `conditionSpans`. */
export function Spans({ rows }) {
  const [box, width] = useWidth();
  const all = rows.flatMap((row) => row.spans);
  const from = Math.min(...all.map((span) => span.from));
  const to = Math.max(...all.map((span) => span.to));
  const left = Math.min(150, width / 3);
  const x = (time) => left + ((time - from) / (to - from || 1)) * (width - left - 8);
  const height = rows.length * 26 + 22;
  return html`<figure class="plot-box" ref=${box}>
    <svg class="plot" width=${width} height=${height} role="img"
        aria-label=${rows.map((row) => `${row.type} is ${row.spans.at(-1).status}`).join(", ")}>
      ${rows.map((row, index) => html`<g key=${row.type}><text x="0" y=${index * 26 + 16}>${row.type.slice(0, 22)}</text>
        ${row.spans.map((span) => html`<rect class=${`series-${STATES[span.status] ?? 4}`} x=${x(span.from)}
            y=${index * 26 + 4} width=${Math.max(1, x(span.to) - x(span.from) - 1)} height="16" rx="2">
          <title>${spanText(row.type, span)}</title></rect>`)}</g>`)}
      ${timeTicks(from, to).map(([time, text]) => html`<text key=${time} class="quiet" x=${x(time)} y=${height - 5}
          text-anchor="middle">${text}</text>`)}
    </svg>
    <${Legend} names=${Object.keys(STATES)} numbers=${Object.values(STATES)} />
  </figure>`;
}

function spanText(type, { status, reason, from, to }) {
  return `${type} ${status}${reason ? ` (${reason})` : ""}: ${durationText((to - from) / 1000)}, since ${timeText(from)}`;
}

/** Horizontal bars: `[{name, value, text, href}]`. */
export function Bars({ title, bars }) {
  const limit = Math.max(1, ...bars.map((bar) => bar.value));
  return html`<dl class="facts bars" aria-label=${title}>${bars.map(({ name, value, text, href }) => html`<dt
      key=${name}>${href ? html`<a href=${href}>${name}</a>` : name}</dt>
    <dd><${Meter} label=${name} used=${value} limit=${limit} text=${text} plain=${true} /></dd>`)}</dl>`;
}
