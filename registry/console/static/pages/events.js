// The events about an object.
import { resourcePath } from "../logic/paths.js";
import { Age, Empty, ErrorNotice, html, Loading, SmallTable, Status, useConsole, useLoaded } from "../ui.js";

const EVENTS = { group: "", version: "v1", plural: "events", namespaced: true };

export default function Events({ namespace, object }) {
  const { api, tenant } = useConsole();
  const { uid, resourceVersion } = object.metadata;
  // Events of cluster-scoped objects are in `default`.
  const path = resourcePath(tenant, EVENTS, { namespace: namespace || "default", query: { fieldSelector: `involvedObject.uid=${uid}`, limit: 200 } });
  const events = useLoaded((signal) => api.get(path, { signal }), [path, resourceVersion]);
  if (events.error) return html`<${ErrorNotice} error=${events.error} again=${events.again} />`;
  if (!events.value) return html`<${Loading} />`;
  const when = (event) => event.lastTimestamp ?? event.series?.lastObservedTime ?? event.eventTime ?? event.metadata.creationTimestamp;
  const items = [...events.value.items].sort((a, b) => (when(a) < when(b) ? 1 : -1));
  if (items.length === 0) return html`<${Empty}>No events.</>`;
  return html`<${SmallTable} label="Events" wrap head=${["Last seen", "Type", "Reason", "Message", "From", "Count"]}>
    ${items.map((event) => html`<tr key=${event.metadata.uid}>
      <td><${Age} time=${when(event)} /></td><td><${Status} text=${event.type} /></td>
      <td>${event.reason}</td><td>${event.message}</td>
      <td>${event.source?.component || event.reportingComponent || ""}</td>
      <td>${event.series?.count ?? event.count ?? 1}</td></tr>`)}
  </>`;
}
