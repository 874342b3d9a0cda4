// Routes of /v1/guardrails.

import { z } from "zod";
import { keyAct } from "../activity/audit.ts";
import { keyRoute, keyWriteRoute, type Route } from "../http/route.ts";
import type { Db } from "../store/db.ts";
import {
  GUARDRAIL_EXAMPLE,
  GUARDRAIL_NAME,
  GuardrailRecord,
  GuardrailSettings,
  SETTINGS_EXAMPLE,
  toGuardrailRecord,
} from "./guardrail-record.ts";
import { deleteGuardrail, getGuardrail, listGuardrails, saveGuardrail } from "./guardrails.ts";

const DOC = { tag: "Guardrails", dialect: "openai" } as const;
const ONE = {
  200: { description: "The guardrail.", schema: GuardrailRecord, example: GUARDRAIL_EXAMPLE },
};

const GuardrailPath = z.object({ name: GUARDRAIL_NAME });

export interface GuardrailRouteDeps {
  readonly db: Db;
  /** In development, a hook may be on the gateway's own machine. */
  readonly allowLoopback: boolean;
  readonly decisionModels: () => readonly string[];
  /** Other processes notice a change within seconds. */
  readonly onChanged: () => void;
}

export function guardrailRoutes(deps: GuardrailRouteDeps): readonly Route[] {
  return [listRoute(deps), getRoute(deps), saveRoute(deps), deleteRoute(deps)];
}

function listRoute({ db }: GuardrailRouteDeps): Route {
  return keyRoute({
    ...DOC,
    method: "GET",
    path: "/v1/guardrails",
    id: "listGuardrails",
    scope: "usage:read",
    summary: "List guardrails",
    description: "In the order in which calls are checked; at most 10.",
    query: z.strictObject({}),
    responses: {
      200: {
        description: "All guardrails.",
        schema: z
          .object({ object: z.literal("list"), data: z.array(GuardrailRecord) })
          .meta({ id: "GuardrailList" }),
        example: { object: "list", data: [GUARDRAIL_EXAMPLE] },
      },
    },
    faults: [],
    run: async ({ caller }) => {
      const guardrails = await listGuardrails(db, caller.accountId);
      return { status: 200, body: { object: "list", data: guardrails.map(toGuardrailRecord) } };
    },
  });
}

function getRoute({ db }: GuardrailRouteDeps): Route {
  return keyRoute({
    ...DOC,
    method: "GET",
    path: "/v1/guardrails/{name}",
    id: "getGuardrail",
    scope: "usage:read",
    summary: "Get a guardrail",
    params: GuardrailPath,
    query: z.strictObject({}),
    responses: ONE,
    faults: ["not_found"],
    run: async ({ caller, params: { name } }) => ({
      status: 200,
      body: toGuardrailRecord(await getGuardrail(db, caller.accountId, name)),
    }),
  });
}

function saveRoute(deps: GuardrailRouteDeps): Route {
  const { allowLoopback, onChanged } = deps;
  return keyWriteRoute({
    ...DOC,
    method: "POST",
    path: "/v1/guardrails/{name}",
    id: "saveGuardrail",
    scope: "account:write",
    summary: "Save a guardrail",
    description:
      "Creates it, or replaces its settings. Calls of all keys of the workspace are checked from then on, at the latest after five seconds. See `/docs/guardrails`.",
    params: GuardrailPath,
    body: GuardrailSettings.meta({ id: "GuardrailSettings" }),
    requestExample: SETTINGS_EXAMPLE,
    responses: ONE,
    faults: ["conflict"],
    run: async (tx, { caller, params: { name }, body: settings, clientIp, now }) => {
      const act = keyAct(caller, { clientIp, now });
      const decisionModels = deps.decisionModels();
      const saved = { name, settings, allowLoopback, decisionModels };
      const guardrail = await saveGuardrail(tx, act, saved);
      return { status: 200, body: toGuardrailRecord(guardrail), afterCommit: onChanged };
    },
  });
}

function deleteRoute({ onChanged }: GuardrailRouteDeps): Route {
  return keyWriteRoute({
    ...DOC,
    method: "DELETE",
    path: "/v1/guardrails/{name}",
    id: "deleteGuardrail",
    scope: "account:write",
    summary: "Delete a guardrail",
    description: "Calls are not checked by it any more.",
    params: GuardrailPath,
    responses: {
      200: {
        description: "The guardrail is deleted.",
        schema: z
          .object({ object: z.literal("guardrail"), name: z.string(), deleted: z.literal(true) })
          .meta({ id: "DeletedGuardrail" }),
        example: { object: "guardrail", name: GUARDRAIL_EXAMPLE.name, deleted: true },
      },
    },
    faults: ["not_found"],
    run: async (tx, { caller, params: { name }, clientIp, now }) => {
      await deleteGuardrail(tx, keyAct(caller, { clientIp, now }), name);
      const body = { object: "guardrail", name, deleted: true };
      return { status: 200, body, afterCommit: onChanged };
    },
  });
}
