// Reads a request to Anthropic's Messages, and one that only wants its tokens counted.

import {
  addMedia,
  addText,
  addUserText,
  newAsk,
  startUserTurn,
  wrong,
  type Ask,
  type CacheLife,
  type Tool,
  type ToolChoice,
  type Wrong,
} from "./ask.ts";
import { fieldsOf, isFields, listOf, numberOf, textOf, textsOf, type Fields } from "./json.ts";
import type { Arrival } from "./wire.ts";

const LEAST_BUDGET_TOKENS = 1_024;
const MAX_THINKING_TOKENS = 64;
const MAX_MARKS = 4;
const EFFORT_TOKENS: Readonly<Record<string, number>> = {
  low: 16,
  medium: 32,
  high: 64,
  xhigh: 128,
  max: 256,
};

export function readMessages(body: Fields, arrival: Arrival): Ask | Wrong {
  if (arrival.header("anthropic-version") === undefined)
    return wrong(400, "anthropic-version: header is required");
  const model = textOf(body["model"]);
  if (model === "") return wrong(400, "model: Field required");
  if (!Array.isArray(body["messages"])) return wrong(400, "messages: Field required");
  const mistake = checkSettings(body);
  if (mistake !== undefined) return mistake;
  const ask = newAsk(body, model);
  readSettings(ask, body);
  for (const entry of typeof body["system"] === "string"
    ? [{ text: body["system"] }]
    : listOf(body["system"])) {
    addText(ask, textOf(fieldsOf(entry)["text"]), markOf(fieldsOf(entry)));
  }
  return readTurns(ask, body["messages"]) ?? checkMarks(ask) ?? ask;
}

/** The count needs no `max_tokens`; everything else is read as for a reply. */
export function readToCount(body: Fields, arrival: Arrival): Ask | Wrong {
  return readMessages({ ...body, max_tokens: 1 << 30 }, arrival);
}

function checkSettings(body: Fields): Wrong | undefined {
  const maxTokens = numberOf(body["max_tokens"]);
  if (body["max_tokens"] === undefined) return wrong(400, "max_tokens: Field required");
  if (maxTokens === undefined || !Number.isInteger(maxTokens))
    return wrong(400, "max_tokens: Input should be a valid integer");
  if (maxTokens < 1) return wrong(400, "max_tokens: Input should be greater than or equal to 1");
  if (listOf(body["messages"]).length === 0)
    return wrong(400, "messages: at least one message is required");
  const temperature = numberOf(body["temperature"]);
  if (temperature !== undefined && (temperature < 0 || temperature > 1))
    return wrong(400, "temperature: range: 0..1");
  return checkThinking(fieldsOf(body["thinking"]), maxTokens);
}

function checkThinking(thinking: Fields, maxTokens: number): Wrong | undefined {
  if (thinking["type"] !== "enabled") return undefined;
  const budget = numberOf(thinking["budget_tokens"]);
  if (budget === undefined) return wrong(400, "thinking.enabled.budget_tokens: Field required");
  if (budget < LEAST_BUDGET_TOKENS)
    return wrong(
      400,
      `thinking.enabled.budget_tokens: Input should be greater than or equal to ${LEAST_BUDGET_TOKENS}`,
    );
  return budget < maxTokens
    ? undefined
    : wrong(400, "`max_tokens` must be greater than `thinking.budget_tokens`.");
}

function readSettings(ask: Ask, body: Fields): void {
  ask.tools = readTools(listOf(body["tools"]));
  for (const entry of listOf(body["tools"]))
    addText(ask, JSON.stringify(entry), markOf(fieldsOf(entry)));
  ask.toolChoice = readChoice(fieldsOf(body["tool_choice"]));
  ask.parallel = fieldsOf(body["tool_choice"])["disable_parallel_tool_use"] !== true;
  const output = fieldsOf(body["output_config"]);
  const format = fieldsOf(output["format"] ?? body["output_format"]);
  if (format["type"] === "json_schema") {
    ask.format = { kind: "schema", schema: format["schema"] ?? {} };
    addText(ask, JSON.stringify(format["schema"] ?? {}));
  }
  ask.maxTokens = numberOf(body["max_tokens"]);
  ask.stop = textsOf(body["stop_sequences"]);
  ask.reasoning = readThinking(fieldsOf(body["thinking"]), EFFORT_TOKENS[textOf(output["effort"])]);
  ask.serviceTier = "standard";
}

function readThinking(thinking: Fields, effort: number | undefined): number | undefined {
  switch (thinking["type"]) {
    case "disabled":
      return 0;
    case "enabled":
      return (
        effort ??
        Math.min(MAX_THINKING_TOKENS, Math.floor((numberOf(thinking["budget_tokens"]) ?? 0) / 32))
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
    const tool = fieldsOf(entry);
    // Tools that the provider runs itself have a dated type and no schema; this provider runs none.
    if (isFields(tool["input_schema"]))
      tools.push({ name: textOf(tool["name"]), schema: tool["input_schema"], freeform: false });
  }
  return tools;
}

function readChoice(choice: Fields): ToolChoice {
  switch (choice["type"]) {
    case "any":
      return { kind: "required" };
    case "none":
      return { kind: "none" };
    case "tool":
      return { kind: "named", names: [textOf(choice["name"])] };
    default:
      return { kind: "auto" };
  }
}

function checkMarks(ask: Ask): Wrong | undefined {
  const marks = ask.segments.filter((segment) => segment.mark !== undefined).length;
  return marks > MAX_MARKS
    ? wrong(
        400,
        `A maximum of ${MAX_MARKS} blocks with cache_control may be provided. Found ${marks}.`,
      )
    : undefined;
}

function readTurns(ask: Ask, turns: readonly unknown[]): Wrong | undefined {
  let open: readonly string[] = [];
  for (const [index, entry] of turns.entries()) {
    const turn = fieldsOf(entry);
    const role = textOf(turn["role"]);
    if (!["user", "assistant", "system"].includes(role)) {
      return wrong(400, `messages.${index}.role: Input should be 'user' or 'assistant'`);
    }
    const blocks =
      typeof turn["content"] === "string"
        ? [{ type: "text", text: turn["content"] }]
        : listOf(turn["content"]);
    if (blocks.length === 0 && index < turns.length - 1)
      return wrong(400, `messages.${index}: all messages must have non-empty content`);
    const mistake =
      role === "user"
        ? readUserTurn(ask, blocks, { index, open })
        : readOtherTurn(ask, blocks, index);
    if (mistake !== undefined) return mistake;
    open = blocks
      .filter((block) => fieldsOf(block)["type"] === "tool_use")
      .map((block) => textOf(fieldsOf(block)["id"]));
  }
  return undefined;
}

function readUserTurn(
  ask: Ask,
  blocks: readonly unknown[],
  at: { readonly index: number; readonly open: readonly string[] },
): Wrong | undefined {
  const answered = new Set<string>();
  const saysSomething = blocks.some((block) => fieldsOf(block)["type"] !== "tool_result");
  if (saysSomething) startUserTurn(ask);
  else ask.toolResults = [];
  for (const [place, entry] of blocks.entries()) {
    const block = fieldsOf(entry);
    const where = `messages.${at.index}.content.${place}`;
    if (block["type"] === "tool_result") {
      const id = textOf(block["tool_use_id"]);
      if (!at.open.includes(id)) {
        const rule =
          "Each `tool_result` block must have a corresponding `tool_use` block in the previous message.";
        return wrong(
          400,
          `${where}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${id}. ${rule}`,
        );
      }
      answered.add(id);
    }
    const mistake = readBlock(ask, block, { where, fromUser: true });
    if (mistake !== undefined) return mistake;
  }
  const left = at.open.filter((id) => !answered.has(id));
  if (left.length === 0) return undefined;
  const rule = "`tool_use` ids were found without `tool_result` blocks immediately after";
  return wrong(400, `messages.${at.index}: ${rule}: ${left.join(", ")}.`);
}

function readOtherTurn(ask: Ask, blocks: readonly unknown[], index: number): Wrong | undefined {
  for (const [place, entry] of blocks.entries()) {
    const mistake = readBlock(ask, fieldsOf(entry), {
      where: `messages.${index}.content.${place}`,
      fromUser: false,
    });
    if (mistake !== undefined) return mistake;
  }
  return undefined;
}

function readBlock(
  ask: Ask,
  block: Fields,
  at: { readonly where: string; readonly fromUser: boolean },
): Wrong | undefined {
  const mark = markOf(block);
  switch (block["type"]) {
    case "text":
      if (textOf(block["text"]) === "")
        return wrong(400, "messages: text content blocks must be non-empty");
      addText(ask, textOf(block["text"]), mark);
      if (at.fromUser) addUserText(ask, textOf(block["text"]));
      return undefined;
    case "image":
      addMedia(ask, "image", JSON.stringify(block["source"] ?? null), mark);
      return undefined;
    case "document":
      addMedia(ask, "file", JSON.stringify(block["source"] ?? null), mark);
      return undefined;
    case "tool_result":
      readToolResult(ask, block, mark);
      return undefined;
    default:
      if (typeof block["type"] !== "string") return wrong(400, `${at.where}.type: Field required`);
      addText(ask, JSON.stringify(block), mark);
      return undefined;
  }
}

function readToolResult(ask: Ask, block: Fields, mark: CacheLife | undefined): void {
  const parts =
    typeof block["content"] === "string"
      ? [{ type: "text", text: block["content"] }]
      : listOf(block["content"]);
  const texts = parts.map((part) => textOf(fieldsOf(part)["text"])).filter((text) => text !== "");
  ask.toolResults.push(texts.join("\n"));
  addText(ask, texts.join("\n"), mark);
  for (const part of parts) {
    if (fieldsOf(part)["type"] === "image")
      addMedia(ask, "image", JSON.stringify(fieldsOf(part)["source"] ?? null));
  }
}

function markOf(block: Fields): CacheLife | undefined {
  if (!isFields(block["cache_control"])) return undefined;
  return block["cache_control"]["ttl"] === "1h" ? "1h" : "5m";
}
