// What the server publishes of its kinds, for the editor and for new objects.
import { tenantPrefix } from "./logic/paths.js";
import { schemaOfKind } from "./logic/schema.js";

/** The OpenAPI document of a group and version, and the kind's schema in it; nulls where there is none. */
export async function loadSchema(api, tenant, kind) {
  const name = kind.group ? `apis/${kind.group}/${kind.version}` : `api/${kind.version}`;
  try {
    const document = await api.get(`${tenantPrefix(tenant)}/openapi/v3/${name}`);
    return { document, schema: schemaOfKind(document, kind.group, kind.version, kind.kind) };
  } catch {
    return { document: null, schema: undefined };
  }
}
