// What an object belongs to, and what belongs to it. The API has no index of owners, so dependents are looked for in the
// lists that the user may read: metadata only, a bounded number of objects of each kind, a few lists at a time.
import { METADATA_LIST } from "./api.js";
import { kindOfReference } from "./logic/kinds.js";
import { resourcePath } from "./logic/paths.js";

const AT_ONCE = 4;
const PAGE = 500;
const MOST_OF_A_KIND = 5000;

/** Runs `work` for each item, a few at a time, until `signal` is aborted. */
export async function forEachAtOnce(items, work, signal, atOnce = AT_ONCE) {
  const queue = [...items];
  const worker = async () => {
    while (queue.length > 0 && !signal?.aborted) await work(queue.shift());
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}

/**
 * Objects with an owner reference to one of `uids`, as `{kind, metadata}`. `progress` is called with how many kinds have
 * been looked through. `partly` says which kinds were refused or too large to be looked through whole.
 */
export async function findDependents(api, tenant, kinds, uids, namespace, { signal, progress } = {}) {
  const wanted = new Set(uids);
  const candidates = kinds.filter((kind) => kind.preferred && kind.verbs.includes("list") && kind.plural !== "events" && (!namespace || kind.namespaced));
  const found = [];
  const partly = [];
  let done = 0;
  await forEachAtOnce(candidates, async (kind) => {
    try {
      let next = "";
      for (let seen = 0; seen < MOST_OF_A_KIND; seen += PAGE) {
        const path = resourcePath(tenant, kind, { namespace, query: { limit: PAGE, continue: next } });
        const list = await api.get(path, { accept: METADATA_LIST, signal });
        for (const { metadata } of list.items ?? []) {
          if ((metadata.ownerReferences ?? []).some((owner) => wanted.has(owner.uid))) found.push({ kind, metadata });
        }
        next = list.metadata.continue ?? "";
        if (!next) break;
      }
      if (next) partly.push(`${kind.plural}: the first ${MOST_OF_A_KIND}`);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      partly.push(`${kind.plural}: ${error.code === 403 ? "not open to you" : error.message}`);
    }
    progress?.(++done, candidates.length);
  }, signal);
  return { found, partly };
}

/** How many objects a list has; undefined if the user may not list them. */
export async function countObjects(api, tenant, kind, { namespace = "", signal } = {}) {
  try {
    const path = resourcePath(tenant, kind, { namespace, query: { limit: 1 } });
    const list = await api.get(path, { accept: METADATA_LIST, signal });
    return (list.items?.length ?? 0) + (list.metadata.remainingItemCount ?? 0);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return undefined;
  }
}

/** The owners of an object and theirs, up to five steps: `[{kind, reference, namespace, metadata, of}]`; `of` is a uid. */
export async function findOwners(api, tenant, kinds, metadata, signal) {
  const found = [];
  let level = [metadata];
  for (let step = 0; step < 5 && level.length > 0; step += 1) {
    const next = [];
    for (const child of level) {
      for (const reference of child.ownerReferences ?? []) {
        if (found.some((one) => one.reference.uid === reference.uid && one.of === child.uid)) continue;
        const kind = kindOfReference(kinds, reference.apiVersion, reference.kind);
        const namespace = kind?.namespaced ? child.namespace : "";
        let owner = null;
        if (kind) {
          const path = resourcePath(tenant, kind, { namespace, name: reference.name });
          owner = await api.get(path, { signal }).then((object) => object.metadata, () => null);
          if (owner?.uid !== reference.uid) owner = null;
        }
        found.push({ kind, reference, namespace, metadata: owner, of: child.uid });
        if (owner) next.push(owner);
      }
    }
    level = next;
  }
  return found;
}
