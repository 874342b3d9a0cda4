// The list of tools, in the order in which an agent needs them. Each names the route of the HTTP API that it calls.

import { z } from "zod";
import { type JsonObject, parseObject } from "../base/json.ts";
import { LIMIT_WINDOWS } from "../base/money/spend-window.ts";
import { parseWithSchema } from "../http/request/validate.ts";
import {
  chatFields,
  MessageArguments,
  messageResult,
  MessageResult,
  ResponseArguments,
  responseResult,
  ResponseResult,
  streamedFields,
  withCeiling,
} from "./message-tools.ts";
import { errorResult, successResult } from "./tool-result.ts";
import { API_KEY_ARGUMENT } from "./tool.ts";
import type { ToolAnnotations, ToolCall, ToolContext, ToolResult } from "./tool.ts";

export interface ToolSpec {
  readonly name: string;
  readonly title: string;
  /** The id of the route. A tool without its route is left out. */
  readonly routeId: string;
  /** The route that returns one record of a list: called if there is the argument `id`. */
  readonly oneRouteId?: string;
  /** What the argument `id` of that route is. */
  readonly idDescription?: string;
  /** Other requests whose response is in the result, with the arguments for them; `{name}` is a parameter of their path. */
  readonly also?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** Replaces the description of the route. */
  readonly description?: string;
  readonly annotations: ToolAnnotations;
  /** Fields that the tool sets itself, from the route's example. */
  readonly fixed?: readonly string[];
  readonly input?: z.ZodType;
  readonly output?: z.ZodType;
  readonly fieldsOf?: (call: ToolCall) => JsonObject;
  /** Fields whose arguments have other names. */
  readonly renamed?: Readonly<Record<string, string>>;
  readonly resultOf?: (
    response: Response,
    call: ToolCall,
    context: ToolContext,
  ) => Promise<ToolResult>;
}

const READS: ToolAnnotations = {
  readOnlyHint: true,
  destructiveHint: false,
  idempotentHint: true,
  openWorldHint: false,
};
const CREATES: ToolAnnotations = { ...READS, readOnlyHint: false, idempotentHint: false };
const CHANGES: ToolAnnotations = { ...CREATES, destructiveHint: true, idempotentHint: true };

const MODELS_PAGE_DEFAULT = 20;
const MODELS_PAGE_MAX = 100;

const ModelListArguments = z.strictObject({
  provider: z.string().optional().meta({ description: "Only models of this provider." }),
  available: z
    .union([z.boolean(), z.enum(["true", "false"])])
    .optional()
    .meta({ description: "`true`: only models that this gateway can call now." }),
  q: z.string().optional().meta({ description: "Only models whose id or name contains this." }),
  limit: z
    .int()
    .min(1)
    .max(MODELS_PAGE_MAX)
    .optional()
    .meta({ description: `Models per page. Default: ${MODELS_PAGE_DEFAULT}.` }),
  cursor: z.string().optional().meta({ description: "`next_cursor` of the previous page." }),
});

const ModelPage = z.object({
  object: z.literal("list"),
  data: z.array(
    z.looseObject({
      id: z.string(),
      name: z.string(),
      context_length: z.int().nullable().optional(),
      available: z.boolean().meta({ description: "Whether this gateway can call it now." }),
      pricing: z
        .looseObject({})
        .nullable()
        .optional()
        .meta({ description: "US dollars per token." }),
    }),
  ),
  has_more: z.boolean(),
  next_cursor: z.string().nullable(),
});

const ClaimStatus = z.looseObject({
  status: z.enum(["pending", "claimed"]),
  account: z.looseObject({}).optional(),
  error: z.string().optional(),
  error_description: z.string().optional(),
  interval: z.number().optional().meta({ description: "Seconds to wait between two polls." }),
});

const NewAccount = z.strictObject({
  email: z
    .string()
    .optional()
    .meta({ description: "Set it only if the user gave an email address for the account." }),
});
const NewKeyArguments = z.looseObject({
  name: z.string().optional(),
  limit_usd: z.union([z.number(), z.string()]).optional(),
  limit_window: z.enum(LIMIT_WINDOWS).optional(),
  expires_at: z.string().optional().meta({ description: "RFC 3339." }),
  scopes: z.array(z.string()).optional().meta({ description: "Such as `models:write`." }),
  allowed_models: z.array(z.string()).optional().meta({ description: "Globs: `openai/*`." }),
});
const Session = z.looseObject({ id: z.string() });
const NewKey = z.looseObject({ id: z.string(), api_key: z.string().nullable() });
const RevokedKey = z.looseObject({ id: z.string(), warning: z.string().optional() });
const Invoice = z.looseObject({
  id: z.string(),
  status: z.string(),
  pay_url: z.string().nullable().optional(),
});
const Quote = z.looseObject({
  cost_usd_max: z.string(),
  hold_credits: z.int(),
  available_credits: z.int(),
  affordable_output_tokens: z.int(),
});
/** A page of a list, or one record. */
const ListOrRecord = z.looseObject({
  id: z.string().optional(),
  data: z.array(z.looseObject({})).optional(),
  next_cursor: z.string().nullable().optional(),
});

const ResponseId = z.strictObject({ id: z.string() });
const NewProviderKey = z.strictObject({
  provider: z.string().meta({ description: "Such as `openai`." }),
  provider_api_key: z.string(),
  name: z.string().optional(),
});
const ProviderKeyResult = z.looseObject({ id: z.string(), status: z.string() });

export const TOOLS: readonly ToolSpec[] = [
  {
    name: "create_account",
    title: "Create an account",
    routeId: "createAccount",
    description:
      "Creates a funded account and returns its first API key, without a human. The key is shown once: store it in a file with mode 0600. The other tools of this session use the account; without a session, pass the key as `api_key`.",
    annotations: CREATES,
    input: NewAccount,
  },
  {
    name: "list_models",
    title: "List models and prices",
    routeId: "listModels",
    description: "Returns the models that can be called now, with prices. Search with `q`.",
    annotations: READS,
    also: { getModel: { q: "{id}" } },
    input: ModelListArguments,
    output: ModelPage,
    // The HTTP API lists all models at once; a tool result has to fit a model's context.
    fieldsOf: ({ args: { [API_KEY_ARGUMENT]: _key, ...args } }) => ({
      limit: MODELS_PAGE_DEFAULT,
      ...parseWithSchema(ModelListArguments, args, "body"),
    }),
  },
  {
    name: "quote",
    title: "Quote a message",
    routeId: "createQuote",
    description:
      "Returns what `send_message` with the same arguments would hold and can cost at most, without sending anything.",
    annotations: READS,
    input: MessageArguments,
    output: Quote,
    fieldsOf: ({ args }) => chatFields(args),
  },
  {
    name: "send_message",
    title: "Send a message to a model",
    routeId: "createChatCompletion",
    description:
      "Sends a message to any model and returns its reply and cost. Costs credits. Further arguments are fields of OpenAI's Chat Completions, such as `temperature`.",
    annotations: { ...CREATES, openWorldHint: true },
    input: MessageArguments,
    output: MessageResult,
    fieldsOf: streamedFields,
    resultOf: messageResult,
  },
  {
    name: "create_response",
    title: "Create a response",
    routeId: "createResponse",
    description:
      "Calls a model with OpenAI's Responses API, to continue a stored response or to run in the background. Costs credits. Further arguments are fields of that API.",
    annotations: { ...CREATES, openWorldHint: true },
    input: ResponseArguments,
    fieldsOf: ({ args }) => withCeiling(args),
    output: ResponseResult,
    resultOf: responseResult,
  },
  {
    name: "get_response",
    title: "Get a response",
    routeId: "getResponse",
    description: "Returns a stored response. Poll a background one until its `status` is final.",
    annotations: READS,
    input: ResponseId,
    output: ResponseResult,
    resultOf: responseResult,
  },
  {
    name: "get_balance",
    title: "Get the balance",
    routeId: "getAccount",
    description: "Returns the account with its balance, budgets, members and the key.",
    annotations: READS,
    also: { getBudgets: {} },
  },
  {
    name: "get_ledger_proof",
    title: "Prove the balance",
    routeId: "getLedgerProof",
    description: "Returns the proof that a day's balance and entries are in the published roots.",
    annotations: READS,
    output: z.looseObject({ day: z.string(), balance_nano: z.string() }),
  },
  {
    name: "list_service_credits",
    title: "List service credits",
    routeId: "listServiceCredits",
    description: "Returns the credits for breached service levels, newest first.",
    annotations: READS,
    output: ListOrRecord,
  },
  {
    name: "reopen_account",
    title: "Reopen the account",
    routeId: "reopenAccount",
    description: "Reopens an account that is closing.",
    annotations: { ...CHANGES, destructiveHint: false },
    output: z.looseObject({}),
  },
  {
    name: "get_usage",
    title: "List usage",
    routeId: "listUsage",
    description: "Returns calls, newest first, with tokens, prices and cost.",
    annotations: READS,
    also: { getUsage: { request_id: "{id}" } },
  },
  {
    name: "list_sessions",
    title: "List sessions",
    routeId: "listAgentSessions",
    description: "Returns the sessions of agents with their spend, or one with that of each agent.",
    annotations: READS,
    output: ListOrRecord,
    oneRouteId: "getAgentSession",
    idDescription: "Only this session.",
  },
  {
    name: "stop_session",
    title: "Stop a session",
    routeId: "stopAgentSession",
    description: "Ends the open streams of a session and refuses its later calls.",
    annotations: CHANGES,
    output: Session,
  },
  {
    name: "list_keys",
    title: "List keys",
    routeId: "listKeys",
    description: "Returns the keys of the account, or one, with their limits and spend.",
    annotations: READS,
    output: ListOrRecord,
    oneRouteId: "getKey",
    idDescription: "Only this key; `self` is the calling one.",
    also: { getOwnKey: { id: "self" } },
  },
  {
    name: "create_key",
    title: "Create a key",
    routeId: "createKey",
    description:
      "Creates a key for another program, and returns its raw value once. A limited key can only create keys within its own limit, scopes and policy. Further arguments are restrictions of `/docs/keys`.",
    annotations: CREATES,
    input: NewKeyArguments,
    output: NewKey,
  },
  {
    name: "revoke_key",
    title: "Revoke a key",
    routeId: "revokeKey",
    description:
      "Revokes a key for good. With the last key, the balance of an unclaimed account is out of reach.",
    annotations: CHANGES,
    output: RevokedKey,
  },
  {
    name: "add_provider_key",
    title: "Add a provider key",
    routeId: "addProviderKey",
    description:
      "Adds your human's own key of a provider, to which its calls are then billed. Ask them first; on the console page Provider keys they can add it without showing it to you.",
    annotations: CREATES,
    input: NewProviderKey,
    output: ProviderKeyResult,
    renamed: { provider_api_key: "api_key" },
  },
  {
    name: "set_budget",
    title: "Set the budgets",
    routeId: "changeBudgets",
    description: "Sets what the workspace may spend a day and a month; null removes a budget.",
    annotations: CHANGES,
  },
  {
    name: "create_invoice",
    title: "Create an invoice",
    routeId: "createInvoice",
    description:
      "Creates an invoice for credits. Ask your human first, and give them its `pay_url`; `payment_methods` lists what you can pay yourself.",
    annotations: CREATES,
    output: Invoice,
  },
  {
    name: "get_invoice",
    title: "Get an invoice",
    routeId: "listInvoices",
    description: "Returns an invoice, or all: `status` says whether it is paid.",
    annotations: READS,
    output: ListOrRecord,
    oneRouteId: "getInvoice",
    idDescription: "Only this invoice.",
  },
  {
    name: "start_claim",
    title: "Start a claim",
    routeId: "startClaim",
    description:
      "Lets a human take the account over; the key keeps working. Ask them for their email address first, give them `verification_uri_complete` and `user_code`, and never open the link yourself.",
    annotations: CREATES,
  },
  {
    name: "poll_claim",
    title: "Poll a claim",
    routeId: "pollClaim",
    description:
      "Returns whether the human has claimed the account. Call it every `interval` seconds until `status` is `claimed`.",
    annotations: READS,
    fixed: ["grant_type"],
    output: ClaimStatus,
    resultOf: claimStatus,
  },
];

/** While the human has not decided, OAuth's error is a state and not a failure. */
const PENDING_ERRORS: ReadonlySet<unknown> = new Set(["authorization_pending", "slow_down"]);

async function claimStatus(
  response: Response,
  _call: ToolCall,
  context: ToolContext,
): Promise<ToolResult> {
  const text = await response.text();
  const body = parseObject(text);
  if (body === undefined) return errorResult(response.headers, body, text, context);
  if (PENDING_ERRORS.has(body["error"])) return successResult({ status: "pending", ...body });
  if (!response.ok) return errorResult(response.headers, body, text, context);
  return successResult(body);
}
