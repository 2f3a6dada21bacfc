// A client of the REST API with the token of the signed-in user: requests, errors, watches.

const ROOT = new URL("../", import.meta.url).href.replace(/\/$/, "");
export const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
export const METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";
export const AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
export const APPLY_PATCH = "application/apply-patch+yaml";
export const MANAGER = "console";

/** A Status as an error; `code` is 0 if the server could not be reached. */
export class ApiError extends Error {
  constructor(code, message, status = {}) {
    super(message);
    this.code = code;
    this.reason = status.reason ?? "";
    this.causes = status.details?.causes ?? [];
  }
}

export class Api {
  /**
   * On a 401 `renew` is called, once for all concurrent requests. If it has set another `token` they are retried; otherwise
   * `onExpired` is called.
   */
  constructor(token, { renew = async () => {}, onExpired = () => {} } = {}) {
    Object.assign(this, { token, renew, onExpired, renewing: null });
  }

  /** Sends a request and returns the decoded response. Throws ApiError. */
  async json(method, path, { body, type, accept = "application/json", signal } = {}) {
    const response = await this.send(method, path, { body, type, accept, signal });
    return await response.json();
  }

  get = (path, options) => this.json("GET", path, options);
  post = (path, body, options) => this.json("POST", path, { ...options, body });

  /** Sends a request and returns the response, whose body is not read yet. Throws ApiError. */
  async send(method, path, { body, type = "application/json", accept = "application/json", signal } = {}) {
    const token = this.token;
    const headers = { Accept: accept };
    if (token) headers.Authorization = `Bearer ${token}`;
    if (body !== undefined) headers["Content-Type"] = type;
    const sent = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
    let response;
    try {
      response = await fetch(ROOT + path, { method, headers, body: sent, signal, cache: "no-store", credentials: "omit" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError(0, "The server cannot be reached.");
    }
    if (response.ok) return response;
    if (response.status === 401 && token) {
      if (token === this.token) await (this.renewing ??= this.renew().finally(() => (this.renewing = null)));
      if (token !== this.token) return this.send(method, path, { body, type, accept, signal });
      this.onExpired();
    }
    throw await errorOf(response);
  }

  /** Calls an endpoint of the console itself, such as /console/api/oidc. */
  console = (method, name, body) => this.json(method, `/console/api/${name}`, { body });

  /** Yields the events of a watch, `{type, object}`, until it ends or is aborted. Throws ApiError. */
  async *watch(path, { accept, signal }) {
    const response = await this.send("GET", path, { accept, signal });
    for await (const line of lines(response.body)) {
      const event = JSON.parse(line);
      if (event.type === "ERROR") throw new ApiError(event.object.code ?? 500, event.object.message ?? "", event.object);
      yield event;
    }
  }
}

/**
 * Lists and watches until `signal` is aborted. `load()` resolves to the resource version to watch from, or to a falsy value if
 * there is nothing to watch; `path(revision)` returns the path of the watch. When the watch ends, breaks or expires, it lists
 * again with exponential backoff. `report(state, error)`: "live", "static" (cannot be watched), "cut", "failed".
 */
export async function follow(api, { load, path, accept, onEvent, report, signal }) {
  let pause = 250;
  while (!signal.aborted) {
    await visible();
    let loaded = false;
    try {
      const revision = await load();
      loaded = true;
      if (!revision) return report("static");
      report("live");
      for await (const event of api.watch(path(revision), { accept, signal: whileVisible(signal) })) {
        pause = 250;
        onEvent(event);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error.name === "AbortError") continue; // the page was hidden
      if (error.code >= 400 && error.code < 500 && ![401, 410, 429].includes(error.code)) {
        return report(loaded ? "static" : "failed", error);
      }
      report("cut", error);
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(pause * 2, 15_000);
  }
}

/** Resolves when the page is visible. */
function visible() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => document.addEventListener("visibilitychange", () => resolve(visible()), { once: true }));
}

/**
 * Returns a signal that is aborted with `signal` and when the page is hidden. Hidden pages do not watch, because a browser
 * opens only six connections to a server.
 */
function whileVisible(signal) {
  const abort = new AbortController();
  const look = () => document.hidden && abort.abort();
  document.addEventListener("visibilitychange", look, { signal });
  return AbortSignal.any([signal, abort.signal]);
}

async function errorOf(response) {
  const text = await response.text().catch(() => "");
  try {
    // Errors of requests for YAML are YAML as well.
    const isYaml = response.headers.get("content-type")?.includes("yaml");
    const status = isYaml ? (await import("./logic/yamldoc.js")).parseYaml(text).value : JSON.parse(text);
    return new ApiError(response.status, status.message || `The server answers ${response.status}.`, status);
  } catch {
    return new ApiError(response.status, `The server answers ${response.status}.`);
  }
}

async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n");
      rest = parts.pop();
      yield* parts.filter((line) => line !== "");
    }
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The connection was cut.");
  } finally {
    reader.cancel().catch(() => {});
  }
}

// -- what the user may do

/** SelfSubjectAccessReviews, each cached for half a minute. */
export class Rights {
  #known = new Map();

  constructor(api, prefix) {
    this.api = api;
    this.prefix = prefix;
  }

  /** Whether `{verb, group, resource, subresource, namespace, name}` is allowed; false if the review fails. */
  may(attributes) {
    const key = JSON.stringify(attributes);
    const known = this.#known.get(key);
    if (known && Date.now() - known.at < 30_000) return known.answer;
    const review = { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectAccessReview", spec: { resourceAttributes: attributes } };
    const answer = this.api
      .post(`${this.prefix}/apis/authorization.k8s.io/v1/selfsubjectaccessreviews`, review)
      .then((done) => done.status?.allowed === true, () => (this.#known.delete(key), false));
    this.#known.set(key, { at: Date.now(), answer });
    return answer;
  }
}
