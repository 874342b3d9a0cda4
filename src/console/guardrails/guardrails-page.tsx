/** @jsxImportSource hono/jsx */
// The page of guardrails, and the forms that save them.

import type { Child } from "hono/jsx";
import { z } from "zod";
import { invalid } from "../../base/fault.ts";
import type { GuardPhase } from "../../base/guard.ts";
import { capitalize } from "../../base/text/format.ts";
import { GuardrailSettings } from "../../guardrails/guardrail-record.ts";
import {
  deleteGuardrail,
  type Guardrail,
  type GuardrailSettings as Settings,
  listGuardrails,
  saveGuardrail,
} from "../../guardrails/guardrails.ts";
import { ENTITIES, type Entity } from "../../guardrails/patterns.ts";
import {
  Field,
  HiddenFields,
  Option,
  SelectField,
  TextField,
} from "../../http/pages/components/form.tsx";
import { RelativeTime } from "../../http/pages/components/local-time.tsx";
import type { Route } from "../../http/route.ts";
import { checkedForm } from "../checked-form.ts";
import {
  type FormValues,
  ItemForm,
  type ItemForms,
  NAME_FIELD,
  namedItemsRoutes,
} from "../named-items-page.tsx";
import type { ConsoleReadDeps } from "../require-access.ts";

export interface GuardrailPageDeps extends ConsoleReadDeps {
  readonly isDevelopment: boolean;
  readonly decisionModels: () => readonly string[];
  readonly forgetLookUps: () => void;
}

const ENTITY_NAMES: Readonly<Record<Entity, string>> = {
  api_key: "API keys",
  private_key: "private keys",
  jwt: "JSON Web Tokens",
  email: "email addresses",
  phone: "phone numbers",
  credit_card: "card numbers",
  iban: "IBANs",
  us_ssn: "US social security numbers",
  ip_address: "IPv4 addresses",
};
/** The patterns with hardly any false matches. */
const CHOSEN_AT_FIRST: ReadonlySet<Entity> = new Set(["api_key", "private_key", "jwt"]);
const PHASE_NAMES: Readonly<Record<GuardPhase, string>> = { input: "Requests", output: "Replies" };

const Checkbox = z.literal("on").optional();
const Common = {
  ...NAME_FIELD,
  input: Checkbox,
  output: Checkbox,
};

const GuardrailForm = z.discriminatedUnion("do", [
  z.object({
    do: z.literal("patterns"),
    ...Common,
    action: z.enum(["mask", "deny"]),
    ...Object.fromEntries(ENTITIES.map((entity) => [entity, Checkbox])),
  }),
  z.object({
    do: z.literal("hook"),
    ...Common,
    url: z.string().max(3_000),
    on_failure: z.enum(["deny", "allow"]),
    timeout_ms: z.string().max(10),
  }),
  z.object({
    do: z.literal("topics"),
    ...Common,
    topics: z.string().max(3_000),
    /** Set with the API, and kept by the form. */
    model: z.string().max(200).default(""),
    threshold: z.string().max(20).default(""),
    on_failure: z.enum(["deny", "allow"]),
  }),
]);
type GuardrailForm = z.infer<typeof GuardrailForm>;

export function guardrailPageRoutes(deps: GuardrailPageDeps): readonly Route[] {
  return namedItemsRoutes<Guardrail, GuardrailForm>(deps, {
    page: "/guardrails",
    title: "Guardrails",
    id: "Guardrail",
    noun: "guardrail",
    permissions: { read: "guardrails.read", change: "guardrails.change" },
    docs: { href: "/docs/guardrails", label: "How calls are checked" },
    notes: {
      save: "It checks all new calls within five seconds.",
      delete: "Calls are not checked by it any more.",
    },
    purpose:
      "A guardrail checks the requests and replies of all keys of this workspace: it masks secrets and personal data, or sends the texts to a server of yours that decides.",
    columns: [{ name: "Checks" }, { name: "Applies to" }, { name: "Saved" }],
    cells: ({ settings, updatedAt }) => [
      checksText(settings),
      settings.phases.map((phase) => PHASE_NAMES[phase]).join(", "),
      <RelativeTime at={updatedAt} />,
    ],
    forms: (props) => (
      <>
        <PatternForm {...props} />
        <TopicForm {...props} />
        <HookForm {...props} />
      </>
    ),
    body: GuardrailForm,
    requestExample: {
      do: "patterns",
      name: "no-secrets",
      action: "mask",
      input: "on",
      api_key: "on",
    },
    list: listGuardrails,
    edit: valuesOf,
    save: (tx, act, name, form) => {
      const settings = checkedForm(GuardrailSettings, settingsOf(form));
      const { isDevelopment: allowLoopback, decisionModels } = deps;
      const saved = { name, settings, allowLoopback, decisionModels: decisionModels() };
      return saveGuardrail(tx, act, saved);
    },
    remove: deleteGuardrail,
    onChanged: deps.forgetLookUps,
  });
}

function valuesOf({ name, settings }: Guardrail): FormValues {
  const common = {
    do: settings.type,
    name,
    ...Object.fromEntries(settings.phases.map((phase) => [phase, "on"])),
  };
  switch (settings.type) {
    case "patterns": {
      const entities = Object.fromEntries(settings.entities.map((entity) => [entity, "on"]));
      return { ...common, ...entities, action: settings.action };
    }
    case "hook": {
      const { url, on_failure, timeout_ms } = settings;
      return { ...common, url, on_failure, timeout_ms: String(timeout_ms) };
    }
    case "topics": {
      const { topics, model, threshold, on_failure } = settings;
      return {
        ...common,
        topics: topics.join("\n"),
        model,
        threshold: String(threshold),
        on_failure,
      };
    }
  }
}

function settingsOf(form: GuardrailForm): Partial<Settings> {
  const phases: readonly GuardPhase[] = (["input", "output"] as const).filter(
    (phase) => form[phase] === "on",
  );
  if (phases.length === 0) throw invalid("phases", "Choose requests, replies or both.");
  if (form.do === "topics") {
    const topics = form.topics.split("\n").map((topic) => topic.trim());
    const { on_failure, model, threshold } = form;
    return {
      type: "topics",
      phases,
      topics: topics.filter((topic) => topic !== ""),
      on_failure,
      ...(model !== "" && { model }),
      ...(threshold !== "" && { threshold: Number(threshold) }),
    };
  }
  if (form.do === "hook") {
    const { url, on_failure } = form;
    if (!/^\d+$/.test(form.timeout_ms.trim()))
      throw invalid("timeout_ms", "The time limit must be a number of milliseconds.");
    return { type: "hook", phases, url, on_failure, timeout_ms: Number(form.timeout_ms) };
  }
  const chosen: Readonly<Record<string, unknown>> = form;
  const entities = ENTITIES.filter((entity) => chosen[entity] === "on");
  if (entities.length === 0) throw invalid("entities", "Choose what is looked for.");
  return { type: "patterns", phases, entities, action: form.action };
}

function checksText(settings: Guardrail["settings"]): string {
  if (settings.type === "hook") return `Hook at ${new URL(settings.url).host}`;
  if (settings.type === "topics") return `Denies ${settings.topics.join(", ")}`;
  const verb = settings.action === "mask" ? "Masks" : "Denies";
  return `${verb} ${settings.entities.map((entity) => ENTITY_NAMES[entity]).join(", ")}`;
}

function PatternForm({ valuesOf: formOf, ...props }: ItemForms<Guardrail>): Child {
  const form = formOf("patterns");
  const isChosen = (entity: Entity): boolean =>
    form === undefined ? CHOSEN_AT_FIRST.has(entity) : form[entity] === "on";
  return (
    <ItemForm
      props={props}
      kind="patterns"
      isOpen={form !== undefined}
      title="Check for secrets and personal data"
      submit="Save patterns"
      name={form?.["name"]}
    >
      <fieldset>
        <legend>Look for</legend>
        <div class="event-options">
          {ENTITIES.map((entity) => (
            <Option
              id={`patterns-${entity}`}
              input={{ type: "checkbox", name: entity, value: "on" }}
              label={capitalize(ENTITY_NAMES[entity])}
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
        value={form?.["action"]}
      />
      <PhaseFields id="patterns" form={form} />
    </ItemForm>
  );
}

function TopicForm({ valuesOf: formOf, ...props }: ItemForms<Guardrail>): Child {
  const form = formOf("topics");
  return (
    <ItemForm
      props={props}
      kind="topics"
      isOpen={form !== undefined}
      title="Block topics"
      submit="Save topics"
      name={form?.["name"]}
    >
      <HiddenFields
        fields={{ model: form?.["model"] ?? "", threshold: form?.["threshold"] ?? "" }}
      />
      <TextField
        id="topics-list"
        name="topics"
        label="Topics"
        value={form?.["topics"] ?? ""}
        hint="One per line, such as legal advice. Each check is a decisions call, which the key of the request pays."
      />
      <SelectField
        id="topics-failure"
        name="on_failure"
        label="If the check fails"
        options={[
          ["deny", "Deny the call"],
          ["allow", "Let the call pass"],
        ]}
        value={form?.["on_failure"]}
      />
      <PhaseFields id="topics" form={form} chosen={["input"]} />
    </ItemForm>
  );
}

function HookForm({ valuesOf: formOf, ...props }: ItemForms<Guardrail>): Child {
  const form = formOf("hook");
  return (
    <ItemForm
      props={props}
      kind="hook"
      isOpen={form !== undefined}
      title="Send the texts to your server"
      submit="Save hook"
      name={form?.["name"]}
    >
      <Field
        id="hook-url"
        name="url"
        type="url"
        label="URL"
        value={form?.["url"] ?? ""}
        hint="Gets the texts as a signed POST request, and allows, denies or rewrites them."
        placeholder="https://example.com/guardrail"
        maxLength={2_048}
        isRequired
      />
      <Field
        id="hook-timeout"
        name="timeout_ms"
        label="Time limit (ms)"
        value={form?.["timeout_ms"] ?? "2000"}
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
        value={form?.["on_failure"]}
      />
      <PhaseFields id="hook" form={form} />
    </ItemForm>
  );
}

const PHASES: readonly GuardPhase[] = ["input", "output"];

function PhaseFields({
  id,
  form,
  chosen = PHASES,
}: {
  readonly id: string;
  readonly form: FormValues | undefined;
  readonly chosen?: readonly GuardPhase[];
}): Child {
  return (
    <fieldset>
      <legend>Applies to</legend>
      {PHASES.map((phase) => (
        <Option
          id={`${id}-${phase}`}
          input={{ type: "checkbox", name: phase, value: "on" }}
          label={PHASE_NAMES[phase]}
          isChecked={form === undefined ? chosen.includes(phase) : form[phase] === "on"}
        />
      ))}
    </fieldset>
  );
}
