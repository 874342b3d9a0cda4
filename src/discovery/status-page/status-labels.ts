// The names of states on the status page, in its feed and on the operator's page.

import type { IncidentImpact, IncidentState } from "../../status/incidents.ts";

export const FEED_PATH = "/status/feed.atom";

export const STATE_LABELS: Readonly<Record<IncidentState, string>> = {
  investigating: "Investigating",
  identified: "Identified",
  monitoring: "Monitoring",
  resolved: "Resolved",
};

export const IMPACT_LABELS: Readonly<Record<IncidentImpact, string>> = {
  degraded: "Degraded",
  outage: "Outage",
  maintenance: "Maintenance",
};
