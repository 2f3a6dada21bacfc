// The kinds that a tenant serves, from aggregated discovery.

// The kind of definitions, which pages refer to before discovery has been read.
export const DEFINITIONS = {
  group: "apiextensions.k8s.io", version: "v1", plural: "customresourcedefinitions", namespaced: false, kind: "CustomResourceDefinition",
  verbs: ["list", "watch"],
};

/**
 * Returns `{group, version, plural, kind, singular, namespaced, verbs, shortNames, categories, preferred}` for
 * each resource and version; `preferred` marks the version that its group lists first.
 */
export function kindsOf(documents) {
  const kinds = [];
  for (const document of documents) {
    for (const item of document.items ?? []) {
      const group = item.metadata?.name ?? "";
      const seen = new Set();
      for (const version of item.versions ?? []) {
        for (const resource of version.resources ?? []) {
          const { resource: plural, singularResource: singular = "", verbs = [], shortNames = [], categories = [] } = resource;
          kinds.push({
            group, version: version.version, plural, singular, verbs, shortNames, categories,
            kind: resource.responseKind?.kind ?? plural,
            namespaced: resource.scope === "Namespaced",
            preferred: !seen.has(plural),
          });
          seen.add(plural);
        }
      }
    }
  }
  return kinds.sort((a, b) => compare(a.group, b.group) || compare(a.plural, b.plural));
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

export function findKind(kinds, group, version, plural) {
  return kinds.find((one) => one.group === group && one.version === version && one.plural === plural);
}

/** Returns the kind that an owner reference names by apiVersion and kind. */
export function kindOfReference(kinds, apiVersion, kind) {
  const [version, group] = (apiVersion ?? "").split("/").reverse();
  return (
    kinds.find((one) => one.group === (group ?? "") && one.version === version && one.kind === kind) ??
    kinds.find((one) => one.group === (group ?? "") && one.kind === kind && one.preferred)
  );
}

/** `backups.demo.example.com`, or `configmaps` in the core. */
export function qualifiedName(kind) {
  return kind.group ? `${kind.plural}.${kind.group}` : kind.plural;
}

export function apiVersionOf(kind) {
  return kind.group ? `${kind.group}/${kind.version}` : kind.version;
}

/** Whether the kind is built into the server. */
export function isBuiltin(kind) {
  return !kind.group.includes(".") || /\.(k8s\.io|registry)$/.test(kind.group);
}

/**
 * Returns the matching kinds, best match first: whole names and short names, prefixes, substrings, categories, groups. Without
 * a text: all kinds, custom ones first.
 */
export function searchKinds(kinds, text) {
  const wanted = text.trim().toLowerCase();
  const rank = (kind) => {
    const names = [kind.plural, kind.singular, kind.kind.toLowerCase()];
    if ([...kind.shortNames, ...names, qualifiedName(kind)].includes(wanted)) return 0;
    if ([...names, qualifiedName(kind)].some((name) => name.startsWith(wanted))) return 1;
    if (names.some((name) => name.includes(wanted))) return 2;
    if (kind.categories.some((one) => one.startsWith(wanted))) return 3;
    return kind.group.includes(wanted) ? 4 : 5;
  };
  const ranked = kinds.filter((kind) => kind.preferred && kind.verbs.includes("list")).map((kind) => [rank(kind), kind]);
  if (!wanted) return ranked.map(([, kind]) => kind).sort((x, y) => Number(isBuiltin(x)) - Number(isBuiltin(y)));
  return ranked
    .filter(([value]) => value < 5)
    .sort(([a, x], [b, y]) => a - b || Number(isBuiltin(x)) - Number(isBuiltin(y)) || x.plural.length - y.plural.length)
    .map(([, kind]) => kind);
}
