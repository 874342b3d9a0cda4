// The MCP server on the official SDK, for one HTTP request. The SDK speaks both revisions and checks the headers of 2026-07-28
// against the body. It is imported on the first request: importing it takes as long as a tenth of the start of the gateway.

import type {
  CallToolResult,
  GetPromptResult,
  InputRequiredResult,
  Server,
  ServerContext,
} from "@modelcontextprotocol/server";
import type * as sdkModule from "@modelcontextprotocol/server";
import type { Fault } from "../base/fault.ts";
import { isObject, type JsonObject, objectIn, stringIn } from "../base/json.ts";
import { shortName } from "../base/text/suggest.ts";
import { HOUR_MS } from "../base/time.ts";
import type { Route } from "../http/route.ts";
import {
  CREDENTIAL_META,
  credentialHeader,
  PAYMENT_REQUIRED,
  paymentCapability,
  paymentErrorOf,
  withChallengeId,
} from "./machine-payments.ts";
import { listResources, listResourceTemplates, type Resource, resourcePath } from "./resources.ts";
import { encodePayment, PAYMENT_META, successResult } from "./tool-result.ts";
import type { Tool, ToolResult } from "./tool.ts";

type Sdk = typeof sdkModule;

export interface McpDeps {
  readonly sdk: Sdk;
  readonly tools: readonly Tool[];
  readonly resources: readonly Resource[];
  readonly baseUrl: string;
  readonly version: string;
  readonly instructions: string;
  readonly states: RequestStates;
  /** The payment methods of a 402. */
  readonly paymentMethods: readonly string[];
}

export interface McpConnection {
  readonly requestId: string;
  readonly apiKey: string | undefined;
  /** Whether the session has the key of an account that it created. */
  readonly hasSessionKey?: boolean;
  /** Why the key that was sent does not work. */
  readonly keyFault?: Fault | undefined;
  /** The challenge with which a client can sign in; undefined if no person can. */
  readonly signIn?: string | undefined;
  readonly send: (request: Request) => Promise<Response>;
}

export async function loadMcpDeps(
  routes: readonly Route[],
  tools: readonly Tool[],
  {
    baseUrl,
    version,
    paymentMethods,
    stateKey,
  }: Pick<McpDeps, "baseUrl" | "version" | "paymentMethods"> & { readonly stateKey: Uint8Array },
): Promise<McpDeps> {
  const sdk = await import("@modelcontextprotocol/server");
  const resources = listResources(routes, baseUrl);
  return {
    sdk,
    tools,
    resources,
    baseUrl,
    version,
    paymentMethods,
    instructions: instructions(baseUrl),
    states: createRequestStates(sdk, stateKey),
  };
}

function instructions(baseUrl: string): string {
  return `Postern is an AI gateway. If a tool says that the key is missing, let your human sign in with this client, or call create_account: it returns a funded account's key, which the other tools of the session use. Then call send_message with a model from list_models. Ask your human before you use their email address or spend money, and never open their links yourself. Every error has a code and \`next\` steps; ${baseUrl}/auth.md explains payment and how a human claims the account.`;
}

/** Tools and resources change only with a new version of the gateway. */
const LISTS_CACHE = { ttlMs: HOUR_MS, cacheScope: "public" } as const;

export async function serveMcp(
  deps: McpDeps,
  connection: McpConnection,
  request: Request,
): Promise<Response> {
  const handler = deps.sdk.createMcpHandler(() => createServer(deps, connection), {
    // Nothing of this server ever changes while it runs, so there is nothing to listen for.
    maxSubscriptions: 0,
  });
  return handler.fetch(request);
}

function createServer(deps: McpDeps, connection: McpConnection): Server {
  const { sdk, tools, resources, baseUrl, version } = deps;
  const server = new sdk.Server(
    { name: "postern", title: "Postern", version, websiteUrl: baseUrl },
    {
      capabilities: {
        tools: {},
        resources: {},
        prompts: {},
        ...paymentCapability(deps.paymentMethods.filter((method) => method !== X402)),
      },
      instructions: deps.instructions,
      requestState: { verify: (state, context) => deps.states.verify(state, context) },
      cacheHints: {
        "server/discover": LISTS_CACHE,
        "tools/list": LISTS_CACHE,
        "prompts/list": LISTS_CACHE,
        "resources/list": LISTS_CACHE,
        "resources/templates/list": LISTS_CACHE,
      },
    },
  );
  server.setRequestHandler("tools/list", ({ params }) => {
    rejectCursor(sdk, params?.cursor);
    return { tools: tools.map(({ listing }) => listing) };
  });
  server.setRequestHandler("prompts/list", ({ params }) => {
    rejectCursor(sdk, params?.cursor);
    return { prompts: PROMPTS.map(listedPrompt) };
  });
  server.setRequestHandler("prompts/get", ({ params }) => getPrompt(sdk, params));
  server.setRequestHandler("resources/list", ({ params }) => {
    rejectCursor(sdk, params?.cursor);
    return { resources: [...resources] };
  });
  server.setRequestHandler("resources/templates/list", ({ params }) => {
    rejectCursor(sdk, params?.cursor);
    return { resourceTemplates: [...listResourceTemplates(baseUrl)] };
  });
  server.setRequestHandler("tools/call", ({ params }, context) =>
    callTool(deps, connection, params, context),
  );
  server.setRequestHandler("resources/read", ({ params: { uri } }, { mcpReq }) =>
    readResource(deps, connection, uri, mcpReq.signal),
  );
  return server;
}

/** Every list fits one page, so no cursor was ever given out. */
function rejectCursor({ ProtocolError, ProtocolErrorCode }: Sdk, cursor: string | undefined): void {
  if (cursor !== undefined)
    throw new ProtocolError(
      ProtocolErrorCode.InvalidParams,
      "`cursor` is unknown: this list has one page. Leave it out.",
    );
}

function listedPrompt({ text: _text, arguments: known, ...prompt }: Prompt) {
  return { ...prompt, arguments: known.map((argument) => ({ ...argument })) };
}

function getPrompt(
  { ProtocolError, ProtocolErrorCode }: Sdk,
  {
    name,
    arguments: args = {},
  }: { readonly name: string; readonly arguments?: Record<string, string> | undefined },
): GetPromptResult {
  const prompt = PROMPTS.find((each) => each.name === name);
  if (prompt === undefined)
    throw new ProtocolError(
      ProtocolErrorCode.InvalidParams,
      `There is no prompt \`${shortName(name)}\`. Use one from prompts/list.`,
      { prompts: PROMPTS.map((each) => each.name) },
    );
  const missing = missingArgument(prompt, args);
  if (missing !== undefined)
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, `\`${missing}\` is required.`, {
      param: missing,
    });
  const content = { type: "text" as const, text: prompt.text(args) };
  return { description: prompt.description, messages: [{ role: "user", content }] };
}

const X402 = "x402";

interface CallParams {
  readonly name: string;
  readonly arguments?: Record<string, unknown> | undefined;
  readonly _meta?: Record<string, unknown> | undefined;
}

async function callTool(
  { sdk, tools, paymentMethods, states }: McpDeps,
  connection: McpConnection,
  { name, arguments: args = {}, _meta: meta = {} }: CallParams,
  context: ServerContext,
): Promise<CallToolResult | InputRequiredResult> {
  const { mcpReq } = context;
  const tool = tools.find(({ listing }) => listing.name === name);
  if (tool === undefined)
    throw new sdk.ProtocolError(
      sdk.ProtocolErrorCode.InvalidParams,
      `There is no tool \`${shortName(name)}\`. Use one from tools/list.`,
      { tools: tools.map(({ listing }) => listing.name) },
    );
  const resumed = resumedResult(name, context);
  if (resumed !== undefined) return toCallResult(resumed);
  const { progressToken } = meta;
  const onProgress =
    typeof progressToken === "string" || typeof progressToken === "number"
      ? (progress: number, message: string) =>
          mcpReq.notify({
            method: "notifications/progress",
            params: { progressToken, progress, message },
          })
      : undefined;
  const payment = isObject(meta) ? encodePayment(meta[PAYMENT_META]) : undefined;
  const credential = credentialHeader(meta[CREDENTIAL_META]);
  const result = await tool.call({
    ...connection,
    args,
    payment,
    credential,
    onProgress,
    signal: mcpReq.signal,
  });
  const error = paymentErrorOf(result);
  // Clients of x402 know only results. Revision 2026-07-28 of MCP keeps the code for itself; there, a result has the challenges.
  const isResult =
    error?.code === PAYMENT_REQUIRED &&
    (mcpReq.envelope !== undefined ||
      (paymentMethods.includes(X402) && meta[CREDENTIAL_META] === undefined));
  if (error !== undefined && !isResult)
    throw new sdk.ProtocolError(error.code, error.message, error.data);
  const asked = await askToOpen({ sdk, states }, name, result, context);
  return asked ?? toCallResult(withChallengeId(result, meta[CREDENTIAL_META]));
}

function toCallResult({ content, structuredContent, isError, _meta }: ToolResult): CallToolResult {
  return {
    content,
    ...(structuredContent === undefined ? {} : { structuredContent: { ...structuredContent } }),
    ...(isError === undefined ? {} : { isError }),
    ...(_meta === undefined ? {} : { _meta: { ..._meta } }),
  };
}

async function readResource(
  { sdk, resources, baseUrl }: McpDeps,
  { send }: McpConnection,
  uri: string,
  signal: AbortSignal,
): Promise<{ contents: { uri: string; mimeType: string; text: string }[] }> {
  const path = resourcePath(uri, baseUrl, resources);
  if (path === undefined) throw new sdk.ResourceNotFoundError(uri);
  const response = await send(new Request(`${baseUrl}${path}`, { signal }));
  const text = await response.text();
  if (response.status === 404) throw new sdk.ResourceNotFoundError(uri);
  if (!response.ok) throw new sdk.ProtocolError(sdk.ProtocolErrorCode.InternalError, text);
  const mimeType = response.headers.get("content-type") ?? "text/plain";
  return { contents: [{ uri, mimeType, text }] };
}

// Prompts: tasks that a person starts from the menu of their client. Each tells the model which tools to call, and what to ask.

interface Prompt {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly arguments: readonly {
    readonly name: string;
    readonly description: string;
    readonly required: boolean;
  }[];
  readonly text: (args: Readonly<Record<string, string>>) => string;
}

const NEVER_OPEN = "Never open the link yourself.";

const PROMPTS: readonly Prompt[] = [
  {
    name: "start",
    title: "Get started",
    description: "Get an account, and call the cheapest model.",
    arguments: [],
    text: () =>
      "Call get_balance. If it says that the key is missing, ask me whether I want to sign in with this client or get a new account, and call create_account only for the latter. Then call the cheapest model of list_models with send_message, and tell me what the call cost and what is left.",
  },
  {
    name: "claim",
    title: "Claim the account",
    description: "Make the account yours: its key keeps working.",
    arguments: [
      { name: "email", description: "The address that you sign in with.", required: true },
    ],
    text: ({ email = "" }) =>
      `Call start_claim with the email ${email}. Give me its link and its code. ${NEVER_OPEN} Then call poll_claim every \`interval\` seconds until I have decided, and tell me the result.`,
  },
  {
    name: "buy_credits",
    title: "Buy credits",
    description: "Create an invoice, and pay it on a page.",
    arguments: [
      { name: "amount_usd", description: "For how many US dollars: 10.", required: true },
    ],
    text: ({ amount_usd: amount = "" }) =>
      `Call create_invoice with amount_usd ${amount}. Tell me its total with the fee, and give me its \`pay_url\`. ${NEVER_OPEN} When I say that I paid, call get_invoice and get_balance, and tell me what they say.`,
  },
];

/** Names the first required argument that is missing. */
function missingArgument(
  { arguments: known }: Prompt,
  args: Readonly<Record<string, string>>,
): string | undefined {
  return known.find(({ name, required }) => required && (args[name] ?? "") === "")?.name;
}

// Links for the person: where the client can open one itself (URL elicitation of revision 2026-07-28), the person gets the link
// of a claim or of an invoice from the client, and not by way of the model. The result of the tool waits in the request state.

const CAPABILITIES_META = "io.modelcontextprotocol/clientCapabilities";
const LINK = "link";
/** As long as a claim, which is the shorter one. */
const STATE_SECONDS = 900;

type RequestStates = ReturnType<typeof createRequestStates>;

/** The client carries the state, so it is authenticated, and works for the tool that it was made for alone. */
function createRequestStates({ createRequestStateCodec }: typeof sdkModule, key: Uint8Array) {
  return createRequestStateCodec<{ readonly tool: string; readonly result: JsonObject }>({
    key,
    ttlSeconds: STATE_SECONDS,
  });
}

interface ElicitationDeps {
  readonly sdk: typeof sdkModule;
  readonly states: RequestStates;
}

interface Link {
  readonly url: string;
  readonly message: string;
}

/** The link in the result of a tool; undefined if there is none to open. */
function linkOf(tool: string, result: JsonObject): Link | undefined {
  if (tool === "start_claim") {
    const attempt = objectIn(result["claim_attempt"]);
    const url = stringIn(attempt?.["verification_uri_complete"]);
    const code = stringIn(attempt?.["user_code"]) ?? "";
    return url === undefined
      ? undefined
      : { url, message: `Claim the account. The page must show the code ${code}.` };
  }
  const url = tool === "create_invoice" ? stringIn(result["pay_url"]) : undefined;
  return url === undefined ? undefined : { url, message: "Pay the invoice for credits." };
}

/** Asks the client to open the link of a result; undefined if the result has none, or if the client cannot. */
async function askToOpen(
  { sdk: { inputRequired }, states }: ElicitationDeps,
  tool: string,
  { structuredContent: result, isError }: ToolResult,
  { mcpReq: { envelope } }: ServerContext,
): Promise<InputRequiredResult | undefined> {
  if (isError === true || result === undefined || !canOpen(envelope)) return undefined;
  const link = linkOf(tool, result);
  if (link === undefined) return undefined;
  return inputRequired({
    inputRequests: { [LINK]: inputRequired.elicitUrl(link) },
    requestState: await states.mint({ tool, result }),
  });
}

function canOpen(envelope: unknown): boolean {
  const capabilities = isObject(envelope) ? objectIn(envelope[CAPABILITIES_META]) : undefined;
  return objectIn(objectIn(capabilities?.["elicitation"])?.["url"]) !== undefined;
}

/** The result of a tool whose link the client has shown: what it did is not done again. Undefined for a call of another tool. */
function resumedResult(tool: string, { mcpReq }: ServerContext): ToolResult | undefined {
  const state = mcpReq.requestState();
  if (!isObject(state) || state["tool"] !== tool) return undefined;
  const answer = objectIn(mcpReq.inputResponses?.[LINK]);
  const result = objectIn(state["result"]) ?? {};
  return successResult({ ...result, link_opened: answer?.["action"] === "accept" });
}
