import assert from "node:assert/strict";
import { test } from "node:test";
import { conditionLines, pointsOf } from "../../../registry/console/static/logic/scales.js";
import { filterOf, orderBy, orderOf, rowsOf } from "../../../registry/console/static/logic/tables.js";

test("a row of a table, and of a list", () => {
  const metadata = { name: "a", namespace: "n", uid: "u", deletionTimestamp: "2026-01-01T00:00:00Z" };
  const [row] = rowsOf({ rows: [{ cells: ["a"], object: { metadata } }] });
  assert.deepEqual([row.key, row.uid, row.deleting, row.cells], ["n/a", "u", true, ["a"]]);
  const [item] = rowsOf({ items: [{ metadata: { name: "a" }, spec: { size: 1 } }] });
  assert.deepEqual([item.key, item.deleting, item.cells, item.object.spec], ["a", false, [], { size: 1 }]);
  assert.deepEqual(rowsOf(undefined), []);
});

for (const [name, text, expected] of [
  ["nothing", "  ", ""],
  ["a word", "Night", 'object.metadata.name.contains("night")'],
  ["two words", "a b", 'object.metadata.name.contains("a") && object.metadata.name.contains("b")'],
  ["a quote, which ends no string", 'a"b\\', 'object.metadata.name.contains("a\\"b\\\\")'],
  ["an expression", " object.spec.size > 3 ", "object.spec.size > 3"],
  ["a word that has the name of a variable in it", "objects", 'object.metadata.name.contains("objects")'],
]) {
  test(`filter: ${name}`, () => assert.equal(filterOf(text), expected));
}

for (const [path, expected] of [
  [".spec.keep", "spec.keep"], [".metadata.labels['a.b/c']", ""], [".spec.items[0].name", ""], [undefined, ""],
]) {
  test(`order by the column of ${path}`, () => assert.equal(orderOf(path), expected));
}

test("an order of the server", () => assert.deepEqual(["", "spec.a", "-spec.a"].map(orderBy), ["", "spec.a", "spec.a desc"]));

test("statistics as points: objects before, and at the end of each interval", () => {
  const times = ["2026-11-22T09:00:00Z", "2026-11-22T09:30:00Z"];
  const buckets = [
    { time: times[0], created: 2, updated: 7, deleted: 1, objects: 11 },
    { time: times[1], created: 1, updated: 0, deleted: 0, objects: 12 },
  ];
  const { from, to, lines, writes } = pointsOf({ since: times[0], until: "2026-11-22T10:00:00Z", buckets });
  assert.equal(to - from, 3_600_000);
  assert.deepEqual(lines[0].points, [[from, 10], [from + 1_800_000, 11], [to, 12]]);
  assert.deepEqual(writes.map((one) => [one.name, one.points.map(([, count]) => count)]), [["created", [2, 1]], ["updated", [7, 0]], ["deleted", [1, 0]]]);
});

test("the objects that had each status of a condition, at the ends of the intervals", () => {
  const times = ["2026-11-22T09:00:00Z", "2026-11-22T09:30:00Z"];
  const until = "2026-11-22T10:00:00Z";
  const counts = [{ type: "Ready", status: "False", objects: [1, 0] }, { type: "Ready", status: "True", objects: [2, 3] }];
  const [ready, ...others] = conditionLines({ until, buckets: times.map((time) => ({ time })), conditions: { counts } });
  assert.deepEqual(others, []);
  assert.equal(ready.type, "Ready");
  assert.deepEqual(ready.series, [
    { name: "False", points: [[Date.parse(times[1]), 1], [Date.parse(until), 0]] },
    { name: "True", points: [[Date.parse(times[1]), 2], [Date.parse(until), 3]] },
  ]);
  assert.deepEqual(conditionLines({ until, buckets: [], conditions: {} }), []);
});
