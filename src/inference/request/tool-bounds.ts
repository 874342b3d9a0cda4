// Upper bounds for tools that the provider runs: how many uses it can charge for, how often it reads the prompt again because of
// them, and what their results add to it. Without a limit in the request, the gateway sets one that the hold covers where the
// provider has a field for it.

import type { FeeMeter } from "@postern/wires";
import { isObject, isSet, type JsonObject, stringIn } from "../../base/json.ts";

/** For a tool without a limit in the request. */
export const DEFAULT_TOOL_CALLS = 10;
export const MAX_TOOL_CALLS = 1_000;
/** The results of one search. */
const TOKENS_PER_SEARCH = 20_000;
/** The same of a search that the gateway runs, which bounds its results. */
const GATEWAY_SEARCH_TOKENS = 8_000;
/** The same of a call to an MCP server that the gateway makes. */
export const MCP_RESULT_TOKENS = 8_000;
/** The definitions of all tools of MCP servers that the gateway calls. No token is shorter than a byte. */
export const MCP_DEFINITION_BYTES = 16_000;
/** A generated image, when the model reads it again. */
const TOKENS_PER_IMAGE = 4_000;
/** The provider's own instructions for a built-in tool that the caller runs. */
const TOOL_DESCRIPTION_TOKENS = 4_000;
/** Output of an advisor model in one call. */
export const ADVISOR_OUTPUT_TOKENS = 8_000;
/** For an advisor without `max_uses`. */
const DEFAULT_ADVISOR_CALLS = 3;

const TOOL_FEES: readonly (readonly [type: RegExp, fee: FeeMeter])[] = [
  [/^web_search_preview/, "web_search_preview"],
  // The last two are Groq's and Moonshot's names.
  [/^(openrouter:)?web_search|^browser_search|^builtin_function$/, "web_search"],
  [/^web_fetch/, "web_fetch"],
  [/^(code_execution|code_interpreter)/, "code_execution"],
  [/^(file_search|collections_search)/, "file_search"],
  [/^x_search/, "x_search"],
  [/^image_generation/, "image_generation"],
  [/^(google_search|url_context)/, "grounding"],
];
/** Results of these tools come with a later request. */
export const CALLER_TOOL_TYPE = /^(function|custom|namespace)$/;
/** Built-in tools that the caller runs, or that only load other tools of the request. */
const CLIENT_EXECUTED_TOOL_TYPE =
  /^(local_shell|apply_patch|computer|bash_|text_editor_|memory_|tool_search)/;

const ADVISOR_TOOL_TYPE = /^advisor/;

/** One object for all requests without fees, so that it can be compared by identity. */
export const NO_FEES: Readonly<Partial<Record<FeeMeter, number>>> = {};

export interface ToolBounds {
  /** How many uses of each fee can be charged at most. */
  readonly fees: Readonly<Partial<Record<FeeMeter, number>>>;
  /** Tokens of the provider's own instructions for tools. */
  readonly toolTokens: number;
  /** How often the provider may read the prompt again, each time with another result of its tools. */
  readonly toolCalls: number;
  /** What one result adds to the prompt at most; undefined if only the model's context bounds it. */
  readonly tokensPerToolCall: number | undefined;
  /** What can limit `toolCalls`, if the request does not: "search" only of tools with `max_uses` on the Messages API. */
  readonly openToolLimit: "any" | "search" | undefined;
  /** Whether the request names MCP servers. */
  readonly hasMcp: boolean;
  readonly advisors: readonly Advisor[];
  readonly containers: readonly RequestedContainer[];
}

/** A container that the provider creates for a tool, whether code runs in it or not. */
interface RequestedContainer {
  readonly param: string;
  /** Undefined for a memory limit that OpenAI does not document. */
  readonly gigabytes: number | undefined;
}

/** By `memory_limit`; without one, OpenAI creates a container of 1 GB. Anthropic has one size, which counts as 1 GB. */
export const CONTAINER_GIGABYTES: ReadonlyMap<unknown, number> = new Map([
  ["1g", 1],
  ["4g", 4],
  ["16g", 16],
  ["64g", 64],
]);

/** Which limits of the request a provider keeps; a field that it does not know limits nothing. */
export interface KeptLimits {
  readonly max_tool_calls: boolean;
  readonly max_uses: boolean;
  /** What one search adds to the prompt at most. */
  readonly searchTokens?: number;
  /** What one call to an MCP server adds at most; undefined if only the model's context bounds it. */
  readonly mcpTokens?: number | undefined;
}

const ALL_LIMITS: KeptLimits = { max_tool_calls: true, max_uses: true };

/** `callsMax`: for tools without a limit in the request. */
export function toolBounds(
  request: JsonObject,
  callsMax = DEFAULT_TOOL_CALLS,
  kept = ALL_LIMITS,
): ToolBounds {
  const json = kept.max_tool_calls ? request : { ...request, max_tool_calls: undefined };
  const tools = toolsOf(json).map((tool) =>
    kept.max_uses && isLimitedByUses(tool) ? tool : withoutLimits(tool),
  );
  if (
    tools.length === 0 &&
    !hasSearchOption(json) &&
    !hasMcpServers(json) &&
    extraPasses(json) === 0
  )
    return NO_BOUNDS;
  return {
    fees: maxFees(tools, json, callsMax),
    toolTokens: tools.reduce((sum, tool) => sum + descriptionTokens(tool), 0),
    ...toolReads(tools, json, callsMax, kept),
    hasMcp: hasMcpServers(json) || tools.some(isMcpTool),
    advisors: advisorsOf(json),
    containers: containersOf(tools),
  };
}

/** The most that the model reads of a page that the gateway fetches; without a limit of the caller, less. */
export const GATEWAY_PAGE_TOKENS_MAX = 100_000;
export const GATEWAY_PAGE_TOKENS = 16_000;

/** The same where the gateway runs tools. */
export function gatewayToolBounds(
  request: JsonObject,
  callsMax: number,
  { hasGatewaySearch, hasGatewayFetch, hasGatewayMcp }: GatewayModel,
): ToolBounds {
  const { tools: listed } = request;
  const tools = Array.isArray(listed)
    ? listed.map((tool: unknown) =>
        hasGatewayFetch === true ? withPageLimit(withOwnLimit(tool)) : withOwnLimit(tool),
      )
    : listed;
  const searchTokens = hasGatewaySearch === true ? GATEWAY_SEARCH_TOKENS : TOKENS_PER_SEARCH;
  const mcpTokens = hasGatewayMcp === true ? MCP_RESULT_TOKENS : undefined;
  const kept = { ...ALL_LIMITS, searchTokens, mcpTokens };
  const bounds = toolBounds({ ...request, tools }, callsMax, kept);
  return bounds.hasMcp && mcpTokens !== undefined
    ? { ...bounds, toolTokens: bounds.toolTokens + MCP_DEFINITION_BYTES }
    : bounds;
}

function withPageLimit(tool: unknown): unknown {
  if (!isObject(tool) || feeOfTool(tool) !== "web_fetch") return tool;
  const { max_content_tokens: limit } = tool;
  const kept = isCount(limit) ? Math.min(limit, GATEWAY_PAGE_TOKENS_MAX) : GATEWAY_PAGE_TOKENS;
  return { ...tool, max_content_tokens: kept };
}

/** OpenRouter's tool has its limit among its parameters. */
function withOwnLimit(tool: unknown): unknown {
  if (!isObject(tool) || tool["type"] !== "openrouter:web_search") return tool;
  const { parameters } = tool;
  return {
    type: "web_search",
    max_uses: isObject(parameters) ? parameters["max_uses"] : undefined,
  };
}

const NO_CONTAINERS: readonly RequestedContainer[] = [];

function containersOf(tools: readonly JsonObject[]): readonly RequestedContainer[] {
  if (!tools.some(isCodeTool)) return NO_CONTAINERS;
  return tools.flatMap((tool, index) => {
    if (!isCodeTool(tool)) return [];
    const field = tool["type"] === "shell" ? "environment" : "container";
    const settings = tool[field];
    const memory = (isObject(settings) ? settings["memory_limit"] : undefined) ?? "1g";
    const param = `tools[${index}].${field}.memory_limit`;
    return [{ param, gigabytes: CONTAINER_GIGABYTES.get(memory) }];
  });
}

function maxFees(
  tools: readonly JsonObject[],
  json: JsonObject,
  callsMax: number,
): ToolBounds["fees"] {
  const hasSearch = hasSearchOption(json);
  if (!hasSearch && tools.length === 0) return NO_FEES;
  const fees: Partial<Record<FeeMeter, number>> = {};
  for (const tool of tools) {
    const fee = feeOfTool(tool);
    if (fee !== undefined) add(fees, fee, maxUses(tool, json, callsMax));
  }
  if (hasSearch) add(fees, "web_search", callsMax);
  return fees;
}

/** The meters of web searches, by the names of the APIs that callers use. */
export const SEARCH_METERS = ["web_search", "web_search_preview", "grounding"] as const;

function asksForFetch({ fees }: Pick<ToolBounds, "fees">): boolean {
  return fees.web_fetch !== undefined;
}

function asksForSearch({ fees }: Pick<ToolBounds, "fees">): boolean {
  return fees !== NO_FEES && SEARCH_METERS.some((meter) => fees[meter] !== undefined);
}

/** The tools of a call that the gateway runs on its own accounts, because the model's provider does not. */
export function gatewayToolsOf(
  request: Pick<ToolBounds, "fees" | "hasMcp">,
  { hasGatewaySearch, hasGatewayFetch, hasGatewayMcp }: GatewayModel,
): { readonly search: boolean; readonly fetch: boolean; readonly mcp: boolean } {
  return {
    mcp: hasGatewayMcp === true && request.hasMcp,
    search: hasGatewaySearch === true && asksForSearch(request),
    fetch: hasGatewayFetch === true && asksForFetch(request),
  };
}

interface GatewayModel {
  readonly hasGatewaySearch?: true;
  readonly hasGatewayFetch?: true;
  readonly hasGatewayMcp?: true;
}

export function usesGatewayTools(
  request: Pick<ToolBounds, "fees" | "hasMcp">,
  model: GatewayModel,
): boolean {
  const { search, fetch, mcp } = gatewayToolsOf(request, model);
  return search || fetch || mcp;
}

type ToolReads = Pick<ToolBounds, "toolCalls" | "tokensPerToolCall" | "openToolLimit">;

const NO_READS: ToolReads = { toolCalls: 0, tokensPerToolCall: 0, openToolLimit: undefined };

function toolReads(
  tools: readonly JsonObject[],
  json: JsonObject,
  callsMax: number,
  { searchTokens = TOKENS_PER_SEARCH, mcpTokens }: KeptLimits,
): ToolReads {
  const providerTools = tools.filter(isProviderRun);
  const hasServers = hasMcpServers(json);
  const passes = extraPasses(json);
  const sizes = providerTools.map((tool) =>
    isMcpTool(tool) ? mcpTokens : resultTokens(tool, searchTokens),
  );
  if (hasSearchOption(json)) sizes.push(searchTokens);
  if (hasServers) sizes.push(mcpTokens);
  if (sizes.length === 0 && passes === 0) return NO_READS;
  const open = providerTools.filter(({ max_uses: uses }) => !isCount(uses));
  const isOpen = open.length > 0 || sizes.length > providerTools.length;
  const isUnbounded = passes > 0 || sizes.includes(undefined);
  return {
    toolCalls:
      callsOf(providerTools, json, isOpen ? callsMax * openLimits(open, json) : 0) + passes,
    tokensPerToolCall: isUnbounded ? undefined : Math.max(...sizes.map((size) => size ?? 0)),
    openToolLimit:
      isOpen && !isCount(json["max_tool_calls"]) ? toolLimit(open, hasServers) : undefined,
  };
}

function callsOf(
  tools: readonly JsonObject[],
  { max_tool_calls: requestLimit }: JsonObject,
  open: number,
): number {
  if (isCount(requestLimit)) return Math.min(requestLimit, MAX_TOOL_CALLS);
  let calls = open;
  for (const { max_uses: uses } of tools) if (isCount(uses)) calls += uses;
  return Math.min(calls, MAX_TOOL_CALLS);
}

function toolLimit(open: readonly JsonObject[], hasServers: boolean): "any" | "search" {
  return !hasServers && open.every(isLimitedByUses) ? "search" : "any";
}

const NO_ADVISORS: readonly Advisor[] = [];

const NO_BOUNDS: ToolBounds = {
  fees: NO_FEES,
  toolTokens: 0,
  ...NO_READS,
  hasMcp: false,
  advisors: NO_ADVISORS,
  containers: NO_CONTAINERS,
};

/** Another model that the provider may ask during the call. */
interface Advisor {
  readonly model: string;
  readonly calls: number;
  readonly param: string;
}

function advisorsOf({ tools }: JsonObject): readonly Advisor[] {
  if (!Array.isArray(tools)) return NO_ADVISORS;
  return tools.flatMap((tool: unknown, index): readonly Advisor[] => {
    if (
      !isObject(tool) ||
      typeof tool["type"] !== "string" ||
      !ADVISOR_TOOL_TYPE.test(tool["type"])
    )
      return [];
    const calls = isCount(tool["max_uses"])
      ? Math.min(tool["max_uses"], MAX_TOOL_CALLS)
      : DEFAULT_ADVISOR_CALLS;
    return [{ model: stringIn(tool["model"]) ?? "", calls, param: `tools[${index}].model` }];
  });
}

// Chat Completions enable search by a top-level option.
function hasSearchOption(json: JsonObject): boolean {
  return isSet(json["web_search_options"]) || isSet(json["search_parameters"]);
}

/** `max_tool_calls` of Responses limits all tools together, `max_uses` of the Messages API each of them. */
function openLimits(open: readonly JsonObject[], { messages }: JsonObject): number {
  return messages === undefined ? 1 : Math.max(1, open.length);
}

function hasMcpServers({ mcp_servers: servers }: JsonObject): boolean {
  return Array.isArray(servers) && servers.length > 0;
}

/** A server, or in the Messages API the tools of one. */
function isMcpTool({ type }: JsonObject): boolean {
  return type === "mcp" || type === "mcp_toolset";
}

// Compaction reads everything again, and so do reasoning modes of several passes.
function extraPasses({ context_management, reasoning }: JsonObject): number {
  const hasMode =
    isObject(reasoning) && isSet(reasoning["mode"]) && reasoning["mode"] !== "standard";
  return (hasCompaction(context_management) ? 1 : 0) + (hasMode ? 1 : 0);
}

// Agents clear old reasoning and results in every call; that only shortens the prompt.
function hasCompaction(management: unknown): boolean {
  const edits = isObject(management) ? management["edits"] : management;
  if (!Array.isArray(edits)) return isSet(edits);
  return !edits.every(
    (edit: unknown) =>
      isObject(edit) && typeof edit["type"] === "string" && edit["type"].startsWith("clear_"),
  );
}

const NO_TOOLS: readonly JsonObject[] = [];

/** The tools of a request. In the Responses API, items may have tools, too. */
export function toolsOf({ tools, input }: JsonObject): readonly JsonObject[] {
  const own = Array.isArray(tools) ? tools.filter(isObject) : NO_TOOLS;
  if (!Array.isArray(input)) return own;
  const itemTools = input.flatMap((item: unknown) =>
    isObject(item) && Array.isArray(item["tools"]) ? item["tools"].filter(isObject) : NO_TOOLS,
  );
  return itemTools.length === 0 ? own : [...own, ...itemTools];
}

function descriptionTokens(tool: JsonObject): number {
  const { type } = tool;
  if (typeof type !== "string" || CALLER_TOOL_TYPE.test(type)) return 0;
  return !isProviderRun(tool) || type.startsWith("image_generation") ? TOOL_DESCRIPTION_TOKENS : 0;
}

/** Whether the provider runs it and reads its result within the call. An advisor has a price of its own. */
function isProviderRun(tool: JsonObject): boolean {
  const { type } = tool;
  if (typeof type !== "string" || CALLER_TOOL_TYPE.test(type) || ADVISOR_TOOL_TYPE.test(type))
    return false;
  return type === "shell" ? isHosted(tool) : !CLIENT_EXECUTED_TOOL_TYPE.test(type);
}

function withoutLimits(tool: JsonObject): JsonObject {
  return { ...tool, max_uses: undefined, max_content_tokens: undefined };
}

function isLimitedByUses({ type }: JsonObject): boolean {
  return LIMITED_BY_USES.test(String(type));
}

/** Tools that the Messages API limits by `max_uses`. */
export const LIMITED_BY_USES = /^web_(search|fetch)/;

function resultTokens(
  { type, max_content_tokens: limit }: JsonObject,
  searchTokens: number,
): number | undefined {
  if (typeof type === "string" && /search/.test(type)) return searchTokens;
  if (typeof type === "string" && type.startsWith("image_generation")) return TOKENS_PER_IMAGE;
  return isCount(limit) ? limit : undefined;
}

/** The fee of a tool; undefined if it costs tokens only or is unknown. */
export function feeOfTool(tool: JsonObject): FeeMeter | undefined {
  const { type } = tool;
  if (typeof type !== "string") return undefined;
  // A shell is charged for only if it runs in the provider's container.
  if (type === "shell") return isHosted(tool) ? "code_execution" : undefined;
  return TOOL_FEES.find(([pattern]) => pattern.test(type))?.[1];
}

/** Whether the provider runs it in a container that outlives the call. */
export function isCodeTool(tool: JsonObject): boolean {
  const { type } = tool;
  if (type === "shell") return isHosted(tool);
  return typeof type === "string" && /^(code_interpreter$|code_execution_\d{8}$)/.test(type);
}

function isHosted({ environment }: JsonObject): boolean {
  return isObject(environment) && environment["type"] !== "local";
}

// `max_tool_calls` limits the request as a whole, so also each of its tools.
function maxUses(
  { max_uses: toolLimit }: JsonObject,
  { max_tool_calls: requestLimit }: JsonObject,
  callsMax: number,
): number {
  const limit = isCount(toolLimit) ? toolLimit : isCount(requestLimit) ? requestLimit : callsMax;
  return Math.min(limit, isCount(requestLimit) ? requestLimit : MAX_TOOL_CALLS, MAX_TOOL_CALLS);
}

function add(fees: Partial<Record<FeeMeter, number>>, fee: FeeMeter, count: number): void {
  fees[fee] = (fees[fee] ?? 0) + count;
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0;
}
