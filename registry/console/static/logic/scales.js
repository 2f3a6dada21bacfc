// Marks on the axes of plots.

/** From 0 to at least `most`, in three to six round steps: niceTicks(17) is [0, 5, 10, 15, 20]. */
export function niceTicks(most) {
  const rough = most / 4;
  const power = 10 ** Math.floor(Math.log10(rough || 1));
  const step = Math.max(1, [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? 10 * power);
  const rounded = step > 1 && !Number.isInteger(step) ? Math.ceil(step) : step;
  return Array.from({ length: Math.ceil(most / rounded) + 1 }, (_one, index) => index * rounded);
}

const MINUTE = 60_000;
const STEPS = [1, 5, 15, 30, 60, 180, 360, 720, 1440, 2880, 10_080, 43_200].map((minutes) => minutes * MINUTE);

/** Some four times between two, in ms, with their texts: a time of day, or a day. */
export function timeTicks(from, to) {
  const step = STEPS.find((one) => (to - from) / one <= 5) ?? (to - from) / 4;
  const offset = new Date(from).getTimezoneOffset() * MINUTE;
  const out = [];
  for (let time = Math.ceil((from - offset) / step) * step + offset; time <= to; time += step) {
    out.push([time, step >= 1440 * MINUTE ? dayText(time) : clockText(time)]);
  }
  return out;
}

const two = (number) => String(number).padStart(2, "0");
const dayText = (time) => `${two(new Date(time).getMonth() + 1)}-${two(new Date(time).getDate())}`;
const clockText = (time) => `${two(new Date(time).getHours())}:${two(new Date(time).getMinutes())}`;

/**
 * How many objects there were, from when each came and went: `[{from, to}]` in ms, `to` undefined for those that are there.
 * `[[ms, count]]` at each change within `since` and `until`, at most `most` of them.
 */
export function countOverTime(lives, since, until, most = 400) {
  const changes = [];
  let count = 0;
  for (const { from, to } of lives) {
    if (from <= since) count += 1;
    else if (from <= until) changes.push([from, 1]);
    if (to !== undefined && to <= since) count -= 1;
    else if (to !== undefined && to <= until) changes.push([to, -1]);
  }
  changes.sort((a, b) => a[0] - b[0]);
  const points = [[since, count]];
  for (const [time, step] of changes) {
    count += step;
    if (points.at(-1)[0] === time) points.at(-1)[1] = count;
    else points.push([time, count]);
  }
  if (points.length <= most) return points;
  const every = points.length / most;
  return Array.from({ length: most }, (_one, index) => points[Math.floor(index * every)]).concat([points.at(-1)]);
}

/** How many of `times` (ms) are in each of `count` equal parts between two times: `[[ms, number]]`. */
export function binned(times, from, to, count) {
  const width = (to - from) / count;
  const bins = Array.from({ length: count }, (_one, index) => [from + index * width, 0]);
  for (const time of times) {
    if (time >= from && time <= to) bins[Math.min(count - 1, Math.floor((time - from) / width))][1] += 1;
  }
  return bins;
}
