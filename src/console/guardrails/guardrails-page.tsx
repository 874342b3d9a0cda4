/** @jsxImportSource hono/jsx */
// The guardrails of a workspace, and the forms that save them.

import type { Child } from "hono/jsx";
import { hasPermission } from "../../accounts/members.ts";
import type { GuardPhase } from "../../base/guard.ts";
import type { Guardrail } from "../../guardrails/guardrails.ts";
import { ENTITIES, type Entity } from "../../guardrails/patterns.ts";
import { Card, EmptyState } from "../../http/pages/components/content.tsx";
import {
  ErrorMessage,
  Field,
  Option,
  SelectField,
  TextField,
} from "../../http/pages/components/form.tsx";
import { RelativeTime } from "../../http/pages/components/local-time.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { FormError } from "../../http/pages/page-response.ts";
import type { SessionUser } from "../../http/route.ts";
import { ConfirmDelete, ConfirmLink, withQuery } from "../confirm.tsx";
import { consolePage, HiddenFields, workspacePath } from "../console-layout.tsx";
import { DoneNotice } from "../done-notice.tsx";
import type { WorkspaceContext } from "../require-access.ts";

const PAGE = "/guardrails";
const DONE_TEXTS = {
  save: "The guardrail is saved. It checks all new calls within five seconds.",
  delete: "The guardrail is deleted.",
} as const;

const ENTITY_NAMES: Readonly<Record<Entity, string>> = {
  api_key: "API keys",
  private_key: "Private keys",
  jwt: "JSON Web Tokens",
  email: "Email addresses",
  phone: "Phone numbers",
  credit_card: "Card numbers",
  iban: "IBANs",
  us_ssn: "US social security numbers",
  ip_address: "IPv4 addresses",
};
/** Those whose matches are hardly ever anything else. */
const CHOSEN_AT_FIRST: ReadonlySet<Entity> = new Set(["api_key", "private_key", "jwt"]);
const PHASE_NAMES: Readonly<Record<GuardPhase, string>> = { input: "Requests", output: "Replies" };

interface RejectedForm {
  readonly form: Readonly<Record<string, string | undefined>>;
  readonly error: FormError;
}

export interface GuardrailsPageProps {
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
  readonly guardrails: readonly Guardrail[];
  /** The guardrail whose deletion is to be confirmed. */
  readonly asked?: string | undefined;
  readonly done?: string | undefined;
  readonly rejected?: RejectedForm;
}

export function guardrailsPage(props: GuardrailsPageProps): PageLayout {
  const { user, workspace, guardrails, asked, done, rejected } = props;
  const path = workspacePath(workspace.accountId, PAGE);
  const canChange = hasPermission(workspace.role, "guardrails.change");
  return consolePage({
    title: "Guardrails",
    workspace,
    user,
    page: PAGE,
    main: (
      <>
        <DoneNotice texts={DONE_TEXTS} done={done} />
        <ErrorMessage message={rejected?.error.message} />
        {canChange ? (
          <ConfirmDelete user={user} path={path} noun="guardrail" items={guardrails} asked={asked}>
            Delete {asked}? Calls are not checked by it any more.
          </ConfirmDelete>
        ) : null}
        <Card
          id="guardrails"
          title="Guardrails"
          aside={<a href="/docs/guardrails">How calls are checked</a>}
        >
          {guardrails.length === 0 ? (
            <EmptyState title="No guardrails yet">
              <p class="muted">
                A guardrail checks the requests and replies of all keys of this workspace: it masks
                secrets and personal data, or sends the texts to a server of yours that decides.
              </p>
            </EmptyState>
          ) : (
            <GuardrailTable guardrails={guardrails} path={path} canChange={canChange} />
          )}
        </Card>
        {canChange ? (
          <>
            <PatternForm user={user} path={path} rejected={formOf(rejected, "patterns")} />
            <TopicForm user={user} path={path} rejected={formOf(rejected, "topics")} />
            <HookForm user={user} path={path} rejected={formOf(rejected, "hook")} />
          </>
        ) : null}
      </>
    ),
  });
}

function formOf(
  rejected: RejectedForm | undefined,
  kind: string,
): RejectedForm["form"] | undefined {
  return rejected?.form["do"] === kind ? rejected.form : undefined;
}

function GuardrailTable({
  guardrails,
  path,
  canChange,
}: {
  readonly guardrails: readonly Guardrail[];
  readonly path: string;
  readonly canChange: boolean;
}): Child {
  return (
    <Table
      label="Guardrails"
      isStacked
      columns={[
        { name: "Name" },
        { name: "Checks" },
        { name: "Applies to" },
        { name: "Saved" },
        { name: "Actions", isNumber: true },
      ]}
      rows={guardrails.map(({ name, settings, updatedAt }) => [
        <span class="line">{name}</span>,
        checksText(settings),
        settings.phases.map((phase) => PHASE_NAMES[phase]).join(", "),
        <RelativeTime at={updatedAt} />,
        canChange ? (
          <ConfirmLink href={withQuery(path, { delete: name })} label="Delete" subject={name} />
        ) : (
          "–"
        ),
      ])}
    />
  );
}

function checksText(settings: Guardrail["settings"]): string {
  if (settings.type === "hook") return `Hook at ${new URL(settings.url).host}`;
  if (settings.type === "topics") return `Denies ${settings.topics.join(", ")}`;
  const verb = settings.action === "mask" ? "Masks" : "Denies";
  return `${verb} ${settings.entities.map((entity) => ENTITY_NAMES[entity]).join(", ")}`;
}

interface FormProps {
  readonly user: SessionUser;
  readonly path: string;
  readonly rejected: RejectedForm["form"] | undefined;
}

function PatternForm({ user, path, rejected }: FormProps): Child {
  const isChosen = (entity: Entity): boolean =>
    rejected === undefined ? CHOSEN_AT_FIRST.has(entity) : rejected[entity] === "on";
  return (
    <Card id="patterns" title="Check for secrets and personal data">
      <form method="post" action={path}>
        <HiddenFields user={user} fields={{ do: "patterns" }} />
        <NameField id="patterns-name" rejected={rejected} />
        <fieldset>
          <legend>Look for</legend>
          <div class="event-options">
            {ENTITIES.map((entity) => (
              <Option
                id={`patterns-${entity}`}
                input={{ type: "checkbox", name: entity, value: "on" }}
                label={ENTITY_NAMES[entity]}
                isChecked={isChosen(entity)}
              />
            ))}
          </div>
        </fieldset>
        <SelectField
          id="patterns-action"
          name="action"
          label="If it is found"
          options={[
            ["mask", "Mask it, such as with [EMAIL]"],
            ["deny", "Deny the call"],
          ]}
          value={rejected?.["action"]}
        />
        <PhaseFields id="patterns" rejected={rejected} />
        <div class="actions">
          <button type="submit">Save patterns</button>
        </div>
      </form>
    </Card>
  );
}

function TopicForm({ user, path, rejected }: FormProps): Child {
  return (
    <Card id="topics" title="Block topics">
      <form method="post" action={path}>
        <HiddenFields user={user} fields={{ do: "topics" }} />
        <NameField id="topics-name" rejected={rejected} />
        <TextField
          id="topics-list"
          name="topics"
          label="Topics"
          value={rejected?.["topics"] ?? ""}
          hint="One per line, such as legal advice. Each request is checked by a decisions call, which its key pays."
        />
        <SelectField
          id="topics-failure"
          name="on_failure"
          label="If the check fails"
          options={[
            ["deny", "Deny the call"],
            ["allow", "Let the call pass"],
          ]}
          value={rejected?.["on_failure"]}
        />
        <div class="actions">
          <button type="submit">Save topics</button>
        </div>
      </form>
    </Card>
  );
}

function HookForm({ user, path, rejected }: FormProps): Child {
  return (
    <Card id="hook" title="Send the texts to your server">
      <form method="post" action={path}>
        <HiddenFields user={user} fields={{ do: "hook" }} />
        <NameField id="hook-name" rejected={rejected} />
        <Field
          id="hook-url"
          name="url"
          type="url"
          label="URL"
          value={rejected?.["url"] ?? ""}
          hint="Gets the texts as a signed POST request, and allows, denies or rewrites them."
          placeholder="https://example.com/guardrail"
          maxLength={2_048}
          isRequired
        />
        <Field
          id="hook-timeout"
          name="timeout_ms"
          label="Time limit (ms)"
          value={rejected?.["timeout_ms"] ?? "2000"}
          inputMode="numeric"
          maxLength={5}
          isRequired
        />
        <SelectField
          id="hook-failure"
          name="on_failure"
          label="If it fails or is late"
          options={[
            ["deny", "Deny the call"],
            ["allow", "Let the call pass"],
          ]}
          value={rejected?.["on_failure"]}
        />
        <PhaseFields id="hook" rejected={rejected} />
        <div class="actions">
          <button type="submit">Save hook</button>
        </div>
      </form>
    </Card>
  );
}

function NameField({
  id,
  rejected,
}: {
  readonly id: string;
  readonly rejected: RejectedForm["form"] | undefined;
}): Child {
  return (
    <Field
      id={id}
      name="name"
      label="Name"
      value={rejected?.["name"] ?? ""}
      hint="Lowercase letters, digits, - and _. An existing name is replaced."
      maxLength={64}
      isRequired
    />
  );
}

function PhaseFields({
  id,
  rejected,
}: {
  readonly id: string;
  readonly rejected: RejectedForm["form"] | undefined;
}): Child {
  return (
    <fieldset>
      <legend>Applies to</legend>
      {(["input", "output"] as const).map((phase) => (
        <Option
          id={`${id}-${phase}`}
          input={{ type: "checkbox", name: phase, value: "on" }}
          label={PHASE_NAMES[phase]}
          isChecked={rejected === undefined || rejected[phase] === "on"}
        />
      ))}
    </fieldset>
  );
}
