/** @jsxImportSource hono/jsx */
// The incidents of the status page, and the form that writes an update.

import type { Child } from "hono/jsx";
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
import type { Operator } from "../../http/route.ts";
import { newFormToken } from "../../idempotency/form-submission.ts";
import { type Incident, INCIDENT_IMPACTS, INCIDENT_STATES } from "../../status/incidents.ts";
import { operatorPage } from "../operator-layout.tsx";
import { OPERATOR_PATH } from "../sign-in/operator-sessions.ts";

export const INCIDENTS_PATH = `${OPERATOR_PATH}/incidents`;
export const TITLE_MAX = 120;
export const MESSAGE_MAX = 2_000;

interface IncidentsPageOptions {
  readonly incidents: readonly Incident[];
  readonly isPosted?: boolean;
  readonly errorMessage?: string;
  readonly formValues?: Readonly<Record<string, string>>;
}

export function incidentsPage(operator: Operator, options: IncidentsPageOptions): PageLayout {
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
          label="State"
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
        { name: "State" },
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
