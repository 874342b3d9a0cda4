// The tools, in the order in which an agent needs them. Each calls a route of the HTTP API, so scopes, limits, idempotency and
// the audit log are the same.

import { z } from "zod";
import { errorBody, publicError } from "../base/error-body.ts";
import { Fault } from "../base/fault.ts";
import { isObject, type JsonObject, parseObject } from "../base/json.ts";
import { capitalize } from "../base/text/format.ts";
import { parseWithSchema } from "../http/request/validate.ts";
import { toFault } from "../http/response.ts";
import { type Route, requiresKey } from "../http/route.ts";
import { createRouter } from "../http/router.ts";
import {
  chatFields,
  MessageArguments,
  messageResult,
  MessageResult,
  ResponseArguments,
  responseResult,
  ResponseResult,
  streamedFields,
} from "./message-tools.ts";
import { requestOf } from "./tool-request.ts";
import { errorResult, resultOf, successResult } from "./tool-result.ts";
import { inputSchema, outputSchema } from "./tool-schemas.ts";
import { API_KEY_ARGUMENT } from "./tool.ts";
import type {
  Tool,
  ToolAnnotations,
  ToolCall,
  ToolContext,
  ToolListing,
  ToolResult,
} from "./tool.ts";

interface ToolSpec {
  readonly name: string;
  readonly title: string;
  /** The id of the route. A tool without its route is left out. */
  readonly routeId: string;
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

const NewKey = z.looseObject({ id: z.string(), api_key: z.string() });
const RevokedKey = z.looseObject({ id: z.string(), warning: z.string().optional() });
const Invoice = z.looseObject({
  id: z.string(),
  status: z.string(),
  pay_url: z.string().nullable().optional(),
});

const ResponseId = z.strictObject({ id: z.string() });
const NewProviderKey = z.strictObject({
  provider: z.string().meta({ description: "Such as `openai`." }),
  provider_api_key: z.string(),
  name: z.string().optional(),
});
const ProviderKeyResult = z.looseObject({ id: z.string(), status: z.string() });

const TOOLS: readonly ToolSpec[] = [
  {
    name: "create_account",
    title: "Create an account",
    routeId: "createAccount",
    description:
      "Creates a funded account and returns its first API key, without a human. The key is shown once: store it in a file with mode 0600. The other tools of this session use the account; without a session, pass the key as `api_key`.",
    annotations: CREATES,
  },
  {
    name: "list_models",
    title: "List models and prices",
    routeId: "listModels",
    description: "Returns the models that can be called now, with prices. Search with `q`.",
    annotations: READS,
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
      "Returns what `send_message` with the same arguments would hold and can cost at most, without sending or charging anything.",
    annotations: READS,
    input: MessageArguments,
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
    routeId: "readAccount",
    description: "Returns the account with its balance, budgets, members and the key.",
    annotations: READS,
  },
  {
    name: "get_usage",
    title: "List usage",
    routeId: "listUsage",
    description: "Returns one record per call, newest first, with its tokens, prices and cost.",
    annotations: READS,
  },
  {
    name: "list_keys",
    title: "List keys",
    routeId: "listKeys",
    description: "Returns the keys of the account with their limits and spend.",
    annotations: READS,
  },
  {
    name: "create_key",
    title: "Create a key",
    routeId: "mintKey",
    description:
      "Creates a key for another program, and returns its raw value once. A limited key can only create keys within its own limit, scopes and policy.",
    annotations: CREATES,
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
    routeId: "readInvoice",
    description: "Returns an invoice: `status` says whether it is paid.",
    annotations: READS,
    output: Invoice,
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

/** The tools of a gateway with these routes. */
export function createTools(routes: readonly Route[], baseUrl: string): readonly Tool[] {
  const match = createRouter(routes);
  const names = new Map(TOOLS.map(({ routeId, name }) => [routeId, name]));
  const context: ToolContext = {
    baseUrl,
    toolFor: (method, url) => {
      const found = match(method, new URL(url, baseUrl).pathname);
      return found.kind === "route" ? names.get(found.route.id) : undefined;
    },
  };
  return TOOLS.flatMap((spec) => {
    const route = routes.find(({ id, hidden }) => id === spec.routeId && hidden !== true);
    return route === undefined ? [] : [createTool(spec, route, context)];
  });
}

function createTool(spec: ToolSpec, route: Route, context: ToolContext): Tool {
  const { name, title, annotations } = spec;
  const fixed = fixedFields(spec, route);
  const description =
    spec.description ?? [route.summary, route.description ?? ""].join(". ").trim();
  return {
    listing: {
      name,
      title,
      description,
      inputSchema: inputSchema(route, spec.input, fixed),
      outputSchema: outputSchema(route, spec.output),
      annotations: statedHints(annotations),
    },
    method: route.method,
    path: route.path,
    call: async (received) => {
      const call = { ...received, args: withoutNulls(route, received.args) };
      try {
        requireKey(route, call);
        const args = spec.fieldsOf?.(call) ?? call.args;
        const [own, renamed] = renameArguments(args, spec.renamed ?? {});
        const response = await call.send(
          requestOf(route, context.baseUrl, { ...call, args: own }, { ...fixed, ...renamed }),
        );
        return await (spec.resultOf?.(response, call, context) ?? resultOf(response, context));
      } catch (error) {
        const fault = toFault(error);
        if (fault.code === "internal") throw error;
        return faultResult(fault, call.requestId, context);
      }
    },
  };
}

/** The other arguments, and the renamed ones as fields. */
function renameArguments(
  args: JsonObject,
  names: Readonly<Record<string, string>>,
): readonly [JsonObject, JsonObject] {
  const entries = Object.entries(args);
  return [
    Object.fromEntries(entries.filter(([name]) => names[name] === undefined)),
    Object.fromEntries(
      entries.flatMap(([name, value]) => (names[name] === undefined ? [] : [[names[name], value]])),
    ),
  ];
}

/** Without those that are MCP's defaults, or that mean nothing for a tool that only reads. */
function statedHints({
  readOnlyHint,
  destructiveHint,
  idempotentHint,
  openWorldHint,
}: ToolAnnotations): ToolListing["annotations"] {
  return {
    ...(readOnlyHint ? { readOnlyHint } : { destructiveHint }),
    ...(idempotentHint ? { idempotentHint } : {}),
    openWorldHint,
  };
}

/** Models send null for what they leave out. In a change, null removes a setting. */
function withoutNulls({ method }: Route, args: JsonObject): JsonObject {
  if (method === "PATCH") return args;
  return Object.fromEntries(Object.entries(args).filter(([, value]) => value !== null));
}

function requireKey(
  route: Route,
  { args, apiKey, hasSessionKey = false, keyFault, signIn }: ToolCall,
): void {
  if (!requiresKey(route) || hasSessionKey) return;
  if (apiKey !== undefined || args[API_KEY_ARGUMENT] !== undefined) return;
  if (keyFault !== undefined) throw keyFault;
  const signInAdvice =
    signIn === undefined ? "" : "Sign in at this server with your MCP client, or ";
  throw new Fault("invalid_api_key", "no key", {
    message: `The API key is missing. ${capitalize(`${signInAdvice}pass the key of create_account as \`api_key\`, or let the connection send \`authorization: Bearer <API_KEY>\`.`)}`,
    ...(signIn === undefined ? {} : { headers: { "www-authenticate": signIn } }),
  });
}

function fixedFields({ fixed = [] }: ToolSpec, { requestExample }: Route): JsonObject {
  const example = isObject(requestExample) ? requestExample : {};
  return Object.fromEntries(fixed.map((field) => [field, example[field]]));
}

function faultResult(fault: Fault, requestId: string, context: ToolContext): ToolResult {
  const body = errorBody("openai", publicError(fault), requestId);
  const headers = new Headers({ ...fault.options.headers });
  return errorResult(headers, body, "", context);
}

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
