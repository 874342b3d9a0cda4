// What the tools that a provider runs by itself may cost: the most pieces that they can charge for, and the most tokens
// that they bring to be read, which no text of the request bounds. A provider bounds some of them by a field of the tool;
// where it does not, a stated number is held, and the reply decides what is charged.

import type { FeeMeter } from "../../base/usage-meters.ts";
import { isObject, type JsonObject } from "../../base/json.ts";

/** Held for a tool whose request sets no limit of its own. */
const DEFAULT_TOOL_CALLS = 10;
const MAX_TOOL_CALLS = 1_000;
/** What one search brings, with what is read again for it. */
const TOKENS_PER_SEARCH = 20_000;
/** What one image that was made counts for where the model sees it again. */
const TOKENS_PER_IMAGE = 4_000;
/** The words of the provider's own about a tool of its kind that the caller runs. */
const TOOL_DESCRIPTION_TOKENS = 4_000;
/** Held where nothing bounds what comes: as long as most contexts are. */
export const UNBOUNDED_TOOL_TOKENS = 200_000;

/** What another model that is asked for advice puts out each time, and how often it is asked where nobody says. */
export const ADVISOR_OUTPUT_TOKENS = 8_000;
const DEFAULT_ADVISOR_CALLS = 3;

const TOOL_FEES: readonly (readonly [type: RegExp, fee: FeeMeter])[] = [
  // Groq's, OpenRouter's and Moonshot's names for it.
  [/^(openrouter:)?web_search|^browser_search|^builtin_function$/, "web_search"],
  [/^web_fetch/, "web_fetch"],
  [/^(code_execution|code_interpreter)/, "code_execution"],
  [/^(file_search|collections_search)/, "file_search"],
  [/^x_search/, "x_search"],
  [/^image_generation/, "image_generation"],
  [/^(google_search|url_context)/, "grounding"],
];
/** All that such a tool brings is in the request, or in the next one. */
const CALLER_TOOL_TYPE = /^(function|custom|namespace)$/;
/** Tools of the provider's making that the caller runs, or that bring nothing but other tools of the request. */
const CLIENT_EXECUTED_TOOL_TYPE =
  /^(local_shell|apply_patch|computer|bash_|text_editor_|memory_|tool_search)/;

const ADVISOR_TOOL_TYPE = /^advisor/;

/** What most requests ask for; this very object, so that it can be told from others at a glance. */
export const NO_FEES: Readonly<Partial<Record<FeeMeter, number>>> = {};

export interface ToolBounds {
  /** The most pieces that can be charged for. */
  readonly fees: Readonly<Partial<Record<FeeMeter, number>>>;
  /** The most tokens that the provider reads besides the request. */
  readonly toolTokens: number;
  readonly advisors: readonly Advisor[];
}

export function toolBounds(json: JsonObject): ToolBounds {
  const tools = toolsOf(json);
  return {
    fees: maxFees(tools, json),
    toolTokens: maxToolTokens(tools, json),
    advisors: advisorsOf(json),
  };
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
export interface Advisor {
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
    return [{ model: String(tool["model"]), calls, param: `tools[${index}].model` }];
  });
}

// The chat wire asks for a search by an option beside the tools.
function hasSearchOption(json: JsonObject): boolean {
  return isGiven(json["web_search_options"]) || isGiven(json["search_parameters"]);
}

// Servers that the provider calls, a compaction that reads all once more, and a mode in which it thinks several times.
function hasUnboundedTools({ mcp_servers, context_management, reasoning }: JsonObject): boolean {
  return (
    (Array.isArray(mcp_servers) && mcp_servers.length > 0) ||
    hasCompaction(context_management) ||
    (isObject(reasoning) && isGiven(reasoning["mode"]) && reasoning["mode"] !== "standard")
  );
}

// Agents ask in every call that old thoughts or results be left out, which only makes the prompt shorter.
function hasCompaction(management: unknown): boolean {
  const edits = isObject(management) ? management["edits"] : management;
  if (!Array.isArray(edits)) return isGiven(edits);
  return !edits.every(
    (edit: unknown) =>
      isObject(edit) && typeof edit["type"] === "string" && edit["type"].startsWith("clear_"),
  );
}

const NO_TOOLS: readonly JsonObject[] = [];

/** The tools of a request. The Responses API takes them among the items as well. */
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
  const each = tool["max_content_tokens"];
  return isCount(each)
    ? Math.min(maxUses(tool, json) * each, UNBOUNDED_TOOL_TOKENS)
    : UNBOUNDED_TOOL_TOKENS;
}

function feeOfTool(tool: JsonObject): FeeMeter | undefined {
  const { type } = tool;
  if (typeof type !== "string") return undefined;
  // A shell on the caller's own machine costs nothing; one in the provider's container costs that container.
  if (type === "shell") return isHosted(tool) ? "code_execution" : undefined;
  return TOOL_FEES.find(([pattern]) => pattern.test(type))?.[1];
}

/** Whether the provider runs it in a container that lasts from one call to the next. */
export function isCodeTool(tool: JsonObject): boolean {
  const { type } = tool;
  return type === "code_interpreter" || (type === "shell" && isHosted(tool));
}

function isHosted({ environment }: JsonObject): boolean {
  return isObject(environment) && environment["type"] !== "local";
}

// What the whole request may do at most bounds each of its tools.
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

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0;
}
