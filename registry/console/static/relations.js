// Owners and dependents of an object (docs/statistics.md).
import { METADATA_LIST } from "./api.js";
import { kindOfReference } from "./logic/kinds.js";
import { resourcePath } from "./logic/paths.js";

/** Runs `work` for each item, four at a time, until `signal` is aborted. */
export async function forEachAtOnce(items, work, signal) {
  const queue = [...items];
  const worker = async () => {
    while (queue.length > 0 && !signal?.aborted) await work(queue.shift());
  };
  await Promise.all(Array.from({ length: 4 }, worker));
}

/** Returns the first objects that name an object as their owner: `{items: [{apiVersion, kind, metadata}], more}`. */
export async function findDependents(api, tenant, kind, { namespace, name }, { limit, signal }) {
  const items = [];
  let next = "";
  do {
    const query = { dependents: true, limit: limit - items.length, continue: next };
    const list = await api.get(resourcePath(tenant, kind, { namespace, name, query }), { signal });
    items.push(...list.items);
    next = list.metadata.continue;
  } while (next && items.length < limit);
  return { items, more: Boolean(next) };
}

/** Returns how many objects a list has; undefined if the user may not list them. */
export async function countObjects(api, tenant, kind, { namespace = "", signal } = {}) {
  const path = resourcePath(tenant, kind, { namespace, query: { limit: 1 } });
  const list = await api.get(path, { accept: METADATA_LIST, signal }).catch(() => null);
  return list ? (list.items?.length ?? 0) + (list.metadata.remainingItemCount ?? 0) : undefined;
}

/** Returns owners up to five levels up: `[{kind, reference, namespace, isThere, of}]`; `of` is the uid of the owned object. */
export async function findOwners(api, tenant, kinds, metadata, signal) {
  const found = [];
  const level = [{ metadata, step: 0 }];
  for (const { metadata: child, step } of level) {
    for (const reference of child.ownerReferences ?? []) {
      if (step === 5 || found.some((one) => one.reference.uid === reference.uid && one.of === child.uid)) continue;
      const kind = kindOfReference(kinds, reference.apiVersion, reference.kind);
      const namespace = kind?.namespaced ? child.namespace : "";
      const path = kind && resourcePath(tenant, kind, { namespace, name: reference.name });
      const owner = path && (await api.get(path, { signal }).then((object) => object.metadata, () => null));
      const isThere = owner?.uid === reference.uid;
      found.push({ kind, reference, namespace, isThere, of: child.uid });
      if (isThere) level.push({ metadata: owner, step: step + 1 });
    }
  }
  return found;
}
