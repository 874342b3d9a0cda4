// Incidents that the operator describes on the status page. It owns the table incident_update. An incident is the updates with
// its id: an update is never changed, so a correction is another update.

import { recordAuditEntry } from "../activity/audit.ts";
import { Fault } from "../base/fault.ts";
import { newId, newIdAfter } from "../base/id.ts";
import { enumValue, integer, type Reader, type Row, text, type Tx } from "../store/db.ts";

export const INCIDENT_STATES = ["investigating", "identified", "monitoring", "resolved"] as const;
export type IncidentState = (typeof INCIDENT_STATES)[number];

export const INCIDENT_IMPACTS = ["degraded", "outage", "maintenance"] as const;
export type IncidentImpact = (typeof INCIDENT_IMPACTS)[number];

/** Enough for 90 days; beyond it the oldest updates are left out. */
const LISTED_UPDATES_MAX = 500;

export interface IncidentUpdate {
  readonly id: string;
  readonly at: number;
  readonly state: IncidentState;
  readonly message: string;
}

export interface Incident {
  readonly id: string;
  readonly title: string;
  readonly impact: IncidentImpact;
  readonly state: IncidentState;
  /** Newest first, at least one. */
  readonly updates: readonly IncidentUpdate[];
}

export interface NewIncidentUpdate extends Pick<Incident, "title" | "impact" | "state"> {
  /** Undefined for a new incident. */
  readonly incidentId: string | undefined;
  readonly message: string;
}

interface OperatorAct {
  readonly operator: string;
  readonly network: string;
  readonly now: number;
}

/** Returns the id of the incident. */
export async function postIncidentUpdate(
  tx: Tx,
  { operator, network, now }: OperatorAct,
  update: NewIncidentUpdate,
): Promise<string> {
  const { title, impact, state, message } = update;
  const incidentId = update.incidentId ?? newId("inc", now);
  const last = await tx.get(
    "select id from incident_update where incident_id = ? order by id desc limit 1",
    [incidentId],
  );
  if (last === undefined && update.incidentId !== undefined)
    throw new Fault("invalid_request", `no incident ${incidentId}`, {
      message: "This incident does not exist. Choose one of the list.",
      param: "incident",
    });
  const id = newIdAfter("iup", now, last === undefined ? "" : text(last, "id"));
  await tx.run(
    `insert into incident_update (id, incident_id, at, title, impact, state, message)
     values (?, ?, ?, ?, ?, ?, ?)`,
    [id, incidentId, now, title, impact, state, message],
  );
  await recordAuditEntry(tx, {
    accountId: null,
    actor: { type: "operator", id: operator },
    action: "incident.posted",
    target: incidentId,
    detail: { title, impact, state },
    network,
    now,
  });
  return incidentId;
}

/** Incidents with an update since then, those with the newest update first. */
export async function listIncidents(reader: Reader, since: number): Promise<readonly Incident[]> {
  const rows = await reader.all(
    "select * from incident_update where at >= ? order by id desc limit ?",
    [since, LISTED_UPDATES_MAX],
  );
  const byIncident = Map.groupBy(rows, (row) => text(row, "incident_id"));
  return [...byIncident].map(([id, updates]) => toIncident(id, updates));
}

function toIncident(id: string, rows: readonly Row[]): Incident {
  const [latest = {}] = rows;
  return {
    id,
    title: text(latest, "title"),
    impact: enumValue(latest, "impact", INCIDENT_IMPACTS),
    state: enumValue(latest, "state", INCIDENT_STATES),
    updates: rows.map((row) => ({
      id: text(row, "id"),
      at: integer(row, "at"),
      state: enumValue(row, "state", INCIDENT_STATES),
      message: text(row, "message"),
    })),
  };
}
