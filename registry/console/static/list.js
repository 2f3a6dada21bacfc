// A live page of a list that the server filters and sorts: when a watch reports a change the page is loaded again, at most
// once a second.
import { ApiError, follow, TABLE } from "./api.js";
import { resourcePath } from "./logic/paths.js";
import { useConsole } from "./ui.js";
import { useEffect, useRef, useState } from "./vendor/preact.js";

export const PAGE = 100;
const METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";
// Beyond this offset the server needs an index. Without one, later pages use the continue token of the page before: they show
// the revision of the first page, and are not live.
const SKIPPED = 5000;
const START = { list: null, state: "loading", error: null, message: "", total: undefined, more: false, fresh: new Set() };

/**
 * `query`: labelSelector, filter, orderBy. Returns `{list, state, error, message, total, more, fresh}`: `list` as the server sent
 * it, `total` the number of objects on all pages if known, `fresh` the uids changed by the last events, `state` that of `follow`.
 */
export function useList(kind, { tenant, namespace = "", query = {}, page = 1, accept = TABLE }) {
  const { api, session } = useConsole();
  const [found, setFound] = useState(START);
  const tokens = useRef({});
  const [turn, setTurn] = useState(0);
  const selected = JSON.stringify([tenant, kind, namespace, query]);
  useEffect(() => {
    if (tokens.current.of !== selected) tokens.current = { of: selected };
    const abort = new AbortController();
    const { signal } = abort;
    const fresh = new Set();
    let timer = 0;
    let loadedAt = 0;
    const set = (fields) => signal.aborted || setFound((old) => ({ ...old, ...fields }));
    const load = async () => {
      const offset = (page - 1) * PAGE;
      const isSelection = Object.values(query).some(Boolean);
      const isLong = offset > 0 && (isSelection ? offset : tokens.current.total) > SKIPPED;
      const place = isLong ? { continue: tokens.current[page] } : { offset: offset || "", count: isSelection ? "exact" : "" };
      if (isLong && !place.continue) throw new ApiError(400, "Reach this page from the pages before it.");
      loadedAt = performance.now();
      const path = resourcePath(tenant, kind, { namespace, query: { ...query, ...place, limit: PAGE } });
      const list = await api.get(path, { accept, signal });
      const { resourceVersion, remainingItemCount: left, continue: next } = list.metadata;
      const upto = offset + (list.rows ?? list.items ?? []).length;
      if (left !== undefined || !next) tokens.current.total = upto + (left ?? 0);
      tokens.current[page + 1] = next;
      set({ list, total: tokens.current.total, more: Boolean(next), error: null, fresh: new Set(fresh) });
      fresh.clear();
      return kind.verbs.includes("watch") && !place.continue && resourceVersion;
    };
    const onEvent = ({ object }) => {
      fresh.add(object.metadata?.uid);
      timer ||= setTimeout(() => {
        timer = 0;
        load().catch(() => {}); // what is wrong with the server is seen by the watch
      }, Math.max(100, loadedAt + 1000 - performance.now()));
    };
    let isAgain = false;
    const report = (state, error) => {
      const texts = { 401: "Your sign-in has expired.", 403: "You may not watch this kind: it is not live." };
      const cut = state === "cut" ? `${error.message} Trying again.` : "";
      const message = isAgain ? "The server no longer keeps these changes: the list was loaded again." : (texts[error?.code] ?? cut);
      isAgain = error?.code === 410;
      set(state === "failed" ? { state, error } : { state, message });
    };
    const watch = { labelSelector: query.labelSelector, filter: query.filter, watch: 1 };
    const path = (resourceVersion) => resourcePath(tenant, kind, { namespace, query: { ...watch, resourceVersion } });
    set({ state: "loading" });
    follow(api, { load, path, accept: METADATA, onEvent, report, signal });
    return () => (clearTimeout(timer), abort.abort());
  }, [api, selected, page, accept, session, turn]);
  return { ...found, again: () => setTurn((old) => old + 1) };
}
