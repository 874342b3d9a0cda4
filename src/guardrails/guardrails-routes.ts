// Routes of /v1/guardrails.

import { namedResourceRoutes } from "../activity/named-resource-routes.ts";
import type { Route } from "../http/route.ts";
import type { Db } from "../store/db.ts";
import {
  GUARDRAIL_EXAMPLE,
  GuardrailRecord,
  GuardrailSettings,
  SETTINGS_EXAMPLE,
  toGuardrailRecord,
} from "./guardrail-record.ts";
import { deleteGuardrail, getGuardrail, listGuardrails, saveGuardrail } from "./guardrails.ts";

export interface GuardrailRouteDeps {
  readonly db: Db;
  /** In development, a hook may be on the gateway's own machine. */
  readonly allowLoopback: boolean;
  readonly decisionModels: () => readonly string[];
  readonly onChanged: () => void;
}

export function guardrailRoutes(deps: GuardrailRouteDeps): readonly Route[] {
  const { db, allowLoopback, decisionModels, onChanged } = deps;
  return namedResourceRoutes({
    db,
    path: "/v1/guardrails",
    object: "guardrail",
    id: "Guardrail",
    noun: "guardrail",
    tag: "Guardrails",
    record: GuardrailRecord,
    example: GUARDRAIL_EXAMPLE,
    settings: GuardrailSettings.meta({ id: "GuardrailSettings" }),
    settingsExample: SETTINGS_EXAMPLE,
    notes: {
      list: "In the order in which calls are checked; at most 10.",
      save: "Creates it, or replaces its settings. Calls of all keys of the workspace are checked from then on, at the latest after five seconds. See `/docs/guardrails`.",
      delete: "Calls are not checked by it any more.",
    },
    list: async (reader, accountId) =>
      (await listGuardrails(reader, accountId)).map(toGuardrailRecord),
    get: async (reader, accountId, name) =>
      toGuardrailRecord(await getGuardrail(reader, accountId, name)),
    save: async (tx, act, name, settings) => {
      const saved = { name, settings, allowLoopback, decisionModels: decisionModels() };
      return toGuardrailRecord(await saveGuardrail(tx, act, saved));
    },
    remove: deleteGuardrail,
    onChanged,
  });
}
