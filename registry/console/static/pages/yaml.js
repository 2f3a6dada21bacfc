// The YAML editor of an object: validates while the user types (by the schema here, by a dry run on the server), saves and
// applies. Unsaved text survives a reload, an expired token and an unreachable server; a concurrent change is shown as a
// difference.
import { APPLY_PATCH, MANAGER } from "../api.js";
import { Difference, Editor } from "../editor.js";
import { apiVersionOf } from "../logic/kinds.js";
import { formatFieldPath, parseFieldPath, resourcePath } from "../logic/paths.js";
import { objectRoute } from "../logic/routes.js";
import { constraintsOf, fieldsOf, rulesOf, schemaAt, typeText, validate } from "../logic/schema.js";
import { ageOf, plural } from "../logic/text.js";
import { parseYaml, pathOfLine, rangeOf, withoutManagedFields, withResourceVersion } from "../logic/yamldoc.js";
import { loadSchema } from "../openapi.js";
import { dropDraft, loadDraft, saveDraft } from "../session.js";
import { Dialog, ErrorNotice, html, Loading, Notice, useConsole, useLoaded, useRights } from "../ui.js";
import { useEffect, useMemo, useRef, useState } from "../vendor/preact.js";

const YAML = "application/yaml";
// Delay between the last keystroke and the dry run, in ms.
const PAUSE = 700;

/** `object` is the current object; without one the editor creates a new object from `template`. */
export default function YamlView(props) {
  const { api, tenant } = useConsole();
  const { kind, namespace, name, object, template } = props;
  const schema = useLoaded(() => loadSchema(api, tenant, kind), [kind]);
  const first = useLoaded((signal) => (object ? loadText(api, tenant, kind, namespace, name, signal) : template), [kind, name]);
  if (first.error && !first.value) return html`<${ErrorNotice} error=${first.error} again=${first.again} />`;
  if (first.value === undefined || !schema.value) return html`<${Loading} />`;
  return html`<${TextEditor} ...${props} first=${first.value} schema=${schema.value} />`;
}

/** Loads the object as YAML text: values are not converted to JavaScript's, which would change large numbers. */
async function loadText(api, tenant, kind, namespace, name, signal) {
  const response = await api.send("GET", resourcePath(tenant, kind, { namespace, name }), { accept: YAML, signal });
  return withoutManagedFields(await response.text());
}

function TextEditor({ kind, namespace, name, object, gone, may = {}, first, schema }) {
  const { api, tenant, go, notify, user } = useConsole();
  const isNew = !object;
  // Drafts of Secrets are not stored.
  const place = kind.plural === "secrets" ? null : JSON.stringify([user, tenant, kind.group, kind.plural, namespace, name ?? ""]);
  const draft = useMemo(() => (place ? loadDraft(place) : null), [place]);
  const [saved, setSaved] = useState(first);
  const [text, setText] = useState(draft?.text ?? first);
  const [restored, setRestored] = useState(draft);
  const [found, setFound] = useState({ local: [], server: [], asked: "" });
  const [error, setError] = useState(null);
  const [conflict, setConflict] = useState(null);
  const [busy, setBusy] = useState(false);
  const [cursor, setCursor] = useState(0);
  const handle = useRef();
  const dirty = text !== saved;
  const parsed = useMemo(() => parseYaml(text), [text]);
  const into = { verb: "create", group: kind.group, resource: kind.plural, namespace: String(parsed.value?.metadata?.namespace ?? namespace) };
  const { create } = useRights(isNew ? { create: into } : {});
  const canSave = isNew ? create : (may.update || may.patch) && !gone;

  // Unsaved text is stored until it is saved or discarded.
  useEffect(() => {
    if (!place) return;
    if (dirty) saveDraft(place, { text, base: versionOf(saved), at: new Date().toISOString() });
    else dropDraft(place);
  }, [text, saved]);
  useEffect(() => {
    const warn = (event) => dirty && !place && event.preventDefault();
    addEventListener("beforeunload", warn);
    return () => removeEventListener("beforeunload", warn);
  }, [dirty]);

  // A concurrent change replaces unedited text; otherwise it is offered as a difference.
  const theirVersion = object?.metadata.resourceVersion;
  const changed = !isNew && !gone && theirVersion && theirVersion !== versionOf(saved);
  useEffect(() => {
    if (!changed || dirty) return;
    const abort = new AbortController();
    loadText(api, tenant, kind, namespace, name, abort.signal).then((theirs) => (setSaved(theirs), setText(theirs)), () => {});
    return () => abort.abort();
  }, [theirVersion, dirty]);

  const local = useMemo(() => localFaults(parsed, schema, kind, isNew), [parsed, schema]);
  // Validates the text on the server by a dry run of the save.
  useEffect(() => {
    if (!dirty || !canSave || local.some((one) => one.fatal)) return;
    const abort = new AbortController();
    const timer = setTimeout(async () => {
      try {
        await write(text, { query: { dryRun: "All" }, signal: abort.signal });
        setFound({ server: [], asked: text });
      } catch (failure) {
        if (failure.name !== "AbortError" && failure.code !== 409) setFound({ server: serverFaults(failure), asked: text });
      }
    }, PAUSE);
    return () => (clearTimeout(timer), abort.abort());
  }, [text, saved, canSave]);
  const faults = [...local, ...(found.asked === text ? found.server : [])].map((one) => ({ ...one, ...placeOf(one, parsed) }));
  useEffect(() => handle.current?.lint(), [found]);

  /** Creates, replaces or applies (server-side apply) the object; returns the result as YAML. */
  async function write(body, { query = {}, signal, applies = false } = {}) {
    const { value = {}, document } = parseYaml(body);
    if (applies) for (const field of ["resourceVersion", "managedFields"]) document.deleteIn(["metadata", field]);
    const target = { namespace: value.metadata?.namespace || namespace, query: { fieldManager: MANAGER, fieldValidation: "Strict", ...query } };
    const path = resourcePath(tenant, kind, isNew ? target : { ...target, name });
    const sent = applies ? { body: document.toString({ lineWidth: 0 }), type: APPLY_PATCH } : { body, type: YAML };
    const response = await api.send(isNew ? "POST" : applies ? "PATCH" : "PUT", path, { ...sent, accept: YAML, signal });
    return withoutManagedFields(await response.text());
  }
  const attempt = async (work) => {
    setBusy(true);
    setError(null);
    try {
      await work();
    } catch (failure) {
      if (failure.code === 409 && !isNew) await showConflict(failure);
      else setError(failure);
    } finally {
      setBusy(false);
    }
  };
  const accept = (result, word) => {
    setSaved(result);
    setText(result);
    setRestored(null);
    setConflict(null);
    notify(word);
  };
  const save = (body = text) => attempt(async () => {
    const result = await write(body);
    accept(result, isNew ? "Created." : "Saved.");
    if (isNew) {
      if (place) dropDraft(place);
      const { metadata } = parseYaml(result).value;
      go(objectRoute(tenant, kind, metadata.namespace, metadata.name));
    }
  });
  const apply = (force = "") => attempt(async () => accept(await write(text, { query: { force }, applies: true }), "Applied."));
  const showConflict = async (failure) => {
    if (failure?.causes.some((cause) => cause.reason === "FieldManagerConflict")) return setConflict({ owners: failure });
    try {
      const theirs = await loadText(api, tenant, kind, namespace, name);
      setConflict({ theirs, mine: withResourceVersion(text, versionOf(theirs)) });
    } catch (problem) {
      setError(problem);
    }
  };
  // From now on the text is based on the version that the server has.
  const resolve = (chosen) => {
    setSaved(conflict.theirs);
    setText(chosen);
    setConflict(null);
  };
  const giveUp = () => {
    setText(saved);
    setRestored(null);
    setError(null);
  };

  return html`
    ${restored && dirty && html`<${Notice}
        kind="warning">Your unsaved text of ${ageOf(restored.at)} ago is restored.
      ${restored.base !== versionOf(first) && !isNew ? " The object has changed since." : ""}</>`}
    ${changed && dirty && html`<${Notice} kind="warning"><p>${changeText(object)} Your text is untouched.</p>
      <button type="button" onClick=${() => showConflict()}>Show the difference</button></>`}
    ${error && html`<${ErrorNotice} error=${error} />`}
    <div class="bar-row">
      ${canSave ? html`
        <button type="button" class="main" disabled=${busy || !dirty && !isNew || (!isNew && !may.update)}
            onClick=${() => save()}>${isNew ? "Create" : "Save"}</button>
        ${!isNew && may.patch && html`<button type="button" disabled=${busy || !dirty} onClick=${() => apply()}
            title="Server-side apply: you own the fields of the text, and fields of other managers are conflicts">Apply</button>`}
        ${dirty && html`<button type="button" onClick=${giveUp}>Discard</button>`}
        <span class="quiet" role="status">${stateText(dirty, faults, found.asked === text, isNew)}</span>`
        : html`<span class="quiet">${isNew ? create === false && `You may not create a ${kind.kind} there.`
          : !gone && "You can read this object, but not change it."}</span>`}
    </div>
    <div class="split">
      <${Editor} text=${text} onChange=${setText} onCursor=${setCursor}
          onSave=${() => canSave && (dirty || isNew) && save()} readOnly=${false} handle=${handle}
        label=${isNew ? `New ${kind.kind} in YAML` : `${kind.kind} ${name} in YAML`} faults=${() => faults} complete=${(context) => completions(context, schema)} />
      <aside class="card help" aria-label="Problems, and the field at the cursor" tabindex="0">
        ${faults.length > 0 && html`<h2>${plural(faults.length, "problem")}</h2><ul class="faults">
          ${faults.slice(0, 50).map((one) => html`<li><button type="button"
              onClick=${() => jump(handle, one)}>${formatFieldPath(one.path ?? []) || `line ${lineOf(text, one.from)}`}</button><br />${one.message}</li>`)}</ul>`}
        <${FieldHelp} path=${pathOfLine(text.split("\n"), lineOf(text, cursor) - 1)} schema=${schema} />
      </aside>
    </div>
    ${conflict?.theirs !== undefined && html`<${Conflict} conflict=${conflict} onClose=${() => setConflict(null)}
      onTake=${() => resolve(conflict.theirs)} onKeep=${resolve} onSave=${(mine) => (resolve(mine), save(mine))} />`}
    ${conflict?.owners && html`<${OwnerConflict} failure=${conflict.owners} onClose=${() => setConflict(null)}
        onForce=${() => (setConflict(null), apply(true))} />`}`;
}

const versionOf = (text) => /^ {2}resourceVersion: "?(\d+)"?$/m.exec(text)?.[1] ?? "";

const lineOf = (text, offset) => text.slice(0, offset).split("\n").length;

function changeText(object) {
  const newest = (object.metadata.managedFields ?? []).filter((one) => one.time).sort((a, b) => (a.time < b.time ? 1 : -1))[0];
  return `The object was changed meanwhile${newest ? ` by ${newest.manager}, ${ageOf(newest.time)} ago` : ""}.`;
}

function stateText(dirty, faults, asked, isNew) {
  if (faults.length > 0) return "";
  if (!dirty) return isNew ? "" : "No changes";
  return asked ? "The server would accept this" : "Checking…";
}

/** Returns the problems found without the server; no dry run is sent while there are `fatal` ones. */
function localFaults({ value, errors }, { schema, document }, kind, isNew) {
  if (errors.length > 0) return errors.map((one) => ({ ...one, severity: "error", fatal: true }));
  const fatal = { severity: "error", fatal: true };
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return [{ from: 0, to: 0, message: "This must be an object.", ...fatal }];
  }
  const faults = [];
  const expected = apiVersionOf(kind);
  if (value.apiVersion !== expected) faults.push({ path: ["apiVersion"], message: `must be ${expected} here`, ...fatal });
  if (value.kind !== kind.kind) faults.push({ path: ["kind"], message: `must be ${kind.kind} here`, ...fatal });
  if (isNew && !value.metadata?.name && !value.metadata?.generateName) {
    faults.push({ path: ["metadata", "name"], message: "a name is required", ...fatal });
  }
  return schema ? [...faults, ...validate(value, schema, document)] : faults;
}

function serverFaults(failure) {
  if (failure.code === 0 || failure.code === 401) return [];
  if (failure.causes.length === 0) return [{ path: [], message: failure.message, severity: "error" }];
  return failure.causes.map((cause) => ({ path: parseFieldPath(cause.field ?? ""), message: cause.message, severity: "error" }));
}

const placeOf = (fault, parsed) => (fault.from !== undefined ? {} : rangeOf(parsed.document, fault.path));

function jump(handle, { from }) {
  const { view } = handle.current;
  view.dispatch({ selection: { anchor: from }, scrollIntoView: true });
  view.focus();
}

/** Completes field names, and values of enums and booleans. */
function completions(context, { schema, document }) {
  if (!schema) return null;
  const line = context.state.doc.lineAt(context.pos);
  const before = line.text.slice(0, context.pos - line.from);
  const key = /^(\s*(?:- )*)([\w-]*)$/.exec(before);
  const value = /^\s*(?:- )*[\w-]+:\s+(\S*)$/.exec(before);
  if (!key && !value) return null;
  if (!context.explicit && !(key?.[2] || value?.[1])) return null;
  const path = pathOfLine(context.state.doc.toString().split("\n"), line.number - 1, key !== null);
  const at = schemaAt(schema, path, document);
  if (!at) return null;
  if (value) {
    const options = at.enum ?? (at.type === "boolean" ? [true, false] : null);
    return options && { from: context.pos - value[1].length, options: options.map((one) => ({ label: String(one), type: "constant" })) };
  }
  const options = fieldsOf(at, document).map(({ name, schema: field, required }) => {
    const type = typeText(field, document);
    const suffix = type === "object" || type.startsWith("list") || type.startsWith("map") ? ":" : ": ";
    const detail = `${type}${required ? ", required" : ""}`;
    return { label: name, apply: name + suffix, detail, info: field.description || undefined, boost: required ? 1 : 0 };
  });
  return { from: context.pos - key[2].length, options };
}

function FieldHelp({ path, schema: { schema, document } }) {
  const found = schema && schemaAt(schema, path, document);
  if (!found) return html`<p class="quiet">Ctrl-Space completes field names. Tab leaves the editor.</p>`;
  const fields = fieldsOf(found, document).map((one) => one.name + (one.required ? "*" : ""));
  return html`<h2 class="mono">${formatFieldPath(path) || "The object"}</h2>
    <p class="mono">${typeText(found, document)}</p>
    ${found.description && html`<p>${found.description}</p>`}
    ${constraintsOf(found).map((one) => html`<p class="quiet mono">${one}</p>`)}
    ${rulesOf(found).map((one) => html`<p class="quiet"><code>${one.rule}</code><br />${one.message}</p>`)}
    ${fields.length > 0 && html`<p class="quiet">Fields: ${fields.join(", ")}</p>`}`;
}

function Conflict({ conflict, onClose, onTake, onKeep, onSave }) {
  const [mine, setMine] = useState(conflict.mine);
  return html`<${Dialog} title="The object was changed meanwhile" wide=${true} onClose=${onClose}>
    <div class="body"><p>The server's version is on the left, yours is on the right, where you can edit it. The arrows copy a change from the left.</p>
      <${Difference} left=${conflict.theirs} right=${conflict.mine} leftLabel="On the server" rightLabel="Yours"
          onRight=${setMine} /></div>
    <footer><button type="button" onClick=${onTake}>Take the server's</button><button type="button"
        onClick=${() => onKeep(mine)}>Keep editing mine</button>
      <button type="button" class="main" onClick=${() => onSave(mine)}>Save mine</button></footer>
  </>`;
}

function OwnerConflict({ failure, onClose, onForce }) {
  return html`<${Dialog} title="Fields of other managers" onClose=${onClose}>
    <div class="body"><p>You would change fields that another manager has applied:</p>
      <ul>${failure.causes.map((cause) => html`<li><code>${cause.field}</code> ${cause.message}</li>`)}</ul>
      <p class="quiet">Leave them out of your text, or take them over: then the other manager has the conflict when it applies again.</p></div>
    <footer><button type="button" onClick=${onClose}>Back to the text</button><button type="button" class="danger"
        onClick=${onForce}>Take ownership</button></footer>
  </>`;
}
