// A list that stays true: pages as they are needed, and a watch from the list's revision on.
//
// The watch is taken up where it was cut, after longer and longer pauses; when the server no longer has the revision
// (410) the list begins again.
import { ApiError, TABLE, visible, whileVisible } from "./api.js";
import { resourcePath } from "./logic/paths.js";
import { rowOf, Rows } from "./logic/rows.js";

const FIRST = 100;
const NEXT = 500;
const LONGEST_PAUSE = 15_000;
// Of a kind that is written all the time the page is drawn so often, in ms.
const DRAW_EVERY = 150;

export class LiveList {
  /** `onChange` is called when anything below has changed, at most every DRAW_EVERY ms. */
  constructor(api, tenant, kind, { namespace = "", query = {}, onChange }) {
    Object.assign(this, { api, tenant, kind, namespace, query, onChange });
    this.rows = new Rows();
    this.columns = [];
    // "loading", "live", "cut" (with `message`), "static" (cannot be watched), "failed" (with `error`)
    this.state = "loading";
    this.message = "";
    this.error = null;
    this.remaining = 0;
    this.isLoading = false;
    this.changed = new Map();
    this.abort = new AbortController();
    this.drawn = 0;
  }

  start() {
    this.#run().catch((error) => this.#fail(error));
    return this;
  }

  stop() {
    clearTimeout(this.timer);
    this.abort.abort();
    this.onChange = () => {};
  }

  get complete() {
    return this.rows.complete;
  }

  /** The next page, if there is one and none is on its way. */
  async loadMore() {
    if (this.complete || this.isLoading || !this.next) return;
    this.isLoading = true;
    try {
      await this.#page(NEXT);
    } catch (error) {
      if (error.code === 410) this.#again("The list has expired on the server and was loaded again.");
      else this.#fail(error);
    } finally {
      this.isLoading = false;
    }
  }

  /** All that is left, page by page, until `stop`. */
  async loadAll() {
    while (!this.complete && !this.error && !this.abort.signal.aborted) await this.loadMore();
  }

  async #run() {
    const rows = this.rows;
    await this.#page(FIRST);
    if (this.kind.verbs.includes("watch")) await this.#watch(rows);
    else this.#set({ state: "static" });
  }

  async #page(limit) {
    const rows = this.rows;
    const query = { ...this.query, limit, continue: this.next };
    const path = resourcePath(this.tenant, this.kind, { namespace: this.namespace, query });
    const table = await this.api.get(path, { accept: TABLE, signal: this.abort.signal });
    if (rows !== this.rows) return;
    if (table.columnDefinitions?.length) this.columns = table.columnDefinitions;
    this.revision ??= table.metadata.resourceVersion;
    this.next = table.metadata.continue ?? "";
    this.remaining = table.metadata.remainingItemCount ?? 0;
    rows.addPage((table.rows ?? []).map(rowOf), this.next === "");
    this.#set({ error: null });
  }

  async #watch(rows) {
    let pause = 250;
    while (!this.abort.signal.aborted && rows === this.rows) {
      await visible();
      try {
        for await (const event of this.#events()) {
          if (rows !== this.rows) return;
          pause = 250;
          this.#apply(event);
        }
        pause = 250; // the server ends watches from time to time
      } catch (error) {
        if (error.name === "AbortError") {
          if (this.abort.signal.aborted) return;
          continue; // the page was hidden
        }
        if (error.code === 410) return this.#again("The server no longer has the changes since; the list was loaded again.");
        if (error.code === 403) return this.#set({ state: "static", message: "You may not watch this kind: it is not live." });
        const why = error.code === 401 ? "Your sign-in has expired." : error.message;
        this.#set({ state: "cut", message: `${why} Trying again.` });
      }
      await new Promise((resolve) => setTimeout(resolve, pause));
      pause = Math.min(pause * 2, LONGEST_PAUSE);
    }
  }

  async *#events() {
    const signal = whileVisible(this.abort.signal);
    const query = { ...this.query, watch: 1, allowWatchBookmarks: true, resourceVersion: this.revision };
    const path = resourcePath(this.tenant, this.kind, { namespace: this.namespace, query });
    // The head of the answer may wait for the first event: what is not refused at once is live.
    const opened = setTimeout(() => this.#set({ state: "live", message: "" }), 300);
    try {
      yield* this.api.watch(path, { accept: TABLE, signal });
    } finally {
      clearTimeout(opened);
    }
  }

  #apply({ type, object }) {
    if (object.columnDefinitions?.length) this.columns = object.columnDefinitions;
    const entries = object.rows ?? [];
    const newest = object.metadata?.resourceVersion || entries.at(-1)?.object?.metadata?.resourceVersion;
    if (newest) this.revision = newest;
    if (type !== "BOOKMARK") {
      for (const entry of entries) {
        const row = rowOf(entry);
        this.rows.apply(type, row);
        this.changed.set(row.key, Date.now());
      }
      if (this.changed.size > 500) this.changed.clear();
    }
    this.#set({ state: "live", message: "" });
  }

  #again(message) {
    this.rows = new Rows();
    this.revision = undefined;
    this.next = "";
    this.#set({ state: "loading", message });
    this.#run().catch((error) => this.#fail(error));
  }

  #fail(error) {
    if (error.name !== "AbortError") this.#set({ state: "failed", error: error instanceof ApiError ? error : new ApiError(0, String(error.message)) });
  }

  /** Changes fields and has the page drawn, at once or a moment later with what else comes. */
  #set(fields) {
    Object.assign(this, fields);
    clearTimeout(this.timer);
    const wait = this.drawn + DRAW_EVERY - performance.now();
    const draw = () => {
      this.drawn = performance.now();
      this.onChange();
    };
    if (wait <= 0) draw();
    else this.timer = setTimeout(draw, wait);
  }
}
