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

/** Returns about four ticks between two times, `[[ms, text]]`; the text is a time of day or a date. */
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
 * Returns a series for each status of each condition of a Statistics document, the number of objects at the end of each
 * interval: `[{type, series: [{name, points}]}]`; empty if the server has not counted them.
 */
export function conditionLines({ until, buckets, conditions: { counts = [] } }) {
  const ends = [...buckets.slice(1).map((one) => Date.parse(one.time)), Date.parse(until)];
  const types = [...new Set(counts.map((one) => one.type))];
  const line = ({ status, objects }) => ({ name: status, points: objects.map((value, index) => [ends[index], value]) });
  return types.map((type) => ({ type, series: counts.filter((one) => one.type === type).map(line) }));
}

/**
 * Converts a Statistics document to points, `[[ms, number]]`: `lines` has the number of objects at the beginning and at the end
 * of each interval, `writes` a series for creates, updates and deletions.
 */
export function pointsOf({ since, until, buckets }) {
  const [from, to] = [Date.parse(since), Date.parse(until)];
  const times = buckets.map((one) => Date.parse(one.time));
  const [{ objects, created, deleted }] = buckets;
  const points = buckets.map((one, index) => [times[index + 1] ?? to, one.objects]);
  const series = (name) => ({ name, points: buckets.map((one, index) => [times[index], one[name]]) });
  const lines = [{ name: "objects", points: [[from, objects - created + deleted], ...points] }];
  return { from, to, lines, writes: ["created", "updated", "deleted"].map(series) };
}
