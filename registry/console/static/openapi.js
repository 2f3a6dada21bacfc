// OpenAPI schemas of kinds, for the editor and for new objects.
import { tenantPrefix } from "./logic/paths.js";
import { schemaOfKind } from "./logic/schema.js";

/** Loads the OpenAPI v3 document of the kind's group and version: `{document, schema}`, both empty if there is none. */
export async function loadSchema(api, tenant, kind) {
  const name = kind.group ? `apis/${kind.group}/${kind.version}` : `api/${kind.version}`;
  try {
    const document = await api.get(`${tenantPrefix(tenant)}/openapi/v3/${name}`);
    return { document, schema: schemaOfKind(document, kind.group, kind.version, kind.kind) };
  } catch {
    return { document: null, schema: undefined };
  }
}
