// Upper bounds for tools that the provider runs: how many uses it can charge for, and how many tokens they add to the input.
// Some tools have a field that limits them; for the others a fixed number is held, and the provider's usage decides the charge.

import type { FeeMeter } from "@postern/wires";
import { isObject, isSet, type JsonObject, stringIn } from "../../base/json.ts";

/** For a tool without a limit in the request. */
export const DEFAULT_TOOL_CALLS = 10;
const MAX_TOOL_CALLS = 1_000;
/** The results of one search, and the prompt that the model reads again because of it. */
const TOKENS_PER_SEARCH = 20_000;
/** A generated image, when the model reads it again. */
const TOKENS_PER_IMAGE = 4_000;
/** The provider's own instructions for a built-in tool that the caller runs. */
const TOOL_DESCRIPTION_TOKENS = 4_000;
/** For tools whose results nothing bounds: the context length of most models. */
export const UNBOUNDED_TOOL_TOKENS = 200_000;

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
  /** How many tokens tools can add to the input at most. */
  readonly toolTokens: number;
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

export function toolBounds(json: JsonObject): ToolBounds {
  const tools = toolsOf(json);
  return {
    fees: maxFees(tools, json),
    toolTokens: maxToolTokens(tools, json),
    advisors: advisorsOf(json),
    containers: containersOf(tools),
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

function maxFees(tools: readonly JsonObject[], json: JsonObject): ToolBounds["fees"] {
  const hasSearch = hasSearchOption(json);
  if (!hasSearch && tools.length === 0) return NO_FEES;
  const fees: Partial<Record<FeeMeter, number>> = {};
  for (const tool of tools) {
    const fee = feeOfTool(tool);
    if (fee !== undefined) add(fees, fee, maxUses(tool, json));
  }
  if (hasSearch) add(fees, "web_search", DEFAULT_TOOL_CALLS);
  return fees;
}

function maxToolTokens(tools: readonly JsonObject[], json: JsonObject): number {
  let tokens = hasSearchOption(json) ? DEFAULT_TOOL_CALLS * TOKENS_PER_SEARCH : 0;
  for (const tool of tools) tokens += tokensOfTool(tool, json);
  if (hasUnboundedTools(json)) tokens += UNBOUNDED_TOOL_TOKENS;
  return Math.min(tokens, UNBOUNDED_TOOL_TOKENS);
}

const NO_ADVISORS: readonly Advisor[] = [];

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

// MCP servers that the provider calls, compaction, which reads everything again, and reasoning modes of several passes.
function hasUnboundedTools({ mcp_servers, context_management, reasoning }: JsonObject): boolean {
  return (
    (Array.isArray(mcp_servers) && mcp_servers.length > 0) ||
    hasCompaction(context_management) ||
    (isObject(reasoning) && isSet(reasoning["mode"]) && reasoning["mode"] !== "standard")
  );
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

function tokensOfTool(tool: JsonObject, json: JsonObject): number {
  const { type } = tool;
  if (typeof type !== "string" || CALLER_TOOL_TYPE.test(type)) return 0;
  if (CLIENT_EXECUTED_TOOL_TYPE.test(type) || (type === "shell" && !isHosted(tool)))
    return TOOL_DESCRIPTION_TOKENS;
  if (ADVISOR_TOOL_TYPE.test(type)) return TOOL_DESCRIPTION_TOKENS;
  if (/search/.test(type)) return maxUses(tool, json) * TOKENS_PER_SEARCH;
  if (type.startsWith("image_generation"))
    return Math.min(
      TOOL_DESCRIPTION_TOKENS + maxUses(tool, json) * TOKENS_PER_IMAGE,
      UNBOUNDED_TOOL_TOKENS,
    );
  return isCount(tool["max_content_tokens"])
    ? Math.min(maxUses(tool, json) * tool["max_content_tokens"], UNBOUNDED_TOOL_TOKENS)
    : UNBOUNDED_TOOL_TOKENS;
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
): number {
  const limit = isCount(toolLimit)
    ? toolLimit
    : isCount(requestLimit)
      ? requestLimit
      : DEFAULT_TOOL_CALLS;
  return Math.min(limit, isCount(requestLimit) ? requestLimit : MAX_TOOL_CALLS, MAX_TOOL_CALLS);
}

function add(fees: Partial<Record<FeeMeter, number>>, fee: FeeMeter, count: number): void {
  fees[fee] = (fees[fee] ?? 0) + count;
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0;
}
