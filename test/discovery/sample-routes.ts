// Sample routes that cover every feature of the documents, modeled on the real ones.

import { z } from "zod";
import type { DiscoverySettings } from "../../src/discovery/discovery-settings.ts";
import {
  keyRoute,
  keyWriteRoute,
  modelRoute,
  publicRoute,
  publicWriteRoute,
  type Route,
} from "../../src/http/route.ts";

export const settings: DiscoverySettings = {
  baseUrl: "https://gateway.test",
  docsUrl: "https://gateway.test/docs",
  vendor: "acme",
  keyPrefix: "pst",
  startedAt: Date.UTC(2026, 10, 28),
  version: "1.2.3",
  startingCredits: 50_000,
  claimBonusCredits: 1_000_000,
  feePercent: 5,
  exampleModel: "sim/small",
  exampleEmbeddingModel: "sim/embed",
  isSimulated: true,
  requestsPerMinute: 600,
  concurrentCalls: 32,
  accountsPerHour: 5,
};

const Account = z
  .object({
    id: z.string().meta({ examples: ["acct_01jd8v6k3m0000000000000000"] }),
    email: z.string().nullable().describe("`null` when none was given."),
    created_at: z.iso.datetime(),
  })
  .meta({ id: "Account", description: "An account." });

const Balance = z.object({ credits: z.int(), usd: z.number() }).meta({ id: "Balance" });
const KeyRecord = z
  .object({
    id: z.string(),
    object: z.literal("api_key"),
    name: z.string().nullable(),
    limit_window: z.enum(["day", "week", "month"]).nullable(),
  })
  .meta({ id: "ApiKey" });

const Window = z
  .strictObject({ unit: z.enum(["day", "week"]).default("day"), count: z.int().min(1).default(1) })
  .meta({ id: "Window" });

const account = {
  id: "acct_01jd8v6k3m0000000000000000",
  email: null,
  created_at: "2026-11-21T10:00:00Z",
};
const balance = { credits: 50_000, usd: 0.05 };
const key = { id: "key_1", object: "api_key", name: "ci", limit_window: null };

const Page = z.object({
  object: z.literal("list"),
  data: z.array(KeyRecord),
  has_more: z.boolean(),
  next_cursor: z.string().nullable(),
});

const done = (): Promise<{ status: number; body: unknown }> =>
  Promise.resolve({ status: 200, body: {} });

const createAccount = publicWriteRoute({
  method: "POST",
  path: "/v1/accounts",
  id: "createAccount",
  summary: "Create a funded account",
  description: "Returns the account, its first key and a starting balance. The key is shown once.",
  tag: "Accounts",
  dialect: "openai",
  body: z.strictObject({ email: z.email().optional().describe("Only if your user gave it.") }),
  requestExample: {},
  responses: {
    201: {
      description: "The account, its first key and its balance.",
      schema: z.object({ account: Account, api_key: z.string(), balance: Balance }),
      example: { account, api_key: "pst-rt-example", balance },
    },
  },
  faults: ["rate_limited"],
  run: done,
});

const getAccount = keyRoute({
  method: "GET",
  path: "/v1/account",
  id: "getAccount",
  scope: "usage:read",
  summary: "Get the account and its balance",
  tag: "Accounts",
  dialect: "openai",
  responses: {
    200: {
      description: "The account and its balance.",
      schema: z.object({ account: Account, balance: Balance }),
      example: { account, balance },
    },
  },
  faults: [],
  run: done,
});

const STREAMED = {
  headers: { "x-postern-cost-usd": "The cost of the call in US dollars." },
  alternatives: [{ contentType: "text/event-stream" }],
};
const ALSO_CSV = { alternatives: [{ contentType: "text/csv", example: "id\n" }] };

const Chat = z.looseObject({
  model: z.string().describe("An id from `GET /v1/models`."),
  messages: z.array(z.looseObject({ role: z.string(), content: z.unknown() })).min(1),
  max_tokens: z.int().min(1).optional(),
});

function modelCall(path: string, id: string, dialect: "openai" | "messages"): Route {
  return modelRoute({
    method: "POST",
    path,
    id,
    scope: "models:write",
    summary: `Call a model at ${path}`,
    tag: "Inference",
    dialect,
    body: Chat,
    bodyLimitBytes: 32 * 1_048_576,
    requestExample: {
      model: "openai/gpt-5-mini",
      messages: [{ role: "user", content: "It's a test. Say hello." }],
      max_tokens: 50,
    },
    responses: {
      200: {
        description: "The completion.",
        schema: z.looseObject({ id: z.string() }),
        example: { id: "req_1", model: "openai/gpt-5-mini" },
        ...STREAMED,
      },
    },
    faults: [
      "insufficient_credits",
      "key_limit_reached",
      "model_not_found",
      "upstream_error",
      "provider_not_configured",
      "upstream_timeout",
    ],
    run: done,
  });
}

const mintKey = keyWriteRoute({
  method: "POST",
  path: "/v1/keys",
  id: "createKey",
  scope: "usage:read",
  summary: "Create a key",
  tag: "Keys",
  dialect: "openai",
  body: z.strictObject({ name: z.string().optional(), window: Window.optional() }),
  requestExample: { name: "ci", window: {} },
  responses: {
    201: {
      description: "The key. Its secret is shown once.",
      schema: z.object({ ...KeyRecord.shape, api_key: z.string(), window: Window.optional() }),
      example: { ...key, api_key: "pst-rt-example", window: { unit: "day", count: 1 } },
    },
  },
  faults: ["forbidden"],
  run: done,
});

const listKeys = keyRoute({
  method: "GET",
  path: "/v1/keys",
  id: "listKeys",
  scope: "usage:read",
  summary: "List keys",
  tag: "Keys",
  dialect: "openai",
  query: z.strictObject({
    limit: z.coerce.number().int().min(1).max(100).default(20).describe("How many at most."),
    cursor: z.string().optional().describe("`next_cursor` of the page before."),
  }),
  responses: {
    200: {
      description: "Keys, newest first.",
      schema: Page,
      example: { object: "list", data: [key], has_more: false, next_cursor: null },
    },
  },
  faults: [],
  run: done,
});

const KeyPath = z.strictObject({
  id: z.string().meta({ description: "The key's id.", examples: ["key_1"] }),
});

const revokeKey = keyWriteRoute({
  method: "DELETE",
  path: "/v1/keys/{id}",
  id: "revokeKey",
  scope: "usage:read",
  summary: "Revoke a key",
  tag: "Keys",
  dialect: "openai",
  params: KeyPath,
  responses: { 200: { description: "The revoked key.", schema: KeyRecord, example: key } },
  faults: ["not_found"],
  run: done,
});

const renameKey = keyWriteRoute({
  method: "PATCH",
  path: "/v1/keys/{id}",
  id: "renameKey",
  scope: "usage:read",
  summary: "Rename a key",
  tag: "Keys",
  dialect: "openai",
  params: KeyPath,
  body: z.strictObject({ name: z.string() }),
  requestExample: { name: "nightly" },
  responses: { 200: { description: "The key.", schema: KeyRecord, example: key } },
  faults: ["not_found"],
  run: done,
});

const listModels = publicRoute({
  method: "GET",
  path: "/v1/models",
  id: "listModels",
  summary: "List models with their prices",
  tag: "Models",
  dialect: "openai",
  responses: {
    200: {
      description: "The models.",
      schema: z.object({ object: z.literal("list"), data: z.array(z.looseObject({})) }),
      example: { object: "list", data: [{ id: "sim/small" }] },
    },
  },
  faults: [],
  run: done,
});

const getModel = publicRoute({
  method: "GET",
  path: "/v1/models/{id+}",
  id: "getModel",
  summary: "Get a model",
  tag: "Models",
  dialect: "openai",
  params: z.object({
    id: z.string().meta({ description: "The model's id.", examples: ["sim/small"] }),
  }),
  responses: { 200: { description: "The model.", schema: z.looseObject({ id: z.string() }) } },
  faults: ["model_not_found"],
  run: done,
});

const listUsage = keyRoute({
  method: "GET",
  path: "/v1/usage",
  id: "listUsage",
  scope: "usage:read",
  summary: "List usage records",
  tag: "Usage",
  dialect: "openai",
  responses: {
    200: {
      description: "Usage records.",
      schema: Page,
      ...ALSO_CSV,
    },
  },
  faults: [],
  run: done,
});

const createInvoice = keyWriteRoute({
  method: "POST",
  path: "/v1/billing/invoice",
  id: "createInvoice",
  scope: "usage:read",
  summary: "Buy prepaid credits",
  tag: "Billing",
  dialect: "openai",
  body: z.strictObject({ amount_usd: z.number().min(1) }),
  requestExample: { amount_usd: 10 },
  responses: {
    201: {
      description: "The invoice.",
      schema: z.looseObject({ pay_url: z.string() }),
      example: { pay_url: "https://pay.test/1" },
    },
  },
  faults: [],
  run: done,
});

export const claimRoutes: readonly Route[] = [
  keyRoute({
    method: "POST",
    path: "/agent/identity/claim",
    id: "startClaim",
    scope: "usage:read",
    summary: "Start a claim",
    tag: "Claims",
    dialect: "oauth",
    body: z.strictObject({ email: z.email() }),
    requestExample: { email: "human@example.com" },
    responses: {
      200: {
        description: "The claim attempt.",
        schema: z.looseObject({ claim_attempt_id: z.string() }),
        example: {
          claim_attempt_id: "claim_1",
          status: "initiated",
          claim_attempt: { user_code: "402817", expires_in: 900, interval: 5 },
        },
      },
    },
    faults: ["forbidden"],
    run: done,
  }),
  keyRoute({
    method: "POST",
    path: "/oauth2/token",
    id: "pollClaim",
    scope: "usage:read",
    summary: "Poll a claim",
    tag: "Claims",
    dialect: "oauth",
    bodyType: "form",
    body: z.looseObject({ grant_type: z.literal("urn:acme:agent-auth:grant-type:claim") }),
    requestExample: { grant_type: "urn:acme:agent-auth:grant-type:claim" },
    responses: {
      200: {
        description: "The account is claimed.",
        schema: z.object({ status: z.literal("claimed"), account: Account }),
        example: { status: "claimed", account },
      },
      400: {
        description: "The claim is pending or has failed.",
        schema: z.object({ error: z.string() }),
        example: { error: "authorization_pending" },
      },
    },
    faults: [],
    run: done,
  }),
];

const health = publicRoute({
  method: "GET",
  path: "/healthz",
  id: "getHealth",
  summary: "Check liveness",
  tag: "Operations",
  dialect: "page",
  responses: {
    200: { description: "The process is alive.", contentType: "text/plain", example: "ok\n" },
  },
  faults: [],
  run: done,
});

export const coreRoutes: readonly Route[] = [
  createAccount,
  getAccount,
  modelCall("/v1/chat/completions", "createChatCompletion", "openai"),
  modelCall("/v1/responses", "createResponse", "openai"),
  modelCall("/v1/messages", "createMessage", "messages"),
  listModels,
  getModel,
  mintKey,
  listKeys,
  renameKey,
  revokeKey,
  listUsage,
  createInvoice,
  health,
];

export const sampleRoutes: readonly Route[] = [...coreRoutes, ...claimRoutes];
