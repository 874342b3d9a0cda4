// Parses requests to Anthropic's Messages and its token count.

import {
  isObject,
  arrayIn,
  numberIn,
  type JsonObject,
  lookUp,
  objectOrEmpty,
  stringOrEmpty,
  stringsOf,
} from "../json-readers.ts";
import {
  addMedia,
  addText,
  addUserText,
  newRequest,
  startUserTurn,
  invalidRequest,
  type NormalizedRequest,
  type CacheTtl,
  type Tool,
  type ToolChoice,
  type InvalidRequest,
} from "../reply/normalized-request.ts";
import { claudeRulesError } from "./claude-rules.ts";
import type { RequestMetadata } from "./simulated-wire.ts";

const MIN_BUDGET_TOKENS = 1_024;
const MAX_THINKING_TOKENS = 64;
const MAX_CACHE_BREAKPOINTS = 4;
const EFFORT_TOKENS: Readonly<Record<string, number>> = {
  low: 16,
  medium: 32,
  high: 64,
  xhigh: 128,
  max: 256,
};

export function parseMessagesRequest(
  body: JsonObject,
  metadata: RequestMetadata,
): NormalizedRequest | InvalidRequest {
  if (metadata.header("anthropic-version") === undefined)
    return invalidRequest(400, "anthropic-version: header is required");
  const model = stringOrEmpty(body["model"]);
  if (model === "") return invalidRequest(400, "model: Field required");
  if (!Array.isArray(body["messages"])) return invalidRequest(400, "messages: Field required");
  const error = validateSettings(body);
  if (error !== undefined) return error;
  const request = newRequest(body, model);
  readSettings(request, body);
  for (const entry of typeof body["system"] === "string"
    ? [{ text: body["system"] }]
    : arrayIn(body["system"])) {
    addText(request, stringOrEmpty(objectOrEmpty(entry)["text"]), cacheTtlOf(objectOrEmpty(entry)));
  }
  return readTurns(request, body["messages"]) ?? validateCacheBreakpoints(request) ?? request;
}

/** The token count requires no `max_tokens`. */
export function parseCountRequest(
  body: JsonObject,
  metadata: RequestMetadata,
): NormalizedRequest | InvalidRequest {
  return parseMessagesRequest({ ...body, max_tokens: 1 << 30 }, metadata);
}

function validateSettings(body: JsonObject): InvalidRequest | undefined {
  const maxTokens = numberIn(body["max_tokens"]);
  if (body["max_tokens"] === undefined) return invalidRequest(400, "max_tokens: Field required");
  if (maxTokens === undefined || !Number.isInteger(maxTokens))
    return invalidRequest(400, "max_tokens: Input should be a valid integer");
  if (maxTokens < 1)
    return invalidRequest(400, "max_tokens: Input should be greater than or equal to 1");
  if (arrayIn(body["messages"]).length === 0)
    return invalidRequest(400, "messages: at least one message is required");
  const temperature = numberIn(body["temperature"]);
  if (temperature !== undefined && (temperature < 0 || temperature > 1))
    return invalidRequest(400, "temperature: range: 0..1");
  return validateRules(body) ?? validateThinking(objectOrEmpty(body["thinking"]), maxTokens);
}

function validateRules(body: JsonObject): InvalidRequest | undefined {
  const message = claudeRulesError({
    model: stringOrEmpty(body["model"]),
    temperature: body["temperature"],
    topP: body["top_p"],
    topK: body["top_k"],
    thinking: objectOrEmpty(body["thinking"]),
    toolChoice: readChoice(objectOrEmpty(body["tool_choice"])),
  });
  if (message !== undefined) return invalidRequest(400, message);
  const last = objectOrEmpty(arrayIn(body["messages"]).at(-1));
  if (last["role"] === "assistant" && WITHOUT_PREFILL.test(stringOrEmpty(body["model"])))
    return invalidRequest(
      400,
      "This model does not support assistant message prefill. The conversation must end with a user message.",
    );
  const tools = arrayIn(body["tools"]).map((tool) => stringOrEmpty(objectOrEmpty(tool)["type"]));
  const outdated = ONLY_COMPUTER_TOOLSET.test(stringOrEmpty(body["model"]))
    ? tools.find((type) => /^computer_\d{8}$/.test(type))
    : undefined;
  return outdated === undefined
    ? undefined
    : invalidRequest(400, `tools: ${outdated} is not supported for this model.`);
}

const WITHOUT_PREFILL = /claude-((opus|sonnet)-4-[6-9]|(opus|sonnet|haiku|fable)-[5-9])/;
const ONLY_COMPUTER_TOOLSET = /claude-(opus|sonnet|haiku)-(5-[5-9]|[6-9])/;

function validateThinking(thinking: JsonObject, maxTokens: number): InvalidRequest | undefined {
  if (thinking["type"] !== "enabled") return undefined;
  const budget = numberIn(thinking["budget_tokens"]);
  if (budget === undefined)
    return invalidRequest(400, "thinking.enabled.budget_tokens: Field required");
  if (budget < MIN_BUDGET_TOKENS)
    return invalidRequest(
      400,
      `thinking.enabled.budget_tokens: Input should be greater than or equal to ${MIN_BUDGET_TOKENS}`,
    );
  return budget < maxTokens
    ? undefined
    : invalidRequest(400, "`max_tokens` must be greater than `thinking.budget_tokens`.");
}

function readSettings(request: NormalizedRequest, body: JsonObject): void {
  request.tools = readTools(arrayIn(body["tools"]));
  for (const entry of arrayIn(body["tools"]))
    addText(request, JSON.stringify(entry), cacheTtlOf(objectOrEmpty(entry)));
  request.toolChoice = readChoice(objectOrEmpty(body["tool_choice"]));
  request.allowsParallelCalls =
    objectOrEmpty(body["tool_choice"])["disable_parallel_tool_use"] !== true;
  const output = objectOrEmpty(body["output_config"]);
  const format = objectOrEmpty(output["format"] ?? body["output_format"]);
  if (format["type"] === "json_schema") {
    request.responseFormat = { kind: "schema", schema: format["schema"] ?? {} };
    addText(request, JSON.stringify(format["schema"] ?? {}));
  }
  request.maxTokens = numberIn(body["max_tokens"]);
  request.stopSequences = stringsOf(body["stop_sequences"]);
  request.reasoningTokens = readThinking(
    objectOrEmpty(body["thinking"]),
    lookUp(EFFORT_TOKENS, stringOrEmpty(output["effort"])),
  );
  request.serviceTier = "standard";
}

function readThinking(thinking: JsonObject, effort: number | undefined): number | undefined {
  switch (thinking["type"]) {
    case "disabled":
      return 0;
    case "enabled":
      return (
        effort ??
        Math.min(MAX_THINKING_TOKENS, Math.floor((numberIn(thinking["budget_tokens"]) ?? 0) / 32))
      );
    case "adaptive":
    case "between_tools":
      return effort ?? MAX_THINKING_TOKENS;
    default:
      return undefined;
  }
}

function readTools(entries: readonly unknown[]): Tool[] {
  const tools: Tool[] = [];
  for (const entry of entries) {
    const tool = objectOrEmpty(entry);
    // Server tools have a dated type and no schema; the simulator runs none.
    if (isObject(tool["input_schema"]))
      tools.push({
        name: stringOrEmpty(tool["name"]),
        schema: tool["input_schema"],
        isFreeform: false,
        isStrict: tool["strict"] === true,
      });
  }
  return tools;
}

function readChoice(choice: JsonObject): ToolChoice {
  switch (choice["type"]) {
    case "any":
      return { kind: "required" };
    case "none":
      return { kind: "none" };
    case "tool":
      return { kind: "named", names: [stringOrEmpty(choice["name"])] };
    default:
      return { kind: "auto" };
  }
}

function validateCacheBreakpoints(request: NormalizedRequest): InvalidRequest | undefined {
  const breakpoints = request.segments.filter((segment) => segment.cacheTtl !== undefined).length;
  return breakpoints > MAX_CACHE_BREAKPOINTS
    ? invalidRequest(
        400,
        `A maximum of ${MAX_CACHE_BREAKPOINTS} blocks with cache_control may be provided. Found ${breakpoints}.`,
      )
    : undefined;
}

function readTurns(
  request: NormalizedRequest,
  turns: readonly unknown[],
): InvalidRequest | undefined {
  let open: readonly string[] = [];
  for (const [index, entry] of turns.entries()) {
    const turn = objectOrEmpty(entry);
    const role = stringOrEmpty(turn["role"]);
    if (!["user", "assistant", "system"].includes(role)) {
      return invalidRequest(400, `messages.${index}.role: Input should be 'user' or 'assistant'`);
    }
    const blocks =
      typeof turn["content"] === "string"
        ? [{ type: "text", text: turn["content"] }]
        : arrayIn(turn["content"]);
    if (blocks.length === 0 && index < turns.length - 1)
      return invalidRequest(400, `messages.${index}: all messages must have non-empty content`);
    const error =
      role === "user"
        ? readUserTurn(request, blocks, { index, open })
        : readAssistantTurn(request, blocks, index);
    if (error !== undefined) return error;
    open = blocks
      .filter((block) => objectOrEmpty(block)["type"] === "tool_use")
      .map((block) => stringOrEmpty(objectOrEmpty(block)["id"]));
  }
  return undefined;
}

function readUserTurn(
  request: NormalizedRequest,
  blocks: readonly unknown[],
  at: { readonly index: number; readonly open: readonly string[] },
): InvalidRequest | undefined {
  const answered = new Set<string>();
  const saysSomething = blocks.some((block) => objectOrEmpty(block)["type"] !== "tool_result");
  if (saysSomething) startUserTurn(request);
  else request.toolResults = [];
  for (const [position, entry] of blocks.entries()) {
    const block = objectOrEmpty(entry);
    const path = `messages.${at.index}.content.${position}`;
    if (block["type"] === "tool_result") {
      const id = stringOrEmpty(block["tool_use_id"]);
      if (!at.open.includes(id)) {
        const rule =
          "Each `tool_result` block must have a corresponding `tool_use` block in the previous message.";
        return invalidRequest(
          400,
          `${path}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${id}. ${rule}`,
        );
      }
      answered.add(id);
    }
    const error = readBlock(request, block, { path, fromUser: true });
    if (error !== undefined) return error;
  }
  const left = at.open.filter((id) => !answered.has(id));
  if (left.length === 0) return undefined;
  const rule = "`tool_use` ids were found without `tool_result` blocks immediately after";
  return invalidRequest(400, `messages.${at.index}: ${rule}: ${left.join(", ")}.`);
}

function readAssistantTurn(
  request: NormalizedRequest,
  blocks: readonly unknown[],
  index: number,
): InvalidRequest | undefined {
  for (const [position, entry] of blocks.entries()) {
    const error = readBlock(request, objectOrEmpty(entry), {
      path: `messages.${index}.content.${position}`,
      fromUser: false,
    });
    if (error !== undefined) return error;
  }
  return undefined;
}

function readBlock(
  request: NormalizedRequest,
  block: JsonObject,
  at: { readonly path: string; readonly fromUser: boolean },
): InvalidRequest | undefined {
  const cacheTtl = cacheTtlOf(block);
  switch (block["type"]) {
    case "text":
      if (stringOrEmpty(block["text"]) === "")
        return invalidRequest(400, "messages: text content blocks must be non-empty");
      addText(request, stringOrEmpty(block["text"]), cacheTtl);
      if (at.fromUser) addUserText(request, stringOrEmpty(block["text"]));
      return undefined;
    case "image":
      addMedia(request, "image", JSON.stringify(block["source"] ?? null), cacheTtl);
      return undefined;
    case "document":
      addMedia(request, "file", JSON.stringify(block["source"] ?? null), cacheTtl);
      return undefined;
    case "tool_result":
      readToolResult(request, block, cacheTtl);
      return undefined;
    default:
      if (typeof block["type"] !== "string")
        return invalidRequest(400, `${at.path}.type: Field required`);
      addText(request, JSON.stringify(block), cacheTtl);
      return undefined;
  }
}

function readToolResult(
  request: NormalizedRequest,
  block: JsonObject,
  cacheTtl: CacheTtl | undefined,
): void {
  const parts =
    typeof block["content"] === "string"
      ? [{ type: "text", text: block["content"] }]
      : arrayIn(block["content"]);
  const texts = parts
    .map((part) => stringOrEmpty(objectOrEmpty(part)["text"]))
    .filter((text) => text !== "");
  request.toolResults.push(texts.join("\n"));
  addText(request, texts.join("\n"), cacheTtl);
  for (const part of parts) {
    if (objectOrEmpty(part)["type"] === "image")
      addMedia(request, "image", JSON.stringify(objectOrEmpty(part)["source"] ?? null));
  }
}

function cacheTtlOf(block: JsonObject): CacheTtl | undefined {
  if (!isObject(block["cache_control"])) return undefined;
  return block["cache_control"]["ttl"] === "1h" ? "1h" : "5m";
}
