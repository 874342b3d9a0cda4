/** @jsxImportSource hono/jsx */
// The incidents of the status page, and the form that writes an update.

import type { Child } from "hono/jsx";
import { z } from "zod";
import { DAY_MS } from "../../base/time.ts";
import { Card, EmptyState, Notice, Tag } from "../../http/pages/components/content.tsx";
import {
  ErrorMessage,
  Field,
  PostForm,
  SelectField,
  TextField,
} from "../../http/pages/components/form.tsx";
import { RelativeTime } from "../../http/pages/components/local-time.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { operatorFormRoute, operatorPageRoute } from "../../http/pages/page-routes.ts";
import { networksOf } from "../../http/request/client-ip.ts";
import { parseWithSchema } from "../../http/request/validate.ts";
import type { Operator, Route } from "../../http/route.ts";
import { emptyAsUndefined } from "../../http/schemas.ts";
import { newFormToken } from "../../idempotency/form-submission.ts";
import { STATUS_DAYS } from "../../status/availability.ts";
import {
  type Incident,
  INCIDENT_IMPACTS,
  INCIDENT_STATES,
  listIncidents,
  postIncidentUpdate,
} from "../../status/incidents.ts";
import { operatorPage } from "../operator-layout.tsx";
import { FormFields, FormToken, type OperatorContext, submitFormOnce } from "../page-context.ts";
import { OPERATOR_PATH } from "../sign-in/operator-sessions.ts";

const INCIDENTS_PATH = `${OPERATOR_PATH}/incidents`;
const TITLE_MAX = 120;
const MESSAGE_MAX = 2_000;

interface IncidentsPageOptions {
  readonly incidents: readonly Incident[];
  readonly isPosted?: boolean;
  readonly errorMessage?: string;
  readonly formValues?: Readonly<Record<string, string>>;
}

function incidentsPage(operator: Operator, options: IncidentsPageOptions): PageLayout {
  const { incidents, isPosted = false, errorMessage, formValues = {} } = options;
  return operatorPage({
    title: "Incidents",
    operator,
    path: INCIDENTS_PATH,
    actions: <a href="/status">Show the status page</a>,
    main: (
      <>
        {isPosted ? <Notice>The update is on the status page within a minute.</Notice> : null}
        <Card id="update" title="Post an update">
          <ErrorMessage message={errorMessage} />
          <UpdateForm operator={operator} incidents={incidents} values={formValues} />
        </Card>
        <Card id="incidents" title="Incidents of the last 90 days">
          {incidents.length === 0 ? (
            <EmptyState title="No incidents">
              Incidents that you post are on the status page and in its feed.
            </EmptyState>
          ) : (
            <IncidentTable incidents={incidents} />
          )}
        </Card>
      </>
    ),
  });
}

interface UpdateFormProps {
  readonly operator: Operator;
  readonly incidents: readonly Incident[];
  readonly values: Readonly<Record<string, string>>;
}

function UpdateForm({ operator, incidents, values }: UpdateFormProps): Child {
  return (
    <PostForm
      class="narrow"
      user={operator}
      action={INCIDENTS_PATH}
      fields={{ form: newFormToken() }}
    >
      <SelectField
        name="incident"
        label="Incident"
        value={values["incident"]}
        options={[
          ["", "A new incident"],
          ...incidents
            .filter(({ state }) => state !== "resolved")
            .map(({ id, title }) => [id, title] as const),
        ]}
      />
      <Field
        id="title"
        name="title"
        label="Title"
        hint="What happened, in a few words. An update can change it."
        value={values["title"]}
        isRequired
        maxLength={TITLE_MAX}
      />
      <div class="fields">
        <SelectField
          name="impact"
          label="Impact"
          value={values["impact"]}
          options={INCIDENT_IMPACTS.map((impact) => [impact, impact])}
        />
        <SelectField
          name="state"
          label="Status"
          value={values["state"]}
          options={INCIDENT_STATES.map((state) => [state, state])}
        />
      </div>
      <TextField
        id="message"
        name="message"
        label="Message"
        hint="Everyone can read it. It cannot be changed: correct it with another update."
        value={values["message"]}
        isRequired
        maxLength={MESSAGE_MAX}
      />
      <button type="submit">Post update</button>
    </PostForm>
  );
}

function IncidentTable({ incidents }: { readonly incidents: readonly Incident[] }): Child {
  return (
    <Table
      label="Incidents"
      isStacked
      columns={[
        { name: "Incident" },
        { name: "Impact" },
        { name: "Status" },
        { name: "Updates", isNumber: true },
        { name: "Last update", isDate: true },
      ]}
      rows={incidents.map(({ id, title, impact, state, updates }) => [
        <a href={`/status#${id}`}>{title}</a>,
        impact,
        <Tag tone={state === "resolved" ? "good" : "warn"}>{state}</Tag>,
        updates.length,
        <RelativeTime at={updates[0]?.at ?? 0} />,
      ])}
    />
  );
}

const UpdateBody = z.object({
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
        const form = parseWithSchema(UpdateBody, body, "body");
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
