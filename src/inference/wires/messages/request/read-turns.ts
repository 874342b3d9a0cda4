import {
  type JsonObject,
  mustBeArray,
  mustBeObject,
  oneOf,
  unknownFields,
} from "../../../../base/json.ts";
import type { Part } from "../../../canonical/parts.ts";
import type { Turn } from "../../../canonical/request.ts";
import { invalid } from "../../../../base/fault.ts";
import { readBlocks, readText } from "./read-blocks.ts";

const MESSAGE_FIELDS: ReadonlySet<string> = new Set(["role", "content"]);

/** The conversation: `system` is its first turn; a user message of tool results and other things is two turns. */
export function readTurns(system: unknown, messages: readonly unknown[]): readonly Turn[] {
  const turns: Turn[] = [];
  if (system !== undefined && system !== null && system !== "") {
    const parts =
      typeof system === "string"
        ? [readText(system, "system")]
        : readBlocks(mustBeArray(system, "system"), "system");
    if (parts.length > 0) turns.push({ role: "system", parts, path: "system" });
  }
  for (const [at, message] of messages.entries())
    turns.push(...readMessage(mustBeObject(message, `messages[${at}]`), `messages[${at}]`));
  return turns;
}

function readMessage(message: JsonObject, path: string): readonly Turn[] {
  const role = oneOf(message["role"], `${path}.role`, ["user", "assistant", "system"]);
  const { content } = message;
  if (content === undefined || content === null)
    throw invalid(`${path}.content`, `${path}.content is missing.`);
  const fields = unknownFields(message, MESSAGE_FIELDS);
  const native = fields && ({ wire: "messages", fields } as const);
  const parts =
    typeof content === "string"
      ? content === ""
        ? []
        : [readText(content, `${path}.content`)]
      : readBlocks(mustBeArray(content, `${path}.content`), `${path}.content`);
  if (role !== "user" || !parts.some(isToolResult))
    return [
      { role, parts: role === "assistant" ? attachCallSignatures(parts) : parts, path, native },
    ];
  const rest = parts.filter((part) => !isToolResult(part));
  const results: Turn = { role: "tool", parts: parts.filter(isToolResult), path };
  return rest.length === 0 ? [results] : [results, { role: "user", parts: rest, path, native }];
}

function isToolResult(part: Part): boolean {
  return part.type === "tool_result";
}

// What proves a call, or a text, has no field of its own here: it came as a thinking block without text beside it.
function attachCallSignatures(parts: readonly Part[]): readonly Part[] {
  const placed: Part[] = [];
  let waiting: Extract<Part, { type: "reasoning" }> | undefined;
  for (const part of parts) {
    if (part.type === "reasoning" && part.blob?.kind === "call") {
      waiting = part;
      continue;
    }
    const last = placed.at(-1);
    if (part.type === "reasoning" && part.blob?.kind === "text" && last?.type === "text")
      placed[placed.length - 1] = { ...last, signature: part.blob };
    else if (part.type === "tool_call" && waiting !== undefined) {
      placed.push({ ...part, signature: waiting.blob });
      waiting = undefined;
    } else placed.push(part);
  }
  return placed;
}
