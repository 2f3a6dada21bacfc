// Summaries of merge patches and conditions.
import { formatFieldPath } from "./paths.js";

/** `{spec: {image: "b:2", old: null}}` is [{path: "spec.image", text: "\"b:2\""}, {path: "spec.old", text: "removed"}]. */
export function changesOf(patch, most = 6) {
  const out = [];
  collect(patch, [], out);
  const told = out.filter(({ path }) => path !== "metadata.generation");
  return { changes: told.slice(0, most), more: Math.max(0, told.length - most) };
}

function collect(value, path, out) {
  if (typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length > 0) {
    for (const [name, inner] of Object.entries(value)) collect(inner, [...path, name], out);
    return;
  }
  const text = value === null ? "removed" : JSON.stringify(value);
  out.push({ path: formatFieldPath(path), text: text.length > 80 ? `${text.slice(0, 79)}…` : text });
}

/**
 * Returns the well-formed conditions of an object, `[{type, status, reason, lastTransitionTime}]`: a schema may allow anything
 * there.
 */
export function conditionsOf(object) {
  const found = object?.status?.conditions;
  const isText = (value) => typeof value === "string";
  return (Array.isArray(found) ? found : [])
    .filter((one) => isText(one?.type) && isText(one.status))
    .map((one) => ({ type: one.type, status: one.status, reason: isText(one.reason) ? one.reason : "", lastTransitionTime: one.lastTransitionTime }));
}

/** Returns how much of a ResourceQuota was used over time, a series for each limit: `[{name, points: [[ms, number]]}]`. */
export function quotaLines(states) {
  const used = states.flatMap(({ time, object }) => Object.entries(object?.status?.used ?? {}).map(([name, value]) => [name, Date.parse(time), Number(value)]));
  const names = new Set(used.map(([name]) => name));
  return [...names].map((name) => ({ name, points: used.filter(([one, , value]) => one === name && value >= 0).map(([, ...point]) => point) }))
    .filter(({ points }) => points.length > 0);
}

/**
 * Returns how long each condition had which status: `[{type, spans: [{status, reason, from, to}]}]`, times in ms. `states` are
 * those of an object, oldest first: `[{time, object}]`, with null for a deletion. The last spans end at `now`.
 */
export function conditionSpans(states, now) {
  const types = new Map();
  states.forEach((state, index) => {
    const from = Date.parse(state.time);
    const to = index + 1 < states.length ? Date.parse(states[index + 1].time) : now;
    for (const { type, status, reason } of conditionsOf(state.object)) {
      if (!types.has(type)) types.set(type, []);
      const spans = types.get(type);
      const last = spans.at(-1);
      if (last && last.to === from && last.status === status && last.reason === reason) last.to = to;
      else spans.push({ status, reason, from, to });
    }
  });
  return [...types].map(([type, spans]) => ({ type, spans }));
}
