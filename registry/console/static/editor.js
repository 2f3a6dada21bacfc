// The YAML editor and the side-by-side difference, both CodeMirror. Loaded by the pages that need them.
import { html, useEffect, useRef } from "./vendor/preact.js";
import {
  autocompletion, completionKeymap, defaultKeymap, drawSelection, EditorState, EditorView, foldGutter,
  foldKeymap, forceLinting, HighlightStyle, highlightActiveLine, highlightSpecialChars, history, historyKeymap,
  indentOnInput, keymap, lineNumbers, linter, lintGutter, lintKeymap, MergeView, search, searchKeymap,
  syntaxHighlighting, tags, yaml,
} from "./vendor/codemirror.js";

// The colours are in app.css, so that they follow light and dark.
const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], class: "tok-key" },
  { tag: [tags.string, tags.special(tags.string)], class: "tok-text" },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword, tags.atom], class: "tok-value" },
  { tag: tags.comment, class: "tok-comment" },
  { tag: [tags.meta, tags.punctuation], class: "tok-mark" },
]);

const shared = (label) => [
  lineNumbers(), foldGutter(), highlightSpecialChars(), yaml(), syntaxHighlighting(colours), search({ top: true }),
  EditorView.contentAttributes.of({ "aria-label": label }),
];

/** Attaches a shadow root with the styles of editor.css to `box`; lines are measured again once these have loaded. */
function rootIn(box) {
  const root = box.attachShadow({ mode: "open" });
  const styles = Object.assign(document.createElement("link"), { rel: "stylesheet", href: new URL("editor.css", import.meta.url).href });
  const parent = document.createElement("div");
  parent.className = "parent";
  root.append(styles, parent);
  const styled = (...views) => styles.addEventListener("load", () => views.forEach((view) => view.requestMeasure()));
  return { root, parent, styled };
}

/**
 * A YAML editor. While the user types, `faults(text)` returns `[{from, to, message, severity}]`, and `complete(context)` returns
 * `{from, options}` or null. Tab leaves the editor; Ctrl-S calls `onSave`. `handle.current` is set to `{view, lint}`.
 */
export function Editor({ text, onChange, onCursor, onSave, faults, complete, readOnly = false, label, handle }) {
  const box = useRef();
  const latest = useRef({});
  latest.current = { onChange, onCursor, onSave, faults, complete };
  useEffect(() => {
    const { root, parent, styled } = rootIn(box.current);
    const view = new EditorView({
      parent, root,
      state: EditorState.create({
        doc: text,
        extensions: [
          shared(label), history(), drawSelection(), highlightActiveLine(), indentOnInput(), lintGutter(),
          linter((one) => latest.current.faults?.(one.state.doc.toString()) ?? [], { delay: 300 }),
          autocompletion({ override: [(context) => latest.current.complete?.(context) ?? null] }),
          keymap.of([
            { key: "Mod-s", run: () => (latest.current.onSave?.(), true) },
            ...completionKeymap, ...defaultKeymap, ...historyKeymap, ...searchKeymap, ...foldKeymap, ...lintKeymap,
          ]),
          EditorState.readOnly.of(readOnly),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) latest.current.onChange?.(update.state.doc.toString());
            if (update.selectionSet || update.docChanged) latest.current.onCursor?.(update.state.selection.main.head);
          }),
        ],
      }),
    });
    styled(view);
    if (handle) handle.current = { view, lint: () => forceLinting(view) };
    return () => view.destroy();
  }, []);
  useEffect(() => {
    const view = handle?.current?.view;
    if (view && view.state.doc.toString() !== text) {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
    }
  }, [text]);
  return html`<div class="editor" ref=${box}></div>`;
}

/** Two texts side by side, with changes marked and equal parts folded. `onRight` makes the right one editable. */
export function Difference({ left, right, leftLabel, rightLabel, onRight }) {
  const box = useRef();
  useEffect(() => {
    // Each view needs its own element, because a shadow root cannot be removed from one.
    const made = box.current.appendChild(document.createElement("div"));
    const fixed = [EditorState.readOnly.of(true), EditorView.editable.of(true)];
    const changed = EditorView.updateListener.of((update) => {
      if (update.docChanged) onRight?.(update.state.doc.toString());
    });
    const { root, parent, styled } = rootIn(made);
    const view = new MergeView({
      parent, root,
      a: { doc: left, extensions: [shared(leftLabel), fixed] },
      b: { doc: right, extensions: [shared(rightLabel), onRight ? [history(), changed, keymap.of([...defaultKeymap, ...historyKeymap])] : fixed] },
      revertControls: onRight ? "a-to-b" : undefined,
      collapseUnchanged: { margin: 3, minSize: 6 },
      highlightChanges: true,
      gutter: true,
    });
    styled(view.a, view.b);
    return () => (view.destroy(), made.remove());
  }, [left, onRight ? null : right]);
  return html`<div class="difference">
    <div class="difference-labels"><span>${leftLabel}</span><span>${rightLabel}</span></div>
    <div class="difference-box" ref=${box}></div>
  </div>`;
}
