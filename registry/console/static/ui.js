// Components shared by the pages. Text from the server only ever becomes text nodes and attributes: `html` creates elements
// from its own template only, and the Content-Security-Policy (Trusted Types) refuses markup made from strings.
import { createContext, html, useCallback, useContext, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact.js";
import { ageOf, timeText } from "./logic/text.js";

export { html };

/** What every page needs: `{api, rights, session, tenant, kinds, reloadKinds, user, go, href, notify}`. */
export const Console = createContext(null);
export const useConsole = () => useContext(Console);

/**
 * Runs `load(signal)`, and again when one of `inputs` changes or `again()` is called. Returns
 * `{value, error, loading, again}`; the last value is kept while it runs.
 */
export function useLoaded(load, inputs) {
  const [state, setState] = useState({ value: undefined, error: null, loading: true });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    setState((old) => ({ ...old, loading: true }));
    Promise.resolve(load(abort.signal)).then(
      (value) => abort.signal.aborted || setState({ value, error: null, loading: false }),
      (error) => abort.signal.aborted || setState((old) => ({ ...old, error, loading: false })),
    );
    return () => abort.abort();
  }, [...inputs, turn]);
  return { ...state, again: useCallback(() => setTurn((old) => old + 1), []) };
}

/** Reviews each of `wanted`, `{name: attributes}`; returns booleans by name, undefined until they are known. */
export function useRights(wanted) {
  const { rights } = useConsole();
  const [found, setFound] = useState({});
  useEffect(() => {
    let gone = false;
    const names = Object.keys(wanted);
    Promise.all(names.map((name) => rights.may(wanted[name]))).then((answers) => {
      if (!gone) setFound(Object.fromEntries(names.map((name, index) => [name, answers[index]])));
    });
    return () => (gone = true);
  }, [rights, JSON.stringify(wanted)]);
  return found;
}

export function useTitle(title) {
  useEffect(() => {
    document.title = title ? `${title} · registry` : "registry";
  }, [title]);
}

/** A message for people: `kind` is "info", "good", "warning" or "error". */
export function Notice({ kind = "info", children }) {
  return html`<div class=${`notice ${kind}`} role=${kind === "error" ? "alert" : "status"}>${children}</div>`;
}

export function ErrorNotice({ error, again }) {
  if (!error) return null;
  const texts = {
    0: "Nothing that you typed is lost. Try again when the server is back.",
    401: "Your sign-in has expired. Sign in again: nothing that you typed is lost.",
    403: "You do not have permission for this.",
    410: "The server no longer keeps this revision.",
    429: "The server is busy, or a limit of the tenant is reached. Try again in a moment.",
  };
  return html`<${Notice} kind="error">
    <p class=${error.message.includes("\n") ? "mono lines" : ""}>${error.message}</p>
    ${texts[error.code] && html`<p class="quiet">${texts[error.code]}</p>`}
    ${again && html`<button type="button" onClick=${again}>Try again</button>`}
  </>`;
}

export function Loading({ what = "Loading" }) {
  return html`<p class="loading" role="status">${what}…</p>`;
}

export function Empty({ children }) {
  return html`<div class="empty">${children}</div>`;
}

const ticking = new Set();
setInterval(() => ticking.forEach((tick) => tick()), 15_000);

/** The age of a time, updated every 15 seconds, with the time itself as a tooltip. */
export function Age({ time }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const again = () => tick((old) => old + 1);
    ticking.add(again);
    return () => ticking.delete(again);
  }, []);
  return time ? html`<time datetime=${time} title=${timeText(time)}>${ageOf(time)}</time>` : "";
}

const GOOD = /^(true|active|ready|running|established|bound|healthy|succeeded|complete|completed|available|ok|normal)$/i;
const BAD = /^(failed|error|crashloopbackoff|terminating|unhealthy|suspended|degraded|lost|warning)$/i;

/** A status, coloured by what the word usually means. */
export function Status({ text }) {
  const value = String(text ?? "");
  const kind = GOOD.test(value) ? "good" : BAD.test(value) ? "bad" : value ? "plain" : "none";
  return html`<span class=${`status ${kind}`}>${value}</span>`;
}

export function Tabs({ tabs, current, href }) {
  return html`<nav class="tabs" aria-label="Views">
    ${tabs.map(([id, label]) => html`<a key=${id} href=${href(id)}
        aria-current=${id === current ? "page" : undefined}>${label}</a>`)}
  </nav>`;
}

/** `parts` is the breadcrumb, `[[text, href], ...]`; the last one is the heading. */
export function Heading({ parts, children, about }) {
  return html`<header class="heading">
    <div>
      ${parts.length > 1 && html`<nav class="crumbs" aria-label="Breadcrumb">
        ${parts.slice(0, -1).map(([text, href]) => html`<a href=${href}>${text}</a>`)}
      </nav>`}
      <h1>${parts.at(-1)[0]}</h1>
      ${about && html`<p class="about">${about}</p>`}
    </div>
    <div class="actions">${children}</div>
  </header>`;
}

/** A modal dialog. Escape and the close button call `onClose`. */
export function Dialog({ title, onClose, wide = false, children }) {
  const dialog = useRef();
  useLayoutEffect(() => {
    dialog.current.showModal();
  }, []);
  const cancelled = (event) => {
    event.preventDefault();
    onClose?.();
  };
  return html`<dialog ref=${dialog} class=${wide ? "wide" : ""} aria-labelledby="dialog-title" onCancel=${cancelled}>
    <header><h2 id="dialog-title">${title}</h2>
      ${onClose && html`<button type="button" class="icon" aria-label="Close" onClick=${onClose}>✕</button>`}</header>
    ${children}
  </dialog>`;
}

/** An input whose text is reported on Enter; what is being typed outlives the updates of a live page. */
export function Field({ value, onEnter, label, children, ...more }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  return html`<form onSubmit=${(event) => (event.preventDefault(), onEnter(text.trim()))}><input type="search" aria-label=${label}
      value=${text} onInput=${(event) => setText(event.target.value)} spellcheck=${false} autocomplete="off" ...${more} />${children}</form>`;
}

/** A text with a button that copies it. */
export function Copyable({ text, label }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(text).catch(() => {});
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return html`<figure class="copyable">
    ${label && html`<figcaption>${label}</figcaption>`}
    <pre tabindex="0">${text}</pre>
    <button type="button" onClick=${copy} aria-label=${`Copy: ${label ?? "this text"}`}>${done ? "Copied" : "Copy"}</button>
  </figure>`;
}

/**
 * `columns`: `[{id, title, about, cell(row), numeric, order}]`; a column can be sorted by its field `order`. `sort` is the
 * current field, with "-" in front for descending order. The arrow keys move from row to row.
 */
export function Table({ label, columns, rows, keyOf, sort = "", onSort, rowClass, total }) {
  const onKey = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.target.closest("thead")) return;
    event.preventDefault();
    const all = [...event.currentTarget.querySelectorAll("tbody tr")];
    const wanted = all[all.indexOf(event.target.closest("tr")) + step];
    wanted?.querySelector("a:not([tabindex])")?.focus();
  };
  const head = ({ title, order }) => {
    if (!onSort || !order) return title;
    const [next, mark] = { [order]: [`-${order}`, "▲"], [`-${order}`]: [order, "▼"] }[sort] ?? [order, ""];
    return html`<button type="button" onClick=${() => onSort(next)}>${title}<span aria-hidden="true" class="mark">${mark}</span></button>`;
  };
  const sorted = (order) => (sort ? { [order]: "ascending", [`-${order}`]: "descending" }[sort] : undefined);
  const kind = (column) => (column.numeric ? "numeric" : "");
  return html`<div class="table-box" onKeyDown=${onKey} tabindex="0" role="region" aria-label=${label}>
    <table aria-rowcount=${total ?? rows.length}>
      <thead><tr>${columns.map((one) => html`<th key=${one.id} scope="col" title=${one.about} aria-sort=${sorted(one.order)}
          class=${kind(one)}>${head(one)}</th>`)}</tr></thead>
      <tbody>${rows.map((row) => html`<tr key=${keyOf(row)} class=${rowClass?.(row) ?? ""}>
        ${columns.map((one) => html`<td key=${one.id} class=${kind(one)}>${one.cell(row)}</td>`)}</tr>`)}</tbody>
    </table>
  </div>`;
}

/** A table of a few rows, given as children. */
export function SmallTable({ label, head, wrap = false, children }) {
  return html`<div class=${`table-box short ${wrap ? "wrap" : ""}`} tabindex="0" role="region" aria-label=${label}><table>
    <thead><tr>${head.map((title) => html`<th key=${title} scope="col">${title}</th>`)}</tr></thead>
    <tbody>${children}</tbody>
  </table></div>`;
}

/** A bar that shows how much of a limit is used; a `plain` one has no warning colours. */
export function Meter({ used, limit, text, label, plain = false }) {
  if (limit === undefined || limit === null) return html`<span class="meter-text">${text}</span>`;
  const share = limit > 0 ? Math.min(1, used / limit) : 1;
  const kind = plain ? "fine" : share >= 0.95 ? "bad" : share >= 0.8 ? "near" : "fine";
  return html`<span class="meter" role="img" aria-label=${`${label}: ${text}`}>
    <span class="bar"><span class=${kind} style=${{ width: `${(share * 100).toFixed(1)}%` }}></span></span>
    <span class="meter-text">${text}</span>
  </span>`;
}
