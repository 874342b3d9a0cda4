// What the tools that a provider runs by itself may cost: the most pieces that they can charge for, and the most tokens
// that they bring to be read, which no text of the request bounds. A provider bounds some of them by a field of the tool;
// where it does not, a stated number is held, and the reply decides what is charged.

import type { FeeMeter } from "../base/meters.ts";
import { isObject } from "./canonical-json.ts";

type Json = Readonly<Record<string, unknown>>;

/** Held for a tool whose request sets no limit of its own. */
const CALLS_HELD = 10;
const CALLS_MAX = 1_000;
/** What one search brings, with what is read again for it. */
const SEARCH_TOKENS = 20_000;
/** What one image that was made counts for where the model sees it again. */
const IMAGE_TOKENS = 4_000;
/** The words of the provider's own about a tool of its kind that the caller runs. */
const DESCRIPTION_TOKENS = 4_000;
/** Held where nothing bounds what comes: as long as most contexts are. */
export const OPEN_TOKENS = 200_000;

/** What another model that is asked for advice puts out each time, and how often it is asked where nobody says. */
export const ADVICE_TOKENS = 8_000;
const ADVICES_HELD = 3;

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
const WRITTEN_BY_CALLER = /^(function|custom|namespace)$/;
/** Tools of the provider's making that the caller runs, or that bring nothing but other tools of the request. */
const DESCRIBED_ALONE =
  /^(local_shell|apply_patch|computer|bash_|text_editor_|memory_|tool_search)/;

const ADVISOR = /^advisor/;

/** What most requests ask for; this very object, so that it can be told from others at a glance. */
export const NO_FEES: Readonly<Partial<Record<FeeMeter, number>>> = {};

export function mostFees(json: Json): Readonly<Partial<Record<FeeMeter, number>>> {
  const tools = toolsOf(json);
  const searches = searchesBeside(json);
  if (!searches && tools.length === 0) return NO_FEES;
  const fees: Partial<Record<FeeMeter, number>> = {};
  for (const tool of tools) {
    const fee = feeOf(tool);
    if (fee !== undefined) add(fees, fee, usesOf(tool, json));
  }
  if (searches) add(fees, "web_search", CALLS_HELD);
  return fees;
}

/** The most tokens that the provider reads besides the request; 0 where it reads nothing else. */
export function mostBrought(json: Json): number {
  let tokens = searchesBeside(json) ? CALLS_HELD * SEARCH_TOKENS : 0;
  for (const tool of toolsOf(json)) tokens += broughtBy(tool, json);
  if (isOpen(json)) tokens += OPEN_TOKENS;
  return Math.min(tokens, OPEN_TOKENS);
}

export interface Advisor {
  readonly model: string;
  readonly calls: number;
  readonly param: string;
}

/** The other models that the provider may ask while it answers. */
export function advisorsOf(json: Json): readonly Advisor[] {
  const { tools } = json;
  if (!Array.isArray(tools)) return [];
  return tools.flatMap((tool: unknown, place): readonly Advisor[] => {
    if (!isObject(tool) || typeof tool["type"] !== "string" || !ADVISOR.test(tool["type"]))
      return [];
    const calls = isCount(tool["max_uses"]) ? Math.min(tool["max_uses"], CALLS_MAX) : ADVICES_HELD;
    return [{ model: String(tool["model"]), calls, param: `tools[${place}].model` }];
  });
}

// The chat wire asks for a search by an option beside the tools.
function searchesBeside(json: Json): boolean {
  return isGiven(json["web_search_options"]) || isGiven(json["search_parameters"]);
}

// Servers that the provider calls, a compaction that reads all once more, and a mode in which it thinks several times.
function isOpen({ mcp_servers, context_management, reasoning }: Json): boolean {
  return (
    (Array.isArray(mcp_servers) && mcp_servers.length > 0) ||
    compacts(context_management) ||
    (isObject(reasoning) && isGiven(reasoning["mode"]) && reasoning["mode"] !== "standard")
  );
}

// Agents ask in every call that old thoughts or results be left out, which only makes the prompt shorter.
function compacts(management: unknown): boolean {
  const edits = isObject(management) ? management["edits"] : management;
  if (!Array.isArray(edits)) return isGiven(edits);
  return !edits.every(
    (edit: unknown) =>
      isObject(edit) && typeof edit["type"] === "string" && edit["type"].startsWith("clear_"),
  );
}

const NO_TOOLS: readonly Json[] = [];

/** The tools of a request. The Responses API takes them among the items as well. */
export function toolsOf({ tools, input }: Json): readonly Json[] {
  const own = Array.isArray(tools) ? tools.filter(isObject) : NO_TOOLS;
  if (!Array.isArray(input)) return own;
  const lent = input.flatMap((item: unknown) =>
    isObject(item) && Array.isArray(item["tools"]) ? item["tools"].filter(isObject) : NO_TOOLS,
  );
  return lent.length === 0 ? own : [...own, ...lent];
}

function broughtBy(tool: Json, json: Json): number {
  const { type } = tool;
  if (typeof type !== "string" || WRITTEN_BY_CALLER.test(type)) return 0;
  if (DESCRIBED_ALONE.test(type) || (type === "shell" && !isHosted(tool)))
    return DESCRIPTION_TOKENS;
  if (ADVISOR.test(type)) return DESCRIPTION_TOKENS;
  if (/search/.test(type)) return usesOf(tool, json) * SEARCH_TOKENS;
  if (type.startsWith("image_generation"))
    return Math.min(DESCRIPTION_TOKENS + usesOf(tool, json) * IMAGE_TOKENS, OPEN_TOKENS);
  const each = tool["max_content_tokens"];
  return isCount(each) ? Math.min(usesOf(tool, json) * each, OPEN_TOKENS) : OPEN_TOKENS;
}

function feeOf(tool: Json): FeeMeter | undefined {
  const { type } = tool;
  if (typeof type !== "string") return undefined;
  // A shell on the caller's own machine costs nothing; one in the provider's container costs that container.
  if (type === "shell") return isHosted(tool) ? "code_execution" : undefined;
  return TOOL_FEES.find(([pattern]) => pattern.test(type))?.[1];
}

/** Whether the provider runs it in a container that lasts from one call to the next. */
export function runsCode(tool: Json): boolean {
  const { type } = tool;
  return type === "code_interpreter" || (type === "shell" && isHosted(tool));
}

function isHosted({ environment }: Json): boolean {
  return isObject(environment) && environment["type"] !== "local";
}

// What the whole request may do at most bounds each of its tools.
function usesOf({ max_uses: own }: Json, { max_tool_calls: all }: Json): number {
  const most = isCount(own) ? own : isCount(all) ? all : CALLS_HELD;
  return Math.min(most, isCount(all) ? all : CALLS_MAX, CALLS_MAX);
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
