// The routes of the page of guardrails.

import { z } from "zod";
import { invalid } from "../../base/fault.ts";
import type { GuardPhase } from "../../base/guard.ts";
import { GUARDRAIL_NAME, GuardrailSettings } from "../../guardrails/guardrail-record.ts";
import {
  deleteGuardrail,
  type GuardrailSettings as Settings,
  listGuardrails,
  saveGuardrail,
} from "../../guardrails/guardrails.ts";
import { ENTITIES } from "../../guardrails/patterns.ts";
import type { FormError } from "../../http/pages/page-response.ts";
import type { Route } from "../../http/route.ts";
import { checkedForm } from "../checked-form.ts";
import { workspacePath } from "../console-layout.tsx";
import { donePath, DoneQuery } from "../done-notice.tsx";
import type { ConsoleReadDeps } from "../require-access.ts";
import { AccountPath, workspaceForm, workspacePage } from "../workspace-routes.ts";
import { guardrailsPage } from "./guardrails-page.tsx";

const PATH = "/console/{account}/guardrails";
const NAME_MAX = 100;

export interface GuardrailPageDeps extends ConsoleReadDeps {
  readonly isDevelopment: boolean;
  readonly decisionModels: () => readonly string[];
  readonly onGuardrailsChanged: () => void;
}

export function guardrailPageRoutes(deps: GuardrailPageDeps): readonly Route[] {
  return [listRoute(deps), changeRoute(deps)];
}

function listRoute(deps: GuardrailPageDeps): Route {
  return workspacePage(deps, {
    path: PATH,
    id: "showGuardrails",
    summary: "List the guardrails of a workspace",
    params: AccountPath,
    query: z.object({ ...DoneQuery, delete: z.string().max(NAME_MAX).optional() }),
    permission: "guardrails.read",
    run: async ({ view, account, query: { delete: asked, done } }) => {
      const guardrails = await listGuardrails(deps.db, account);
      return guardrailsPage({ ...view, guardrails, asked, done });
    },
  });
}

const Checkbox = z.literal("on").optional();
const Common = {
  name: z.string().max(NAME_MAX),
  input: Checkbox,
  output: Checkbox,
};

const ChangeForm = z.discriminatedUnion("do", [
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
    name: z.string().max(NAME_MAX),
    topics: z.string().max(3_000),
    on_failure: z.enum(["deny", "allow"]),
  }),
  z.object({ do: z.literal("delete"), name: z.string().max(NAME_MAX) }),
]);
export type ChangedGuardrail = z.infer<typeof ChangeForm>;

function changeRoute(deps: GuardrailPageDeps): Route {
  return workspaceForm(deps, {
    path: PATH,
    id: "changeGuardrails",
    summary: "Save or delete a guardrail",
    params: AccountPath,
    body: ChangeForm,
    requestExample: {
      do: "patterns",
      name: "no-secrets",
      action: "mask",
      input: "on",
      api_key: "on",
    },
    permission: "guardrails.change",
    write: async (tx, { act, body }) => {
      if (body.do === "delete") return deleteGuardrail(tx, act, body.name);
      const { name } = checkedForm(z.object({ name: GUARDRAIL_NAME }), { name: body.name });
      const settings = checkedForm(GuardrailSettings, settingsOf(body));
      const allowLoopback = deps.isDevelopment;
      const decisionModels = deps.decisionModels();
      await saveGuardrail(tx, act, { name, settings, allowLoopback, decisionModels });
    },
    done: ({ account, body }) => {
      deps.onGuardrailsChanged();
      return donePath(
        workspacePath(account, "/guardrails"),
        body.do === "delete" ? "delete" : "save",
      );
    },
    rejected: async ({ view, account, body }, error: FormError) => {
      const guardrails = await listGuardrails(deps.db, account);
      return guardrailsPage({ ...view, guardrails, rejected: { form: body, error } });
    },
  });
}

function settingsOf(form: Exclude<ChangedGuardrail, { do: "delete" }>): Partial<Settings> {
  if (form.do === "topics") {
    const topics = form.topics.split("\n").map((topic) => topic.trim());
    const { on_failure } = form;
    return { type: "topics", topics: topics.filter((topic) => topic !== ""), on_failure };
  }
  const phases: readonly GuardPhase[] = (["input", "output"] as const).filter(
    (phase) => form[phase] === "on",
  );
  if (phases.length === 0) throw invalid("phases", "Choose requests, replies or both.");
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
