// The routes of the incidents page.

import { z } from "zod";
import { DAY_MS } from "../../base/time.ts";
import { operatorFormRoute, operatorPageRoute } from "../../http/pages/page-routes.ts";
import { networksOf } from "../../http/request/client-ip.ts";
import { parseWithSchema } from "../../http/request/validate.ts";
import type { Route } from "../../http/route.ts";
import { STATUS_DAYS } from "../../status/availability.ts";
import {
  type Incident,
  INCIDENT_IMPACTS,
  INCIDENT_STATES,
  listIncidents,
  postIncidentUpdate,
} from "../../status/incidents.ts";
import {
  emptyAsUndefined,
  FormFields,
  FormToken,
  type OperatorContext,
  submitFormOnce,
} from "../page-context.ts";
import { INCIDENTS_PATH, incidentsPage, MESSAGE_MAX, TITLE_MAX } from "./incidents-page.tsx";

const UpdateForm = z.object({
  form: FormToken,
  incident: emptyAsUndefined(z.string().max(40)),
  title: z.string().trim().min(1, "must not be empty").max(TITLE_MAX),
  impact: z.enum(INCIDENT_IMPACTS),
  state: z.enum(INCIDENT_STATES),
  message: z.string().trim().min(1, "must not be empty").max(MESSAGE_MAX),
});

export function incidentRoutes(context: OperatorContext): readonly Route[] {
  const { db } = context;
  const listRecent = (now: number): Promise<readonly Incident[]> =>
    listIncidents(db, now - STATUS_DAYS * DAY_MS);
  return [
    operatorPageRoute({
      path: INCIDENTS_PATH,
      id: "showIncidents",
      summary: "Show the incidents of the status page",
      query: z.object({ done: z.literal("posted").optional() }),
      run: async ({ query, now, caller }) =>
        incidentsPage(caller, {
          incidents: await listRecent(now),
          isPosted: query.done !== undefined,
        }),
    }),
    operatorFormRoute({
      path: INCIDENTS_PATH,
      id: "postIncidentUpdate",
      summary: "Post an update of an incident",
      body: FormFields,
      requestExample: {
        form: "f".repeat(43),
        incident: "",
        title: "Slow replies",
        impact: "degraded",
        state: "investigating",
        message: "We look into it.",
      },
      run: async ({ body, caller, clientIp, now }) => {
        const form = parseWithSchema(UpdateForm, body, "body");
        const { incident: incidentId, title, impact, state, message } = form;
        const update = { incidentId, title, impact, state, message };
        const act = { operator: caller.email, network: networksOf(clientIp)[1], now };
        await submitFormOnce(context, caller, { token: form.form, payload: form, now }, (tx) =>
          postIncidentUpdate(tx, act, update),
        );
        return `${INCIDENTS_PATH}?done=posted`;
      },
      rejected: async ({ body, now, caller }, { message }) =>
        incidentsPage(caller, {
          incidents: await listRecent(now),
          errorMessage: message,
          formValues: body,
        }),
    }),
  ];
}
